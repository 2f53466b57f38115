"""A kernel for tests in one process: the simulation's resctrl model with a consistent, simulated /proc and cgroups.

The model is the one that the conformance tests compare with the real kernel. Its groups are mirrored into a plain
tree for code that reads counters and inodes, and every move of a task shows in /proc at once.
"""

import os
import shutil
import stat
from pathlib import Path
from typing import Any, NamedTuple

from hosts.node import Node, stat_line
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem
from resctrl_hooks.lab.simulation.counters import domain_folders
from resctrl_hooks.lab.simulation.machine import Machine
from resctrl_hooks.lab.simulation.model import Resctrl
from resctrl_hooks.lab.simulation.proc import Life, Proc
from resctrl_hooks.lab.simulation.tree import Tree

ROOT_CALLER = (1, 0)


class Layout(NamedTuple):
    """Where bandwidth is counted, as `Machine` has it."""

    bandwidth: str
    memory_nodes: str = ""
    other_schemata: str = ""


class Processes(Proc):
    """A /proc of numbers: each thread's process, parent and start; root owns all."""

    def __init__(self) -> None:
        self.parents: dict[int, int] = {}
        self.leaders: dict[int, int] = {}
        self.starts: dict[int, int] = {}
        self.zombies: set[int] = set()
        self.affinities: dict[int, str] = {}
        self._ticks = 0

    def start(self, tid: int, parent: int = 1, leader: int = 0, when: int = 0) -> int:
        """Start a process, or with `leader` a thread of one."""
        self._ticks += 1
        self.starts[tid], self.parents[tid], self.leaders[tid] = when or self._ticks, parent, leader or tid
        return tid

    def end(self, tid: int) -> None:
        del self.starts[tid], self.leaders[tid]
        for child in [child for child, parent in self.parents.items() if parent == tid]:
            self.parents[child] = 1
        del self.parents[tid]

    def life(self, tid: int) -> Life | None:
        return Life(self.starts[tid], tid in self.zombies) if tid in self.starts else None

    def lineage(self, tid: int) -> tuple[int, int] | None:
        return (self.leaders[tid], self.parents[tid]) if tid in self.starts else None

    def owners(self, tid: int) -> tuple[int, int] | None:
        return (0, 0) if tid in self.starts else None

    def children(self, tid: int) -> set[int]:
        return {child for child, parent in self.parents.items() if parent == tid and self.leaders[child] == child}

    def threads(self, pid: int) -> set[int]:
        return {tid for tid, leader in self.leaders.items() if leader == pid}

    def cpus(self, tid: int) -> str:
        return self.affinities.get(tid, "")

    def everything(self) -> list[int]:
        return list(self.starts)


