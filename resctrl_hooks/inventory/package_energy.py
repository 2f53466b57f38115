"""The energy of whole processor packages from RAPL, to compare with the sum of the pods' energy.

Source: Linux, Documentation/power/powercap/powercap.rst.
"""

import os
import re
from typing import Final

POWERCAP: Final = "/sys/class/powercap"
_ZONE: Final = re.compile(r"intel-rapl:\d+")
_MICROJOULES: Final = 1e6


class Packages:
    """The packages' counters, unwrapped between reads.

    Args:
        powercap: the kernel's folder of zones.
    """

    def __init__(self, powercap: str = POWERCAP) -> None:
        self._powercap = powercap
        self._last: dict[str, int] = {}
        self._total: dict[str, int] = {}

    def read(self) -> dict[str, float]:
        """Return the joules of each package since some moment before the first read; empty if unknown.

        Only root may read them. AMD's processors have the same zones.
        """
        try:
            zones = [name for name in sorted(os.listdir(self._powercap)) if _ZONE.fullmatch(name)]
        except OSError:
            return {}
        found: dict[str, float] = {}
        for zone in zones:
            try:
                name, now = self._text(zone, "name"), int(self._text(zone, "energy_uj"))
                last = self._last.get(name, now)
                wrap = int(self._text(zone, "max_energy_range_uj")) if now < last else 0
            except (OSError, ValueError):
                continue
            if not name.startswith("package"):
                continue  # psys includes the packages
            self._total[name] = self._total.get(name, now) + (now + wrap - last)
            self._last[name] = now
            found[name] = self._total[name] / _MICROJOULES
        return found

    def _text(self, zone: str, name: str) -> str:
        with open(f"{self._powercap}/{zone}/{name}", encoding="utf-8") as file:
            return file.read().strip()
