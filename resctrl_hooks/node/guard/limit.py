"""The limit of one class in one memory domain, as the guard knows it."""


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

    def lowest(self) -> "Limit":
        """Return the limit with the present value as floor: it can be raised and restored, but not lowered."""
        return Limit(self.declared, self.now, self.now, overridden=self.overridden, before=self.before)

    def at(self, value: int, before: int = 0) -> "Limit":
        """Return the limit with another value; ``before`` is kept while a cut is in effect."""
        kept = (self.before or before) if value < self.declared else 0
        return Limit(self.declared, self.floor, value, overridden=self.overridden, before=kept)
