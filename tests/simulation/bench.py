"""The simulation's model with processes and a clock that a test moves."""

from resctrl_hooks.simulation.files import File
from resctrl_hooks.simulation.machine import (
    Machine,
)
from resctrl_hooks.simulation.model import Resctrl
from resctrl_hooks.simulation.proc import Life, Proc
from resctrl_hooks.simulation.tree import Directory, Tree

ROOT_CALLER = (1, 0)


class Processes(Proc):
    """A /proc of numbers: each thread's process, parent, start and owner."""

    def __init__(self) -> None:
        self.parents: dict[int, int] = {}
        self.leaders: dict[int, int] = {}
        self.starts: dict[int, int] = {}
        self.zombies: set[int] = set()
        self.uids: dict[int, int] = {}
        self.affinities: dict[int, str] = {}
        self._ticks = 0

    def start(self, tid: int, parent: int = 1, leader: int | None = None) -> int:
        """Start a process, or with `leader` a thread of one."""
        self._ticks += 1
        self.starts[tid], self.parents[tid], self.leaders[tid] = self._ticks, parent, leader or tid
        return tid

    def end(self, tid: int) -> None:
        """End it."""
        del self.starts[tid], self.leaders[tid]
        for child in [child for child, parent in self.parents.items() if parent == tid]:
            self.parents[child] = 1
        del self.parents[tid]

    def life(self, tid: int) -> Life | None:
        return Life(self.starts[tid], tid in self.zombies) if tid in self.starts else None

    def lineage(self, tid: int) -> tuple[int, int] | None:
        return (self.leaders[tid], self.parents[tid]) if tid in self.starts else None

    def owners(self, tid: int) -> tuple[int, int] | None:
        return (self.uids.get(tid, 0),) * 2 if tid in self.starts else None

    def children(self, tid: int) -> set[int]:
        return {child for child, parent in self.parents.items() if parent == tid and self.leaders[child] == child}

    def threads(self, pid: int) -> set[int]:
        return {tid for tid, leader in self.leaders.items() if leader == pid}

    def cpus(self, tid: int) -> str:
        return self.affinities.get(tid, "")

    def everything(self) -> list[int]:
        return list(self.starts)


class Bench:
    """A model with paths, a clock and processes."""

    def __init__(self, **machine: float | bool) -> None:
        self.now = 1000.0
        self.proc = Processes()
        machine.setdefault("cpus", 4)
        self.sim = Resctrl(Machine(**machine), self.proc, lambda: self.now)  # type: ignore[arg-type]
        self.tree = Tree(self.sim)

    def folder(self, path: str) -> Directory:
        found = self.tree.find(path)
        assert isinstance(found, Directory)
        return found

    def make(self, *paths: str) -> None:
        for path in paths:
            parent, _, name = path.rpartition("/")
            self.tree.make(self.folder(parent), name)

    def remove(self, path: str) -> None:
        self.tree.remove(self.folder(path))

    def rename(self, old: str, new: str) -> None:
        parent, _, name = new.rpartition("/")
        self.tree.rename(self.tree.find(old), self.tree.find(parent), name)

    def read(self, path: str) -> str:
        found = self.tree.find(path)
        assert isinstance(found, File)
        return found.read()

    def write(self, path: str, text: str, caller: tuple[int, int] = ROOT_CALLER) -> None:
        found = self.tree.find(path)
        assert isinstance(found, File)
        assert found.write is not None
        found.write(text, caller)

    def join(self, group: str, *tasks: int) -> None:
        """Start processes in a group, which is created if it does not exist."""
        above, _, name = group.rpartition("/")
        if name not in self.tree.names(self.folder(above)):
            self.make(group)
        for task in tasks:
            self.write(f"{group}/tasks", str(self.proc.start(task)))

    def tasks(self, group: str) -> set[int]:
        return {int(line) for line in self.read(f"{group}/tasks").split()}

    def number(self, group: str, counter: str) -> float:
        return float(self.read(f"{group}/mon_data/{counter}"))
