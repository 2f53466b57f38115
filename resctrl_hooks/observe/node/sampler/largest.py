"""Keeps the largest rate of each memory domain while the process runs, for the node's capacities."""

from ....core.node.resctrl.bandwidth import bandwidth_of
from ..capacity.capacity import tables_of
from ..capacity.record import read_record, write_record
from ..guard.snapshots import domains_of, traffic_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ....core.node.context import Context
    from ....core.node.resctrl.counters import Slot
    from ..capacity.record import CapacityRecord
    from ..guard.snapshots import Domains
    from ..snapshot.snapshot import Snapshot

_LEAST = 1.0
"""Seconds between two reads of the counters: in a shorter time the moments of reading decide the rate."""
_MORE = 1.01
"""The growth that is written."""


class Largest:
    """Notes the largest rates of successive snapshots; they only grow.

    Args:
        context: the node.
        slots: the files of a group's counters.
    """

    def __init__(self, context: "Context", slots: "Iterable[Slot]") -> None:
        self._context = context
        self._folder = context.settings.state_dir
        tables, self._source = tables_of(context, bandwidth_of(slots))
        self._tables = {str(number): rate for number, rate in tables.items()}
        self._saved: "dict[str, float] | None" = None
        self._seen: "dict[str, float]" = dict(read_record(self._folder)["seen"])
        self._before: "Snapshot | None" = None
        self._domains: "Domains" = ()
        self._last: "dict[int, float]" = {}

    def saw(self, snapshot: "Snapshot") -> None:
        """Take a snapshot into account. A rate counts once the next interval has reached it, too."""
        before = self._before
        if before is None:
            self._domains = domains_of(self._context, snapshot)
        elif snapshot.when - before.when < _LEAST:
            return
        self._before = snapshot
        for one in traffic_of(before, snapshot, self._domains) if before is not None else ():
            number, rate = one.domain[0], one.rate or 0.0
            name, reached = str(number), min(rate, self._last.get(number, 0.0))
            if reached > self._seen.get(name, 0.0):
                self._seen[name] = reached
            self._last[number] = rate
        saved = self._saved
        if saved is None or any(rate >= _MORE * saved.get(name, 0.0) for name, rate in self._seen.items()):
            self._write()

    def _write(self) -> None:
        """Write the file; after an error, the next snapshot tries again: it is not worth a line in the log."""
        record: "CapacityRecord" = {"tables": self._tables, "source": self._source, "seen": self._seen}
        try:
            write_record(self._folder, record)
            self._saved = dict(self._seen)
        except OSError:
            self._saved = None
