"""Who has which CPUs on this node, in one file below the state directory, used under one lock for the whole node.

The file is read in each placement, so it is one rather than a record for each container. What a container got stands in
its own record too, from which `placement.mend` makes the file anew.
"""

from .cpusets import format_list, parse_list
from .files import format_json, parse_json, read_file, read_kernel_file, write_file
from .policy import Decision, Grant, PlacementError, Usage
from .process import start_time
from .topology import Topology, read_topology

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .ledger import Lock
    from .steps import Node

LOCK = "placement"
_BOOK = "placement"
_TOPOLOGY = "topology"
_LIMIT = 16 << 20
_FORMAT = 1


class Entry:
    """One container's place: whose it is, its process, where its cgroup is, what was decided, and what is in force.

    ``applied`` is what its cgroup was told, ``told`` what systemd was; both 0 for nothing yet.
    """

    __slots__ = ("applied", "decision", "folder", "id", "key", "pid", "start", "told", "unit", "unit_folder")

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
        applied: int = 0,
        told: int = 0,
    ) -> None:
        self.id = id_
        self.key = key
        self.pid = pid
        self.start = start
        self.folder = folder
        self.unit = unit
        self.unit_folder = unit_folder
        self.decision = decision
        self.applied = applied
        self.told = told

    def as_record(self) -> "dict[str, Any]":
        """As plain JSON values."""
        return {
            "key": self.key,
            "pid": self.pid,
            "start": self.start,
            "folder": self.folder,
            "unit": self.unit,
            "unitFolder": self.unit_folder,
            "decision": self.decision.as_record(),
            "applied": format_list(self.applied),
            "told": format_list(self.told),
        }

    @classmethod
    def of_record(cls, id_: str, record: "dict[str, Any]") -> "Entry":
        """The entry that `as_record` wrote down; raises what a malformed one makes Python raise."""
        return cls(
            id_,
            record["key"],
            record["pid"],
            record["start"],
            record["folder"],
            Decision.of_record(record["decision"]),
            unit=record["unit"],
            unit_folder=record["unitFolder"],
            applied=parse_list(record["applied"]),
            told=parse_list(record["told"]),
        )

    def is_dead(self, node: "Node") -> bool:
        """Whether its init process is gone."""
        return start_time(node.proc, self.pid) != self.start or not self.start


class Book:
    """The node's machine and every container's place on it. Change it only under `lock`."""

    def __init__(self, node: "Node") -> None:
        self._path = f"{node.ledger.folder}/{_BOOK}"
        self._boot = node.monitor.boot
        self.topology = topology_of(node)
        self.damaged = False
        self.entries: "dict[str, Entry]" = self._read()
        options = node.settings.placement
        try:
            self.reserved = parse_list(options.get("reservedCpus") or "")
        except ValueError as error:
            raise PlacementError(f"placement.reservedCpus can't be read: {error}") from error

    def _read(self) -> "dict[str, Entry]":
        try:
            value = parse_json(read_file(self._path, _LIMIT))
            if value.get("boot") != self._boot or value.get("format") != _FORMAT:
                return {}
            return {id_: Entry.of_record(id_, record) for id_, record in value["entries"].items()}
        except FileNotFoundError:
            return {}
        except (KeyError, TypeError, ValueError, AttributeError):
            self.damaged = True  # mend makes it anew from the records
            return {}

    def save(self) -> None:
        """Replaces the file."""
        entries = {id_: entry.as_record() for id_, entry in self.entries.items()}
        write_file(self._path, format_json({"format": _FORMAT, "boot": self._boot, "entries": entries}))

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


def topology_of(node: "Node") -> Topology:
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
    try:
        write_file(path, format_json({"as": now, "topology": topology.as_record()}))
    except OSError:
        pass  # `explain` may run before there is a state directory
    return topology


def _read(path: str) -> str:
    try:
        return read_kernel_file(path).decode("ascii", "replace").strip()
    except OSError:
        return ""
