"""The cgroups that compete for a node's CPUs, disks and memory: pods, and services and slices beside them.

Each cgroup above a pod is read with all of its children, because these share its time. Other slices are read down to
their services and scopes. So a culprit outside pods has a name such as ``system.slice/backup.service``. At most
`MOST_OTHERS` of these are read; `REST` is the use of all others, of tasks in no cgroup, and of the kernel's.
"""

import posix
from math import inf
from typing import NamedTuple

from .....core.node.host.cpulist import parse_list
from .....core.node.host.files import kernel_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_OTHERS = 128
REST = "tasks of other cgroups and of the kernel"
_MOST_CHILDREN = 1024  # of one cgroup
_KEPT = 6  # readings until the tree and its weights are read again
_SLICE = ".slice"
_IDLE_WEIGHT = 0.3  # of cpu.idle, for which cpu.weight is 0 (kernel, kernel/sched/sched.h: 3 of 1024)
_USUAL_WEIGHT = 100.0


class Place(NamedTuple):
    """One cgroup of the tree."""

    path: str
    """Below the root of the cgroups, without a slash at its beginning."""
    key: str = ""
    """Of its pod; empty outside pods."""
    weight: float = _USUAL_WEIGHT
    limit: float = inf
    """CPUs of ``cpu.max``."""
    cpus: int = 0
    """``cpuset.cpus.effective`` as a set; 0: unknown."""
    children: "tuple[Place, ...]" = ()

    @property
    def name(self) -> str:
        """The key of the pod, or the path."""
        return self.key or self.path


class CgroupTree:
    """Reads the tree of one node, and keeps it for some readings.

    Args:
        root: where cgroup v2 is mounted.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._pods: "dict[str, str]" = {}
        self._found: "tuple[Place, ...]" = ()
        self._left = 0
        self._others = 0

    def places(self, pods: "Mapping[str, Sequence[str]]") -> "tuple[Place, ...]":
        """Return the cgroups below the root.

        Args:
            pods: the folders of each pod's cgroups, by key.
        """
        start = f"{self._root}/"
        found = {
            folder[len(start) :]: key for key, folders in pods.items() for folder in folders if folder.startswith(start)
        }
        self._left -= 1
        if self._left < 0 or found != self._pods:
            self._left, self._pods, self._others = _KEPT, found, 0
            above = {"/".join(path.split("/")[:depth]) for path in found for depth in range(path.count("/") + 1)}
            self._found = self._below("", above)
        return self._found

    def _below(self, path: str, above: "set[str]") -> "tuple[Place, ...]":
        """Return the children of a cgroup, the ones of interest with theirs."""
        names = _folders(f"{self._root}/{path}")
        found = []
        for name in sorted(names, key=lambda one: f"{path}/{one}".lstrip("/") not in above):
            below = f"{path}/{name}" if path else name
            children: "tuple[Place, ...]" = ()
            if below in above or (name.endswith(_SLICE) and below not in self._pods):
                children = self._below(below, above)
            if not children and below not in self._pods:
                if self._others == MOST_OTHERS:
                    continue
                self._others += 1
            found.append(self._place(below, children))
        return tuple(found)

    def _place(self, path: str, children: "tuple[Place, ...]") -> Place:
        folder = f"{self._root}/{path}"
        weight = kernel_text(f"{folder}/cpu.weight")
        quota, _, period = kernel_text(f"{folder}/cpu.max").partition(" ")
        limit = int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else inf
        try:
            cpus = parse_list(kernel_text(f"{folder}/cpuset.cpus.effective"))
        except ValueError:
            cpus = 0
        value = float(weight) if weight.isdigit() else _USUAL_WEIGHT
        return Place(path, self._pods.get(path, ""), max(value, _IDLE_WEIGHT), limit, cpus, children)


def leaf_places(places: "Sequence[Place]") -> "list[Place]":
    """Return the places without children."""
    found: "list[Place]" = []
    for one in places:
        found += leaf_places(one.children) if one.children else [one]
    return found


def _folders(folder: str) -> "list[str]":
    """Return the names of a cgroup's children; none if it has ended."""
    try:
        with posix.scandir(folder) as found:
            return [one.name for one in found if one.is_dir(follow_symlinks=False)][:_MOST_CHILDREN]
    except OSError:
        return []
