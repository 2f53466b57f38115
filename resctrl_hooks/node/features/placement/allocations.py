"""The allocations: the CPUs of all containers on this node, in one file below the state directory, under one lock.

Every placement reads the file, so containers of the same place share lines and decisions need only their sums. A
container's own record also has its decision, from which the file can be recreated.
"""

import posix

from ... import shapes
from ...errors import LedgerError
from ...host.cpulist import format_list, parse_list
from ...host.files import format_json, is_there, kernel_text, read_file, remove_file, write_file
from ...host.topology import Topology
from .entries import Entry, Place
from .policy import PlacementError, pools_in_use
from .usage import Grant, Usage, effective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...context import Context
    from ...locks import Lock
    from ...records import KeptTopologyRecord
    from .policy import Decision

LOCK = "placement"
_BOOK = "placement"
_TOPOLOGY = "topology"
_LIMIT = 16 << 20
_FORMAT = "2"
_WRITING = ".writing"
_UNTOLD = "placement.untold"  # in the file's folder: some AllowedCPUs= updates are pending


class Book:
    """The node's machine and every container's place on it. Change it only under `lock`.

    The active cpusets follow from the places and are not stored. They may differ while cpusets are being written;
    ``unsure`` is set after a kill during that time or a change of CPUs: then only the cgroups are valid. ``lost`` is
    set if the file is unreadable. With ``look_only`` nothing is written.

    Raises:
        LedgerError: from every method that uses the file, if the kernel refuses.
    """

    def __init__(self, context: "Context", *, look_only: bool = False) -> None:
        self._path = f"{context.ledger.folder}/{_BOOK}"
        self._boot = context.monitor.boot
        self.topology = topology_of(context, keep=not look_only)
        options = context.settings.placement
        try:
            self.reserved = parse_list(options.get("reservedCpus") or "")
        except ValueError as error:
            raise PlacementError(f"invalid placement.reservedCpus: {error}") from error
        pools = pools_in_use(options)
        grows = any(isinstance(pool, dict) and pool.get("minCpus") is not None for pool in pools)
        self._balloons = pools if grows else []
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
        """Return the facts on which a decision depends besides other decisions."""
        found = [format_list(cpus) for cpus in (self.topology.online, self.topology.isolated, self.reserved)]
        if self._balloons:
            from .balloons import facts  # few nodes have such pools

            found.append(facts(self._balloons))
        return found

    def _read(self) -> None:
        try:
            text = read_file(self._path, _LIMIT).decode()
            head, *parts = text[: text.rindex("\n")].split("\n\t")
            form, boot, *machine = head.split("\t")
            self.lost = (form, boot) != (_FORMAT, self._boot)  # from another version or boot
            places = [Place.of_text(part) for part in parts] if not self.lost else []
            self.places = {_identity(place.decision): place for place in places}
        except (FileNotFoundError, ValueError):
            self.lost = True
            machine = []
        except OSError as error:
            raise LedgerError.of_file(error, self._path) from error
        self.unsure = self.unsure or self.lost or machine != self._machine()

    def save(self) -> None:
        """Replace the file before any cpuset is written; until `written`, cpusets may differ from it."""
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
        """Record that all cpusets match the file."""
        _remove(self._path + _WRITING)

    @property
    def entries(self) -> "dict[str, Entry]":
        """A copy of every container's entry, by id. `find` is cheaper for one of them."""
        return {id_: entry for place in self.places.values() for id_, entry in place.entries().items()}

    def find(self, id_: str) -> "Entry | None":
        """Return a container's entry."""
        for place in self.places.values():
            entry = place.find(id_)
            if entry is not None:
                return entry
        return None

    def add(self, entry: Entry) -> None:
        """Add a container."""
        place = self.places.setdefault(_identity(entry.decision), Place(entry.decision))
        place.add(entry)
        self._usage = None

    def remove(self, id_: str) -> bool:
        """Remove a container, and return whether it existed."""
        for place in self.places.values():
            entry = place.find(id_)
            if entry is not None:
                place.remove(entry)
                self._usage = None
                return True
        return False

    def usage(self, key: str = "") -> Usage:
        """Return a grant for each place, and one more for the part of a key, if requests should be near to it."""
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
        if self._balloons:
            from .balloons import parts_of  # as above

            usage.parts = parts_of(self._balloons, self.topology, usage)
        if not key:
            self._usage = usage
        return usage

    def drop_dead(self, context: "Context", key: str = "") -> int:
        """Remove containers whose process is gone: those of one key, or else all with exclusive CPUs.

        Return their number.
        """
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
        LockTimeoutError: another process held it for too long.
    """
    return context.ledger.lock_named(LOCK, context.monitor.patience)


def note_untold(context: "Context") -> None:
    """Record that some cpusets were not sent to systemd for lack of time.

    Raises:
        LedgerError: the write failed.
    """
    path = f"{context.ledger.folder}/{_UNTOLD}"
    try:
        write_file(path, b"")
    except OSError as error:
        raise LedgerError.of_file(error, path) from error


def take_untold(context: "Context") -> bool:
    """Remove that mark, and return whether it existed.

    Raises:
        LedgerError: the removal failed.
    """
    return _remove(f"{context.ledger.folder}/{_UNTOLD}")


def topology_of(context: "Context", *, keep: bool = True) -> Topology:
    """Return this machine from an earlier call's copy, unless CPUs came or went since.

    Raises:
        TopologyError: sysfs does not describe it.
    """
    path = f"{context.ledger.folder}/{_TOPOLOGY}"
    folder = f"{context.settings.sys_path}/devices/system/cpu"
    now = [context.monitor.boot, folder, kernel_text(f"{folder}/online"), kernel_text(f"{folder}/isolated")]
    try:
        kept: KeptTopologyRecord = shapes.parse(read_file(path, _LIMIT), shapes.TOPOLOGY)
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
