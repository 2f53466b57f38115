"""The types in `Monitor`'s annotations, for programs that name them; the node half has no time to import `typing`."""

from typing import Protocol

from .node.resctrl.counters import Reading
from .node.resctrl.locked_key import Group

Groups = list[Group]
Keys = list[str]
Readings = list[Reading]


class LogCallable(Protocol):
    """What `Monitor` logs through: a syslog priority, a sentence, and fields."""

    def __call__(self, priority: int, message: str, **fields: str | int) -> None:
        """Log one event."""
