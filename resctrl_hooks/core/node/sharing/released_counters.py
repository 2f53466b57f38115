"""The bandwidth counters of classes' own groups, the root's too, that were released for pods.

The file ``released-counters`` names them before each release, so that an uninstallation assigns them again. The lock of
`counter_share` protects it.
"""

from ..errors import ResctrlError
from ..host.files import format_json, remove_file, write_file
from ..host.state_file import read_state
from ..resctrl.assignment import Assignments, NoCountersError
from ..resctrl.counter_share import LOCK, UNGROUPED
from ..shapes import Count, Text, TypedDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..context import Context
    from ..resctrl.counter_share import Change
    from ..resctrl.monitor import Monitor

    Counter = tuple[str, str, int]  # class, event, domain

FILE = "released-counters"


class ReleasedRecord(TypedDict):
    """A class (empty for the root's), an event and a domain of each counter."""

    boot: Text
    counters: list[tuple[Text, Text, Count]]


class Released:
    """The file's content; an empty one has no file."""

    def __init__(self, monitor: "Monitor") -> None:
        self._monitor = monitor
        self._path = f"{monitor.ledger.folder}/{FILE}"
        self._held = self._read()

    def _read(self) -> "dict[Counter, None]":
        record = read_state(self._path, ReleasedRecord)
        # A boot, and a mount too, begins with the kernel's own assignment.
        counters = record["counters"] if record and record["boot"] == self._monitor.boot else []
        return dict.fromkeys((rdt_class, event, domain) for rdt_class, event, domain in counters)

    def extend(self, changes: "Iterable[Change]") -> None:
        """Record the releases among changes that are about to be made.

        Raises:
            OSError: the file cannot be written.
        """
        self._write({**self._held, **dict.fromkeys(self._of_classes(changes, give=False))})

    def reduce(self, changes: "Iterable[Change]") -> None:
        """Forget the counters that were assigned again."""
        again = {*self._of_classes(changes, give=True)}
        self._write({one: None for one in self._held if one not in again})

    def _of_classes(self, changes: "Iterable[Change]", *, give: bool) -> "list[Counter]":
        start = len(self._monitor.resctrl.root) + 1
        return [
            (change.holder.folder[start:], change.event, change.domain)
            for change in changes
            if change.holder.kind == UNGROUPED and change.give == give
        ]

    def _write(self, held: "dict[Counter, None]") -> None:
        if held.keys() == self._held.keys():
            return
        if held:
            write_file(self._path, format_json({"boot": self._monitor.boot, "counters": [[*one] for one in held]}))
        else:
            remove_file(self._path)
        self._held = held

    def assign(self) -> None:
        """Assign the counters again, as far as they are free; a class that is gone needs none."""
        assignments, resctrl = Assignments(self._monitor.resctrl), self._monitor.resctrl
        left: "dict[Counter, None]" = {}
        for rdt_class, event, domain in self._held:
            try:
                assignments.set(resctrl.class_folder(rdt_class), event, domain, counted=True)
            except NoCountersError:
                left[rdt_class, event, domain] = None
            except ResctrlError:
                continue
        self._write(left)


def give_back(context: "Context") -> None:
    """Assign the classes' own groups the counters that were released for pods.

    Raises:
        LockTimeoutError, OSError: the state directory is unusable.
    """
    with context.ledger.lock_named(LOCK, context.monitor.patience):
        Released(context.monitor).assign()
