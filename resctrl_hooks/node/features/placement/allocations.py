"""Who has which CPUs on this node, in one file below the state directory, used under one lock for the whole node.

The file is read in each placement, so it is one rather than a record for each container, and containers of the same
place stand together: what there is to decide needs their sums, not each of them. What a container got is in its own
record too, from which the file can be made anew.
"""

import posix

from ...errors import LedgerError
from ...host.cpulist import format_list, parse_list
from ...host.files import format_json, is_there, kernel_text, parse_json, read_file, remove_file, write_file
from ...host.topology import Topology
from .entries import Entry, Place
from .policy import PlacementError
from .usage import Grant, Usage, effective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...context import Context
    from ...ledger import Lock
    from ...records import KeptTopologyRecord
    from .policy import Decision

LOCK = "placement"
_BOOK = "placement"
_TOPOLOGY = "topology"
_LIMIT = 16 << 20
_FORMAT = "2"
_WRITING = ".writing"
_UNTOLD = "placement.untold"  # beside the book: some AllowedCPUs= updates are pending


class Book:
    """The node's machine and every container's place on it. Change it only under `lock`.

    What is in force follows from who has what, so it isn't kept. Only while cpusets are being written they may differ;
    ``unsure`` says that somebody was killed just then, or that CPUs came or went: then only the cgroups know. ``lost``
    says that there is no book that can be read. With ``look_only`` nothing is kept for later.

    Raises:
        LedgerError: from every method that uses the file, where the kernel refuses.
    """

    def __init__(self, context: "Context", *, look_only: bool = False) -> None:
        self._path = f"{context.ledger.folder}/{_BOOK}"
        self._boot = context.monitor.boot
        self.topology = topology_of(context, keep=not look_only)
        options = context.settings.placement
        try:
            self.reserved = parse_list(options.get("reservedCpus") or "")
        except ValueError as error:
            raise PlacementError(f"placement.reservedCpus can't be read: {error}") from error
        self.unsure = is_there(self._path + _WRITING)
        self.lost = False
        self.places: "dict[tuple[object, ...], Place]" = {}
        self._usage: "Usage | None" = None
        self._read()
        if not self.unsure:
            usage = self.usage()
            for place in self.places.values():
                place.applied = effective(place.decision, usage)

    def _machine(self) -> "list[str]":
        """What the effect of a decision depends on beside the other decisions."""
        return [format_list(cpus) for cpus in (self.topology.online, self.topology.isolated, self.reserved)]

    def _read(self) -> None:
        try:
            text = read_file(self._path, _LIMIT).decode()
            head, *parts = text[: text.rindex("\n")].split("\n\t")
            form, boot, *machine = head.split("\t")
            self.lost = (form, boot) != (_FORMAT, self._boot)  # another version's, or another boot's
            places = [Place.of_text(part) for part in parts] if not self.lost else []
            self.places = {_identity(place.decision): place for place in places}
        except (FileNotFoundError, ValueError):
            self.lost = True
            machine = []
        except OSError as error:
            raise LedgerError.of_file(error, self._path) from error
        self.unsure = self.unsure or self.lost or machine != self._machine()

    def save(self) -> None:
        """Replace the file, before any cpuset is written: until `written` says so, these may differ from it."""
        parts = ["\t".join((_FORMAT, self._boot, *self._machine()))]
        parts += [place.as_text() for place in self.places.values() if place.users]
        path = self._path + _WRITING
        try:
            posix.close(posix.open(path, posix.O_WRONLY | posix.O_CREAT, 0o600))
            path = self._path
            write_file(path, ("\n\t".join(parts) + "\n").encode())
        except OSError as error:
            raise LedgerError.of_file(error, path) from error

    def written(self) -> None:
        """Say that all cpusets are as the file has it."""
        _remove(self._path + _WRITING)

    @property
    def entries(self) -> "dict[str, Entry]":
        """Every container, by id: a copy. Who wants one of them asks `find`, which costs less."""
        return {id_: entry for place in self.places.values() for id_, entry in place.entries().items()}

    def find(self, id_: str) -> "Entry | None":
        """Return a container's entry."""
        for place in self.places.values():
            entry = place.find(id_)
            if entry is not None:
                return entry
        return None

    def add(self, entry: Entry) -> None:
        """Take a container in."""
        place = self.places.setdefault(_identity(entry.decision), Place(entry.decision))
        place.add(entry)
        self._usage = None

    def remove(self, id_: str) -> bool:
        """Forget a container, and say whether it was there."""
        for place in self.places.values():
            entry = place.find(id_)
            if entry is not None:
                place.remove(entry)
                self._usage = None
                return True
        return False

    def usage(self, key: str = "") -> Usage:
        """Who has what: a grant for each place, and one more for what of it is a key's, if it is to be near to that."""
        if not key and self._usage is not None:
            return self._usage
        grants = []
        for place in self.places.values():
            own = place.of_key(key) if key else []
            milli = sum(entry.decision.milli for entry in own)
            if own:
                grants.append(Grant("", key, place.decision, milli=milli, users=len(own)))
            if place.users > len(own):
                grants.append(Grant("", "", place.decision, milli=place.milli - milli, users=place.users - len(own)))
        usage = Usage(self.topology, grants, self.reserved)
        if not key:
            self._usage = usage
        return usage

    def drop_dead(self, context: "Context", key: str = "") -> int:
        """Forget containers whose process is gone: those of one key, or else all that own CPUs. Returns how many."""
        dropped = 0
        for place in self.places.values():
            if key or place.decision.owned:
                for entry in place.of_key(key) if key else list(place.entries().values()):
                    if entry.is_dead(context):
                        place.remove(entry)
                        self._usage = None
                        dropped += 1
        return dropped


