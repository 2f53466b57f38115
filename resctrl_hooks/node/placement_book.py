"""Who has which CPUs on this node, in one file below the state directory, used under one lock for the whole node.

The file is read in each placement, so it is one rather than a record for each container. What a container got stands in
its own record too, from which `placement.mend` makes the file anew.
"""

import posix

from .cpusets import format_list, parse_list
from .files import format_json, is_there, parse_json, read_file, read_kernel_file, remove_file, write_file
from .policy import Decision, Grant, PlacementError, Usage, effective
from .process import start_time
from .topology import Topology, read_topology

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .ledger import Lock
    from .steps import Node

LOCK = "placement"
_BOOK = "placement"
_TOPOLOGY = "topology"
_LIMIT = 16 << 20
_FORMAT = "1"
_FIELDS = 14
_WRITING = ".writing"


class Entry:
    """One container's place: whose it is, its process, where its cgroup is, and what was decided.

    ``unit`` is its own scope of systemd's, and ``unit_folder`` that one's cgroup where it isn't the container's own
    (crun's processes are a level below). ``applied`` is what its cgroup was told, 0 for nothing yet.
    """

    __slots__ = ("_row", "applied", "decision", "folder", "id", "key", "pid", "start", "unit", "unit_folder")

    def __init__(
        self,
        id_: str,
        key: str,
        pid: int,
        start: int,
        folder: str,
        decision: Decision,
        *,
        unit: str = "",
        unit_folder: str = "",
    ) -> None:
        self.id = id_
        self.key = key
        self.pid = pid
        self.start = start
        self.folder = folder
        self.unit = unit
        self.unit_folder = unit_folder if unit_folder != folder else ""
        self.decision = decision
        self.applied = 0
        self._row = ""

    def as_row(self) -> str:
        """As a line of fields between tabs: hundreds may be read in each hook, and JSON takes longer.

        Raises:
            PlacementError: a name of it holds a control character.
        """
        if not self._row:
            sets = (self.decision.cpus, self.decision.owned, self.decision.hidden, self.decision.mems)
            what = (self.decision.kind, self.decision.pool, str(self.decision.milli), *map(format_list, sets))
            place = (self.key, str(self.pid), str(self.start), self.folder, self.unit, self.unit_folder)
            self._row = "\t".join((self.id, *place, *what))
            if not self._row.replace("\t", "").isprintable() or self._row.count("\t") != _FIELDS - 1:
                raise PlacementError(f"a name with control characters can't be kept: {self.folder!r}")
        return self._row

    @classmethod
    def of_row(cls, row: str, known: "dict[str, int]") -> "Entry":
        """The entry that `as_row` wrote down.

        ``known`` are the sets that were read before: most containers share one.

        Raises:
            ValueError: it did not.
        """
        id_, key, pid, start, folder, unit, unit_folder, kind, pool, milli, *texts = row.split("\t")
        for text in texts:
            if text not in known:
                known[text] = parse_list(text)
        cpus, owned, hidden, mems = [known[text] for text in texts]
        decision = Decision(kind, pool, cpus=cpus, owned=owned, hidden=hidden, mems=mems, milli=int(milli))
        entry = cls(id_, key, int(pid), int(start), folder, decision, unit=unit, unit_folder=unit_folder)
        entry._row = row
        return entry

    def is_dead(self, node: "Node") -> bool:
        """Whether its init process is gone."""
        return start_time(node.proc, self.pid) != self.start or not self.start


