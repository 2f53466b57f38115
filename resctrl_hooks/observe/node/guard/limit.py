"""The limit of one class in one memory domain, as the guard knows it, and how far one step moves it.

A step is per cent on Intel, a share of the measured rate on AMD. Sources: kernel,
Documentation/filesystems/resctrl.rst, "Memory bandwidth Allocation and monitoring"; AMD64 Architecture Programmer's
Manual, "Platform Quality of Service Enforcement for Memory Bandwidth" (units of 1/8 GB/s).
"""

from ....core.node.resctrl.bandwidth_unit import AMD_UNIT

_CUT = 0.8


class Limit:
    """One class's MB value in one memory domain, in the unit of its ``schemata``; larger means more bandwidth.

    Args:
        declared: The value of the class without the guard, which is restored in the end.
        floor: The guard never writes a lower value.
        now: The value now.
        overridden: Another program changed the value; the guard does not change the class until it is restarted.
        before: The measured rate before the first cut in the same unit, 0 without a cut.
    """

    __slots__ = ("before", "declared", "floor", "now", "overridden")

    def __init__(
        self, declared: int, floor: int, now: "int | None" = None, *, overridden: bool = False, before: int = 0
    ) -> None:
        self.declared = declared
        self.floor = min(floor, declared)
        self.now = declared if now is None else now
        self.overridden = overridden
        self.before = before

    @property
    def is_cut(self) -> bool:
        """Whether the guard holds the value below the declared one."""
        return self.now < self.declared and not self.overridden

    @property
    def has_room(self) -> bool:
        """Whether the guard may lower the value further."""
        return self.now > self.floor and not self.overridden

    def at(self, value: int, before: int = 0) -> "Limit":
        """Return the limit with another value; ``before`` is kept while a cut is in effect."""
        earlier = (self.before or before) if value < self.declared else 0
        return Limit(self.declared, self.floor, value, overridden=self.overridden, before=earlier)


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
