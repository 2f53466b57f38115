"""The allocations: the CPUs of all containers on this node, in one file below the state directory, under one lock.

The file has a line of JSON for the node, and one for each container, so that a hook encodes only its own container's
line. A container's own record has its decision too, from which a lost or damaged file is recreated.
"""

from ...core.node.errors import LedgerError
from ...core.node.flags import set_flag
from ...core.node.host.cpulist import format_list, parse_list, union
from ...core.node.host.files import format_json, is_there, kernel_text, read_file, write_file
from ...core.node.host.state_file import parse
from ...core.node.host.topology import Topology, TopologyRecord
from ...core.node.shapes import LARGEST, Annotated, Count, NotRequired, Text, TypedDict, fits
from .entries import Entry
from .policy import Decision, PlacementError, changes, pools_in_use
from .usage import Grant, Usage, effective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ...core.node.context import Context
    from ...core.node.locks import Lock
    from ...core.node.shapes import Shape
    from .policy import Place, Request

LOCK = _BOOK = "placement"
_TOPOLOGY = "topology"
_LIMIT = 16 << 20
_FORMAT = 4
_WRITING = f"{_BOOK}.writing"


class AllocationsRecord(TypedDict):
    """The first line of the file.

    ``machine`` are the facts besides the places on which the written CPUs depend.
    """

    format: Count
    boot: Text
    machine: list[Text]
    containers: Count
    """The number of the lines that follow."""
    others: NotRequired[dict[Text, Text]]
    """CPUs that other programs have given to containers, by claim or container."""


def _texts(values: "Sequence[Any]") -> bool:
    return {str}.issuperset(map(type, values)) and fits(Text, "".join(values))


def _paths(values: "Sequence[Any]") -> bool:
    return _texts(values) and "/.." not in "".join(values) and {"", "/"}.issuperset({value[:1] for value in values})


def _counts(values: "Sequence[Any]") -> bool:
    return {int}.issuperset(map(type, values)) and min(values) >= 0 and max(values) < LARGEST


def _table(*columns: "Callable[[Sequence[Any]], bool]") -> "Shape":
    """Return the check of a list of lists with these columns; by column, as each hook reads all containers."""

    def fits(value: "Any") -> bool:
        if type(value) is not list or not {list}.issuperset(map(type, value)):
            return False
        if not {len(columns)}.issuperset(map(len, value)):
            return False
        return all(shape(column) for shape, column in zip(columns, zip(*value)))

    return fits


_Places = Annotated[
    "list[list[Any]]",
    _table(_texts, _texts, _counts, _counts, _paths, _counts, _texts, _paths, _counts, _texts),
]
"""The other lines: id, key, pid, start, cgroup, CPU request, unit, scope, memory limit, and the decision as text."""

_StoredTopology = TypedDict("_StoredTopology", {"as": list[Text], "topology": TopologyRecord})
"""A copy of the machine, with the conditions of its validity: the boot, sysfs' folder, CPUs online and isolated."""