class Book:
    """The node's machine and every container's place on it. Change it only under `lock`.

    What is in force follows from who has what, so it isn't kept. Only while cpusets are being written they may differ;
    ``unsure`` says that somebody was killed just then, or that CPUs came or went: then only the cgroups know. With
    ``look_only`` nothing is kept for later.
    """

    def __init__(self, node: "Node", *, look_only: bool = False) -> None:
        self._path = f"{node.ledger.folder}/{_BOOK}"
        self._boot = node.monitor.boot
        self.topology = topology_of(node, keep=not look_only)
        options = node.settings.placement
        try:
            self.reserved = parse_list(options.get("reservedCpus") or "")
        except ValueError as error:
            raise PlacementError(f"placement.reservedCpus can't be read: {error}") from error
        self.unsure = is_there(self._path + _WRITING)
        self.entries: "dict[str, Entry]" = self._read()
        if not self.unsure:
            usage = self.usage()
            for entry in self.entries.values():
                entry.applied = effective(entry.decision, usage)

    def _machine(self) -> "list[str]":
        """What the effect of a decision depends on beside the other decisions."""
        return [format_list(cpus) for cpus in (self.topology.online, self.topology.isolated, self.reserved)]

    def _read(self) -> "dict[str, Entry]":
        try:
            head, *rows = read_file(self._path, _LIMIT).decode().split("\n")[:-1]
            form, boot, *machine = head.split("\t")
            if boot != self._boot or form != _FORMAT:
                return {}
            self.unsure = self.unsure or machine != self._machine()
            known: "dict[str, int]" = {}
            entries = [Entry.of_row(row, known) for row in rows]
            return {entry.id: entry for entry in entries}
        except FileNotFoundError:
            return {}
        except ValueError:
            self.unsure = True
            return {}  # mend makes it anew from the records

    def save(self) -> None:
        """Replaces the file, before any cpuset is written: until `written` says so, these may differ from it."""
        posix.close(posix.open(self._path + _WRITING, posix.O_WRONLY | posix.O_CREAT | posix.O_CLOEXEC, 0o600))
        head = "\t".join((_FORMAT, self._boot, *self._machine()))
        lines = [head, *(entry.as_row() for entry in self.entries.values()), ""]
        write_file(self._path, "\n".join(lines).encode())

    def written(self) -> None:
        """Says that all cpusets are as the file has it."""
        remove_file(self._path + _WRITING)

    def usage(self) -> Usage:
        """Who has what."""
        grants = [Grant(entry.id, entry.key, entry.decision) for entry in self.entries.values()]
        return Usage(self.topology, grants, self.reserved)

    def drop_dead(self, node: "Node", key: str = "") -> int:
        """Forgets containers whose process is gone: those of one key, or else all that own CPUs. Returns how many."""
        dead = [
            entry.id
            for entry in self.entries.values()
            if (entry.key == key if key else entry.decision.owned) and entry.is_dead(node)
        ]
        for id_ in dead:
            del self.entries[id_]
        return len(dead)


def lock(node: "Node") -> "Lock":
    """The one lock of the whole node; taken after a key's, never before.

    Raises:
        LockTimeoutError: somebody held it for too long.
    """
    return node.ledger.lock_named(LOCK, node.monitor.patience)


def topology_of(node: "Node", *, keep: bool = True) -> Topology:
    """This machine, from the copy that an earlier call has kept if no CPU came or went since.

    Raises:
        TopologyError: sysfs doesn't say.
    """
    path = f"{node.ledger.folder}/{_TOPOLOGY}"
    folder = f"{node.settings.sys_path}/devices/system/cpu"
    now = [node.monitor.boot, folder, _read(f"{folder}/online"), _read(f"{folder}/isolated")]
    try:
        kept = parse_json(read_file(path, _LIMIT))
        if kept["as"] == now:
            return Topology.of_record(kept["topology"])
    except (OSError, KeyError, TypeError, ValueError, AttributeError):
        pass  # none yet, or another version's
    topology = read_topology(node.settings.sys_path)
    if keep and is_there(node.ledger.folder):
        write_file(path, format_json({"as": now, "topology": topology.as_record()}))
    return topology


def _read(path: str) -> str:
    try:
        return read_kernel_file(path).decode("ascii", "replace").strip()
    except OSError:
        return ""