def _identity(decision: "Decision") -> "tuple[object, ...]":
    sets = (decision.cpus, decision.owned, decision.hidden, decision.mems)
    return (decision.kind, decision.pool, *sets)


def lock(context: "Context") -> "Lock":
    """Return the one lock of the whole node; taken after a key's, never before.

    Raises:
        LockTimeoutError: somebody held it for too long.
    """
    return context.ledger.lock_named(LOCK, context.monitor.patience)


def note_untold(context: "Context") -> None:
    """Notes that somebody had no time to tell systemd of every cpuset.

    Raises:
        LedgerError: that can't be written down.
    """
    path = f"{context.ledger.folder}/{_UNTOLD}"
    try:
        write_file(path, b"")
    except OSError as error:
        raise LedgerError.of_file(error, path) from error


def take_untold(context: "Context") -> bool:
    """Take that note away, and say whether there was one.

    Raises:
        LedgerError: it can't be taken away.
    """
    return _remove(f"{context.ledger.folder}/{_UNTOLD}")


def topology_of(context: "Context", *, keep: bool = True) -> Topology:
    """Return this machine, from the copy that an earlier call has kept if no CPU came or went since.

    Raises:
        TopologyError: sysfs doesn't say.
    """
    path = f"{context.ledger.folder}/{_TOPOLOGY}"
    folder = f"{context.settings.sys_path}/devices/system/cpu"
    now = [context.monitor.boot, folder, kernel_text(f"{folder}/online"), kernel_text(f"{folder}/isolated")]
    try:
        kept: KeptTopologyRecord = parse_json(read_file(path, _LIMIT))
        if kept["as"] == now:
            return Topology.of_record(kept["topology"])
    except (OSError, KeyError, TypeError, ValueError, AttributeError):
        pass  # none yet, or another version's
    from ...host.topology_sysfs import read_topology  # only where nothing is kept

    topology = read_topology(context.settings.sys_path)
    if keep and is_there(context.ledger.folder):
        try:
            kept = {"as": now, "topology": topology.as_record()}
            write_file(path, format_json(kept))
        except OSError as error:
            raise LedgerError.of_file(error, path) from error
    return topology


def _remove(path: str) -> bool:
    try:
        return remove_file(path)
    except OSError as error:
        raise LedgerError.of_file(error, path) from error
