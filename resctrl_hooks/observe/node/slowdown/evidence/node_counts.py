"""The counters of a node beside its pods: processors, disks, reclaim, and the cgroups that use them.

What costs time is only read while a pod waits: the tree of cgroups for a CPU, ``io.stat`` for a disk, ``memory.stat``
for memory. So a wait is explained from the second window on; a first reading has everything.
"""

from types import MappingProxyType
from typing import NamedTuple

from .....core.node.host.topology_sysfs import find_topology
from ...guard.load import grown
from ..constants import WAITED
from .cgroup_tree import REST, CgroupTree, leaf_places
from .cpu.processors import read_processors
from .cpu.users import groups_between, read_ran
from .disk_kinds import read_kind
from .disks import disks_between, moved_between, read_disks, read_moved
from .node_use import NodeUse
from .reclaim import memory_between, read_limit_events, read_memory, read_scanned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from .....core.node.settings import Settings
    from .cgroup_tree import Place
    from .cpu.processors import Processor, Ticks
    from .cpu.users import Ran
    from .disks import ByDisk, Disk
    from .reclaim import Memory
    from .use import Use

    Value = TypeVar("Value")

_NEARLY = 0.5 * WAITED
_NOTHING: "Mapping[Any, Any]" = MappingProxyType({})


class Needs(NamedTuple):
    """Which counters are read."""

    cpu: bool = True
    disk: bool = True
    memory: bool = True


class Evidence(NamedTuple):
    """The counters of one pod, or of a cgroup beside pods; None: not read, or the kernel has none."""

    ran: "Ran | None" = None
    moved: "ByDisk | None" = None
    memory: "Memory | None" = None


class NodeCounts(NamedTuple):
    """A node's counters at one time."""

    ticks: "Ticks"
    needs: Needs = Needs(cpu=False, disk=False, memory=False)
    """What was read."""
    places: "tuple[Place, ...]" = ()
    others: "Mapping[str, Evidence]" = _NOTHING
    """By path, of cgroups beside pods."""
    pods: "Mapping[str, Evidence]" = _NOTHING
    """By key, without waits."""
    disks: "Mapping[str, Disk]" = _NOTHING
    scanned: "int | None" = None
    limits: "Mapping[str, int]" = _NOTHING
    """How often the limit of a cgroup above pods was reached."""


def needs_of(uses: "Iterable[Use]") -> Needs:
    """Return what must be read after a window with these pods."""
    found = [*uses]
    disk = any(float(use.blocked or 0) >= _NEARLY for use in found)
    return Needs(
        any(float((use.lost.waited if use.lost else use.waited) or 0) >= _NEARLY for use in found),
        disk,
        disk or any(float(use.reclaimed or 0) >= _NEARLY for use in found),  # what was reclaimed is read again
    )


class NodeCounter:
    """Reads the counters of one node."""

    def __init__(self, settings: "Settings") -> None:
        self._proc = settings.proc_path
        self._root = settings.cgroup_path
        self._sys = settings.sys_path
        self._tree = CgroupTree(self._root)
        topology = find_topology(settings.sys_path)
        self._cores: "Sequence[int]" = topology.cores if topology else ()

    def read(self, pods: "Mapping[str, Sequence[str]]", needs: Needs) -> NodeCounts:
        """Return the counters now; ``pods`` are the folders of each pod's cgroups, by key."""
        ticks = read_processors(self._proc)
        if not any(needs):
            return NodeCounts(ticks)
        places = self._tree.places(pods)
        leaves = leaf_places(places)
        return NodeCounts(
            ticks,
            needs,
            places,
            {one.path: self._evidence([f"{self._root}/{one.path}"], needs) for one in leaves if not one.key},
            {key: self._evidence(of, needs._replace(cpu=False)) for key, of in pods.items()},
            read_disks(self._proc) if needs.disk else _NOTHING,
            read_scanned(self._proc) if needs.memory else None,
            {path: read_limit_events(f"{self._root}/{path}") for path in _above(places)} if needs.memory else _NOTHING,
        )

    def complete(self, use: NodeUse) -> NodeUse:
        """Return a node's use with what does not change in a window: its cores, and the kinds of its disks in use."""
        disks = use.disks and {
            number: one._replace(kind=read_kind(self._sys, self._root, number)) for number, one in use.disks.items()
        }
        return use._replace(cores=self._cores, disks=disks)

    def _evidence(self, folders: "Sequence[str]", needs: Needs) -> Evidence:
        return Evidence(
            read_ran(folders[0]) if needs.cpu else None,
            read_moved(folders) if needs.disk else None,
            read_memory(folders) if needs.memory else None,
        )


def node_between(
    before: NodeCounts,
    after: NodeCounts,
    uses: "Mapping[str, Use]",
    processors: "Mapping[int, Processor]",
    seconds: float,
) -> NodeUse:
    """Return a node's use between two readings, with what its pods and its processors did."""
    both = Needs(*[old and new for old, new in zip(before.needs, after.needs)])
    if not any(both):
        return NodeUse(processors)
    moved = _each(before, after, lambda old, new: moved_between(old.moved, new.moved, seconds))
    memory = _each(before, after, lambda old, new: memory_between(old.memory, new.memory, seconds))
    ran = {path: (before.others[path].ran, one.ran) for path, one in after.others.items() if path in before.others}
    return NodeUse(
        processors,
        groups_between(after.places, ran, uses, processors, seconds) if both.cpu else None,
        disks_between(before.disks, after.disks, moved, REST, seconds) if both.disk else None,
        memory if both.memory else None,
        grown(before.scanned, after.scanned),
        {path: number - before.limits.get(path, number) for path, number in after.limits.items()},
    )


def _each(
    before: NodeCounts, after: NodeCounts, between: "Callable[[Evidence, Evidence], Value | None]"
) -> "dict[str, Value]":
    """Return the differences of all pods and cgroups that have one; a pod with several cgroups is one."""
    found = {}
    for olds, news in ((before.pods, after.pods), (before.others, after.others)):
        for name, new in news.items():
            old = olds.get(name)
            part = between(old, new) if old is not None else None
            if part is not None:
                found[name] = part
    return found


def _above(places: "Sequence[Place]") -> "Iterator[str]":
    """Yield the paths of the cgroups with children."""
    for one in places:
        if one.children:
            yield one.path
            yield from _above(one.children)
