"""The energy of whole processor packages from RAPL, to compare with the sum of the pods' energy.

Source: Linux, Documentation/power/powercap/powercap.rst.
"""

import posix

from ....core.node.host.files import kernel_text
from ....core.node.resctrl.total import Source, Total

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

POWERCAP = "/sys/class/powercap"
_ZONE = "intel-rapl:"
_MICROJOULES = 1e6


class Packages:
    """The packages' counters, unwrapped between reads.

    Args:
        powercap: another folder of zones than the kernel's.
        record: the data of `as_record`, to continue.
    """

    def __init__(self, powercap: str = "", record: "Mapping[str, dict[str, int | float]] | None" = None) -> None:
        self._powercap = powercap or POWERCAP
        self._total, self._zones = Total(), Source("", 0.0)
        self._total.amounts.update((record or {}).get("total", {}))
        self._zones.lasts.update((record or {}).get("last", {}))

    def as_record(self) -> "dict[str, dict[str, int | float]]":
        """Return the totals and the last values, in microjoules."""
        return {"total": self._total.amounts, "last": self._zones.lasts}

    def read(self) -> "dict[str, float]":
        """Return the joules of each package since some moment before the first read; empty if unknown.

        Only root may read them. AMD's processors have the same zones.
        """
        try:
            zones = [name for name in sorted(posix.listdir(self._powercap)) if _is_zone(name)]
        except OSError:
            return {}
        found: "dict[str, float]" = {}
        for zone in zones:
            try:
                name, now = self._text(zone, "name"), int(self._text(zone, "energy_uj"))
                if now < self._zones.lasts.get(name, 0):
                    self._zones.lasts[name] -= int(self._text(zone, "max_energy_range_uj"))
            except (OSError, ValueError):
                continue
            if not name.startswith("package"):
                continue  # psys includes the packages
            self._total.add(self._zones, [(name, now)], 0.0)
            found[name] = self._total.amounts[name] / _MICROJOULES
        return found

    def _text(self, zone: str, name: str) -> str:
        return kernel_text(f"{self._powercap}/{zone}/{name}").strip()


def _is_zone(name: str) -> bool:
    """Return whether a zone is a package's, not a part of one, whose name has another colon."""
    number = name[len(_ZONE) :]
    return name.startswith(_ZONE) and number.isascii() and number.isdecimal()
