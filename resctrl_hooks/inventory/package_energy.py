"""The energy of whole processor packages from RAPL, to compare with the sum of the pods' energy.

Source: Linux, Documentation/power/powercap/powercap.rst.
"""

import os
import re
import time
from collections.abc import Iterable
from typing import Final

from .models import PowerUsage
from .usage import POD, TOTAL, Line

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


class PackagePower:
    """The power of all packages together, between two calls."""

    def __init__(self, powercap: str = POWERCAP) -> None:
        self._packages = Packages(powercap)
        self._when, self._before = time.monotonic(), self._packages.read()

    def watts(self) -> float | None:
        """Return the power since the previous call; None without RAPL."""
        when, now = time.monotonic(), self._packages.read()
        known = now.keys() & self._before.keys()
        seconds, joules = when - self._when, sum(now[name] - self._before[name] for name in known)
        self._when, self._before = when, now
        return joules / seconds if known and seconds > 0 else None


def power_usage(packages: float | None, lines: Iterable[Line]) -> PowerUsage | None:
    """Return how much of the packages' power the pods use; None without RAPL."""
    if packages is None:
        return None
    counted = [(line.kind == POD, line.rates.watts) for line in lines if line.kind != TOTAL]
    known = [(is_pod, watts) for is_pod, watts in counted if watts is not None]
    pods = sum(watts for is_pod, watts in known if is_pod) if known else None
    return PowerUsage(
        packages_watts=packages,
        attributed_watts=pods,
        other_tasks_watts=sum(watts for is_pod, watts in known if not is_pod) if known else None,
        unattributed_watts=None if pods is None else max(packages - pods, 0.0),
    )