class Kernel(Filesystem):
    """The seam between the node half and the model; ``host`` has the node half's folders."""

    def __init__(self, host: Node, *, layout: Layout | None = None, **machine: Any) -> None:
        self.host = host
        self.now = 1000.0
        self.threads = Processes()
        values = {
            "closids": 6,
            "l3_domains": 1,
            "limbo": 1.0,
            "cpus": 2,
            **machine,
            **(layout._asdict() if layout else {}),
        }
        vendor = "arm" if machine.get("pmg") else "amd" if machine.get("assignable_counters") else "intel"
        self.machine = Machine(vendor=vendor, partids=values["closids"] if machine.get("pmg") else 0, **values)
        self._next_pid, self._graves = 100, 0
        self._shown: dict[int, tuple[str, str]] = {}
        self._late: dict[int, Any] = {}
        self.boot(1)

    def boot(self, number: int) -> None:
        """Reboot: no process runs, resctrl is in its initial state, the boot id changes."""
        for pid in set(self.threads.leaders.values()):
            self.end(pid)
        self.end_groups()
        (self.host.proc / "sys/kernel/random/boot_id").write_text(f"0d5d0a52-6e2c-4a3c-8f2e-{number:012d}\n")
        shutil.rmtree(self.host.resctrl)
        self.host.resctrl.mkdir()
        self.sync()

    def end_groups(self) -> None:
        """End all groups, as a umount does; all tasks are in the root class."""
        self.model = Resctrl(self.machine, self.threads, lambda: self.now)
        self.tree = Tree(self.model)

    # Processes

    def spawn(self, cgroup: str, threads: int = 1, rdt_class: str = "", group: str = "") -> int:
        """Start a process in a cgroup and in a resctrl group, as if by fork, and return its pid."""
        pid = self._next_pid
        self._next_pid += threads
        for tid in range(pid, pid + threads):
            self.threads.start(tid, leader=pid, when=int(self.now * 100))
            folder = self.host.proc / str(tid)
            folder.mkdir()
            (folder / "stat").write_text(stat_line(tid, int(self.now * 100)))
            (folder / "cgroup").write_text(f"0::{cgroup}\n")
            (self.host.proc / str(pid) / "task" / str(tid)).mkdir(parents=True)
            if rdt_class:
                self.model.write_tasks(self.model.classes[rdt_class], f"{tid}\n", ROOT_CALLER)
            if group:
                parent = self.model.classes.get(rdt_class, self.model.root)
                self.model.write_tasks(parent.monitored[group], f"{tid}\n", ROOT_CALLER)
        self.write_cgroup(cgroup)
        self.show_tasks()
        return pid

    def fork_late(self, cgroup: str, rdt_class: str, name: str) -> int:
        """Start a process as by a fork that had begun in this class, before a rename took its group to another one.

        The group of that name lists it by its RMID.
        """
        pid = self.spawn(cgroup, rdt_class=rdt_class)
        for one in self.model.all_classes():
            if name in one.monitored:
                self._late[pid] = one.monitored[name]
        return pid

    def end(self, pid: int) -> None:
        """End a process, at once and without a zombie."""
        cgroup = self._cgroup_of(pid)
        for tid in self.threads.threads(pid):
            self.threads.end(tid)
            self._shown.pop(tid, None)
            shutil.rmtree(self.host.proc / str(tid))
        self.write_cgroup(cgroup)

    def write_cgroup(self, cgroup: str) -> None:
        """Write the list of a cgroup's threads."""
        folder = self.host.cgroup / cgroup.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        here = [tid for tid in self.threads.starts if self._cgroup_of(tid) == cgroup]
        (folder / "cgroup.threads").write_text("".join(f"{tid}\n" for tid in here))

    def _cgroup_of(self, tid: int) -> str:
        return (self.host.proc / str(tid) / "cgroup").read_text().strip().removeprefix("0::")

    def where(self, tid: int) -> tuple[str, str]:
        """Return the class and the mon_group of a thread."""
        group = self.model.tasks.group_of(tid)
        return group.ctrl.name, group.name if group.parent is not None else ""

    def show_tasks(self) -> None:
        """Write /proc's files on every thread's groups."""
        for tid, pid in self.threads.leaders.items():
            rdt_class, group = self.where(tid)
            if self._shown.get(tid) == (rdt_class, group):
                continue
            self._shown[tid] = (rdt_class, group)
            for folder in (str(tid), f"{pid}/task/{tid}"):
                text = f"res:{rdt_class or '/'}\nmon:{group}\n"
                (self.host.proc / folder / "cpu_resctrl_groups").write_text(text)

    # resctrl

    def sync(self) -> None:
        """Update the plain tree from the model's groups."""
        wanted = {""}
        for one in self.model.all_classes():
            groups = ["mon_groups", *(f"mon_groups/{name}" for name in one.monitored)]
            wanted |= {one.name, *(f"{one.name}/{path}".lstrip("/") for path in groups)}
        for path in sorted(self._mirrored() - wanted, reverse=True):
            self._bury(self.host.resctrl / path)
        for path in sorted(wanted):
            (self.host.resctrl / path).mkdir(exist_ok=True)

    def _bury(self, folder: Path) -> None:
        """Remove a group's folder, and keep its inode: the kernel never uses a group's number again."""
        if folder.exists():
            self._graves += 1
            grave = self.host.resctrl.parent / f"ended-{os.getpid()}-{id(self)}-{self._graves}"
            folder.rename(grave)
            for entry in grave.iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def show_counters(self) -> None:
        """Write the present counters of every group."""
        for path in {""} | self._mirrored():
            if not path.endswith("mon_groups"):
                self._show_counters(path)

    def _mirrored(self) -> set[str]:
        root = self.host.resctrl
        found = (path for pattern in ("*", "mon_groups/*", "*/mon_groups/*") for path in root.glob(pattern))
        return {str(path.relative_to(root)) for path in found if path.name != "mon_data" and path.is_dir()}

    def _show_counters(self, path: str) -> None:
        places = domain_folders(self.machine).items()
        for name in (f"{folder}/{event}" for folder, place in places for event in place.events):
            counter = self.tree.find(f"{path}/mon_data/{name}")
            target = self.host.resctrl / path / "mon_data" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(counter.file.read(counter.group))

    def _below(self, path: str) -> str:
        below = os.path.relpath(path, self.host.resctrl)
        return "" if below == "." else below

    def _changed(self) -> None:
        self.sync()
        self.show_tasks()

    def mkdir(self, path: str) -> None:
        if self.is_folder(path):
            raise FileExistsError(17, "File exists", path)
        self.tree.make(self._below(path))
        self._changed()

    def rmdir(self, path: str) -> None:
        self.tree.remove(self._below(path))
        self._changed()

    def rename(self, old: str, new: str) -> None:
        self.tree.rename(self._below(old), self._below(new))
        os.rename(old, new)  # the inode goes along, as the kernel's does
        self._changed()

    def read(self, path: str) -> bytes:
        node = self.tree.find(self._below(path))
        late = [tid for tid, group in self._late.items() if group is node.group and tid in self.threads.starts]
        listed = "".join(f"{tid}\n" for tid in late if path.endswith("/tasks"))
        return f"{node.file.read(node.group)}{listed}".encode()

    def write(self, path: str, value: bytes) -> None:
        node = self.tree.find(self._below(path))
        assert node.file.write is not None
        node.file.write(node.group, value.decode(), ROOT_CALLER)
        if path.endswith("/tasks"):
            self._late.pop(int(value), None)
        self.show_tasks()

    def listdir(self, path: str) -> list[str]:
        return list(self.tree.entries(self.tree.find(self._below(path))))

    def is_folder(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(self.tree.find(self._below(path)).mode)
        except OSError:
            return False

    def groups(self) -> set[tuple[str, str]]:
        """Return every mon_group: its class and name."""
        return {(parent.name, name) for parent in self.model.all_classes() for name in parent.monitored}
