"""The types in `Monitor`'s annotations, for programs that use them. The node half avoids importing `typing`."""

from typing import Protocol

from .core.node.resctrl.counters import Reading
from .core.node.resctrl.group import Group

Groups = list[Group]
Keys = list[str]
Members = list[str]
Readings = list[Reading]
Totals = dict[str, int | float | None]


class LogCallable(Protocol):
    """`Monitor`'s log function: a syslog priority, a message, and fields."""

    def __call__(self, priority: int, message: str, **fields: str | int) -> None:
        """Log one event."""
