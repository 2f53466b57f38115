"""The mon_groups that there are and their tasks, read once in a pass."""

from ..errors import HookError
from ..resctrl.group_names import Names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ..context import Context


class Groups:
    """The groups of keys. One that was removed a moment ago may still seem to be there, and not the reverse."""

    def __init__(self, context: "Context") -> None:
        self._resctrl = context.monitor.resctrl
        self._monitor = context.monitor
        self.read_names_again()
        self._listed: "dict[str, set[str]]" = {}
        self._tasks: "dict[tuple[str, str], set[int]]" = {}

    def has(self, rdt_class: str, key: str) -> bool:
        """Return whether a key has its group in a class."""
        name = self.name(rdt_class, key)
        listed = self._listed.get(rdt_class) or self._names_in(rdt_class)
        return name in listed or self._resctrl.exists(rdt_class, name)

    def classes(self) -> "list[str]":
        """Return the RDT classes; empty without resctrl."""
        return ["", *self._resctrl.classes()] if self.is_mounted() else []

    def keys(self, rdt_class: str, among: "Collection[str]") -> "list[str]":
        """Return those of some keys that have a group in a class."""
        return sorted(self._names.found(rdt_class, self._names_in(rdt_class), among))

    def name(self, rdt_class: str, key: str) -> str:
        """Return the name of a key's group in a class; without one, that of a new group."""
        return self._usual + key if self._usual is not None else self._names.of(key, rdt_class)

    def tasks(self, rdt_class: str, key: str) -> "set[int]":
        """Return the thread ids in a key's group; empty without one. Others may have entered or left it meanwhile."""
        where = (rdt_class, key)
        if where not in self._tasks:
            self._tasks[where] = self._resctrl.tasks(rdt_class, self.name(rdt_class, key))
        return self._tasks[where]

    def read_names_again(self) -> None:
        """Forget the names of keys' groups: one was recorded meanwhile."""
        self._names = Names(self._monitor)
        self._usual = self._names.usual_prefix

    def _names_in(self, rdt_class: str) -> "set[str]":
        if rdt_class not in self._listed:
            self._listed[rdt_class] = set(self._resctrl.groups(rdt_class))
        return self._listed[rdt_class]

    def is_mounted(self) -> bool:
        """Return whether there is resctrl at all."""
        try:
            self._resctrl.classes()
        except HookError:
            return False
        return True