class Book:
    """The node's machine and every container's place on it, ``entries`` by id. Change it only under `lock`.

    The active cpusets follow from the places and are not stored. They may differ while cpusets are being written;
    ``unsure`` is set after a kill during that time or a change of CPUs: then only the cgroups are valid. ``lost`` is
    set if the file is missing or damaged. With ``read_only`` nothing is written. ``others`` are the CPUs that other
    programs have given, by claim or container.

    Raises:
        LedgerError: from every method that uses the file, if the kernel refuses.
    """

    def __init__(self, context: "Context", *, read_only: bool = False) -> None:
        self._ledger = context.ledger
        self._path = f"{context.ledger.folder}/{_BOOK}"
        self._boot = context.monitor.boot
        self.topology = topology_of(context, keep=not read_only)
        options = context.settings.sections["placement"]
        try:
            self.reserved = parse_list(options.get("reservedCpus") or "")
        except ValueError as error:
            raise PlacementError(
                f"invalid placement.reservedCpus: {error}", hint="run `resctrl-hook config check`"
            ) from error
        pools = pools_in_use(options)
        self._balloons = pools if any(isinstance(pool, dict) and changes(pool) for pool in pools) else []
        self.unsure = context.ledger.flagged(_WRITING)
        self.lost = False
        self.entries: "dict[str, Entry]" = {}
        self.others: "dict[str, int]" = {}
        self._lines: "dict[str, bytes]" = {}  # of unchanged containers
        self._places: "dict[Place, Decision]" = {}
        self._usage: "Usage | None" = None
        self._read()
        if not self.unsure:
            sets = self.sets()
            for entry in self.entries.values():
                entry.applied = sets[entry.decision]

    def _machine(self) -> "list[str]":
        """Return the facts on which a decision depends besides other decisions."""
        found = [format_list(cpus) for cpus in (self.topology.online, self.topology.isolated, self.reserved)]
        if self._balloons:
            from .balloons import facts  # few nodes have such pools

            found.append(facts(self._balloons))
        return found

    def _read(self) -> None:
        try:
            head, *lines = read_file(self._path, _LIMIT).splitlines(keepends=True)
            record = parse(head, AllocationsRecord)
            self.lost = (record["format"], record["boot"], record["containers"]) != (_FORMAT, self._boot, len(lines))
            places: "dict[str, Decision]" = {}
            for row, line in zip(parse(b"[%b]" % b",".join(lines), _Places), lines):
                *entry, place = row
                if place not in places:
                    places[place] = Decision.of_text(place)
                self.entries[row[0]] = Entry.of_row(entry, places[place])
                self._lines[row[0]] = line
            self.others = {name: parse_list(cpus) for name, cpus in record.get("others", {}).items()}
            machine = record["machine"]
        except (FileNotFoundError, ValueError, TypeError):
            self.lost = True
            machine = []
        except OSError as error:
            raise LedgerError.of_file(error, self._path) from error
        if self.lost:
            self.entries, self.others, self._lines = {}, {}, {}
        self.unsure = self.unsure or self.lost or machine != self._machine()

    def save(self) -> None:
        """Replace the file before any cpuset is written; until `written`, cpusets may differ from it."""
        record: "AllocationsRecord" = {
            "format": _FORMAT,
            "boot": self._boot,
            "machine": self._machine(),
            "containers": len(self.entries),
        }
        if self.others:
            record["others"] = {name: format_list(cpus) for name, cpus in self.others.items()}
        set_flag(self._ledger, _WRITING, on=True)
        try:
            write_file(self._path, b"".join([format_json(record), *map(self._line, self.entries.values())]))
        except OSError as error:
            raise LedgerError.of_file(error, self._path) from error

    def _line(self, entry: Entry) -> bytes:
        line = self._lines.get(entry.id)
        if line is None:
            line = self._lines[entry.id] = format_json([*entry.as_row(), entry.decision.as_text()])
        return line

    def written(self) -> None:
        """Record that all cpusets match the file."""
        set_flag(self._ledger, _WRITING, on=False)

    def add(self, entry: Entry) -> None:
        """Add a container, or again after a change.

        Containers of one place share its decision: there are few places, and many containers.
        """
        if not self._places:
            self._places = {one.decision.place: one.decision for one in self.entries.values()}
        place = entry.decision.place
        entry.decision = self._places.setdefault(place, Decision(*place))
        self.entries[entry.id] = entry
        self._lines.pop(entry.id, None)
        self._usage = None

    def remove(self, id_: str) -> bool:
        """Remove a container, and return whether it existed."""
        self._usage = None
        self._lines.pop(id_, None)
        return self.entries.pop(id_, None) is not None

    def usage(self, key: str = "") -> Usage:
        """Return a grant for each decision, and one more for the part of a key, if requests should be near to it."""
        if not key and self._usage is not None:
            return self._usage
        grants: "dict[tuple[Decision, bool], Grant]" = {}
        for entry in self.entries.values():
            place = entry.decision, entry.key == key
            grant = grants.get(place)
            if grant is None:
                grant = grants[place] = Grant(entry.decision, key if place[1] else "", milli=0, users=0)
            grant.milli += entry.milli
            grant.memory += entry.memory
            grant.users += 1
        usage = Usage(self.topology, list(grants.values()), self.reserved, self.taken)
        if self._balloons:
            from .balloons import parts_of  # as above

            usage.parts, usage.homes = parts_of(self._balloons, usage)
        if not key:
            self._usage = usage
        return usage

    def pulls(self, request: "Request") -> "list[tuple[int, int]]":
        """Return the CPUs of containers to which a request has an affinity, each with the weight."""
        found = []
        for id_, weight in request.pulls:
            if id_ in self.entries:
                decision = self.entries[id_].decision
                found.append((decision.cpus | decision.owned, weight))
        return found

    @property
    def taken(self) -> int:
        """The CPUs of other programs' containers."""
        return union(self.others.values())

    def respect(self, others: "dict[str, int]") -> None:
        """Replace the CPUs that other programs have given."""
        if others != self.others:
            self.others, self._usage = others, None

    def sets(self) -> "dict[Decision, int]":
        """Return the CPUs on which containers run now, by their decisions."""
        usage = self.usage()
        return {grant.decision: effective(grant.decision, usage) for grant in usage.grants}

    def drop_dead(self, context: "Context", key: str = "") -> int:
        """Remove containers whose process is gone: those of one key, or else all with exclusive CPUs.

        Return their number.
        """
        dead = [
            entry.id
            for entry in self.entries.values()
            if (entry.key == key if key else entry.decision.owned) and entry.is_dead(context)
        ]
        for id_ in dead:
            self.remove(id_)
        return len(dead)


def lock(context: "Context") -> "Lock":
    """Return the one lock of the whole node; taken before a key's, never while one is held.

    Raises:
        LockTimeoutError: another process held it for too long.
    """
    return context.ledger.lock_named(LOCK, context.monitor.patience)


def topology_of(context: "Context", *, keep: bool = True) -> Topology:
    """Return this machine from an earlier call's copy, unless CPUs came or went since.

    Raises:
        TopologyError: sysfs does not describe it.
    """
    path = f"{context.ledger.folder}/{_TOPOLOGY}"
    folder = f"{context.settings.sys_path}/devices/system/cpu"
    now = [context.monitor.boot, folder, kernel_text(f"{folder}/online"), kernel_text(f"{folder}/isolated")]
    try:
        record = parse(read_file(path, _LIMIT), _StoredTopology)
        if record["as"] == now:
            return Topology.of_record(record["topology"])
    except (OSError, KeyError, TypeError, ValueError, AttributeError):
        pass  # none yet, or another version's
    from ...core.node.host.topology_sysfs import read_topology  # only where nothing is stored

    topology = read_topology(context.settings.sys_path)
    if keep and is_there(context.ledger.folder):
        try:
            record = {"as": now, "topology": topology.as_record()}
            write_file(path, format_json(record))
        except OSError as error:
            raise LedgerError.of_file(error, path) from error
    return topology
