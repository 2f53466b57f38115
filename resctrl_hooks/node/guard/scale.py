"""How far one step moves a class's MB value: per cent on Intel, a share of the measured rate on AMD.

Sources: kernel, Documentation/filesystems/resctrl.rst, "Memory bandwidth Allocation and monitoring"; AMD64 Architecture
Programmer's Manual, "Platform Quality of Service Enforcement for Memory Bandwidth" (units of 1/8 GB/s).
"""

from ..resctrl.bandwidth_unit import AMD_UNIT
from .limit import Limit

_CUT = 0.8


class PerCent:
    """Intel: equal steps of ``info/MB/bandwidth_gran`` per cent."""

    def __init__(self, step: int) -> None:
        self._step = max(1, step)

    def down(self, limit: "Limit", rate: float, steps: int) -> int:
        """Return the value after ``steps`` cuts; ``rate`` does not matter here."""
        return max(limit.floor, limit.now - steps * self._step)

    def up(self, limit: "Limit") -> int:
        """Return the value after one step back to the declared one."""
        return min(limit.declared, limit.now + self._step)

    def gain(self, limit: "Limit", rate: float) -> float:
        """Return the bytes per second by which the class may grow after one step up.

        The value limits each processor's rate in proportion (resctrl.rst), so a class at its limit grows as its value.
        """
        return rate * (self.up(limit) - limit.now) / max(1, limit.now)


class OfRate:
    """AMD: the first cut is 0.8 of the measured rate, each further one 0.8 of the value, in units of 1/8 GB/s."""

    def down(self, limit: "Limit", rate: float, steps: int) -> int:
        """Return the value after ``steps`` cuts, which begin at ``rate`` bytes per second if that is lower."""
        base = min(float(limit.now), rate / AMD_UNIT)
        return max(limit.floor, min(limit.now, int(base * _CUT**steps)))

    def up(self, limit: "Limit") -> int:
        """Return the value after one step up: the declared one as soon as the rate before the first cut is reached."""
        value = int(limit.now / _CUT) + 1
        return limit.declared if value >= (limit.before or limit.declared) else value

    def gain(self, limit: "Limit", rate: float) -> float:
        """Return the bytes per second by which the class may grow after one step up.

        In proportion, as above: a class that moves less than its limit is not held by it.
        """
        top = min(self.up(limit), max(limit.now, limit.before or limit.declared))
        return rate * (top - limit.now) / max(1, limit.now)
