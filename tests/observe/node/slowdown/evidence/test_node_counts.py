"""Counters of cgroups beside pods, of tasks, processors, disks and reclaim, from files as the kernel writes them."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from resctrl_hooks.observe.node.slowdown.evidence import cgroup_tree
from resctrl_hooks.observe.node.slowdown.evidence.cgroup_tree import REST
from resctrl_hooks.observe.node.slowdown.evidence.cpu.lost_time import Lost, crowded_cpus, lost_cpus
from resctrl_hooks.observe.node.slowdown.evidence.cpu.processors import Processor, mean_of, processors_between
from resctrl_hooks.observe.node.slowdown.evidence.cpu.shares import Group
from resctrl_hooks.observe.node.slowdown.evidence.cpu.task_delays import Delays, read_delays, sampled, waited_between
from resctrl_hooks.observe.node.slowdown.evidence.disks import Moved
from resctrl_hooks.observe.node.slowdown.evidence.node_counts import Needs, NodeCounter, needs_of, node_between
from resctrl_hooks.observe.node.slowdown.evidence.node_use import NodeUse
from resctrl_hooks.observe.node.slowdown.evidence.reclaim import Memory
from resctrl_hooks.observe.node.slowdown.evidence.use import Use
from resctrl_hooks.observe.node.slowdown.units import WallPart

POD, SERVICE = "kubepods.slice/pod1", "system.slice/backup.service"
NOTHING = Needs(cpu=False, disk=False, memory=False)


def use(**more: Any) -> Use:
    """Return what the pod used."""
    return Use("traffic", None, None, 0.5, None, {}, **{"waited": WallPart(0.0), **more})


class Tree:
    """A node with one pod, one service, and processes in no cgroup; all of it grows by ``second``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        settings: Any = SimpleNamespace(proc_path=f"{root}/proc", cgroup_path=f"{root}/cgroup", sys_path=f"{root}/sys")
        self.counter = NodeCounter(settings)
        self.pods = {"key": [f"{root}/cgroup/{POD}"]}
        self.write("cgroup/kubepods.slice", {"cpu.weight": "300", "cpu.max": "max 100000"})
        self.write(f"cgroup/{POD}", {"cpu.weight": "4", "cpu.max": "50000 100000", "cpuset.cpus.effective": "0"})
        self.write("cgroup/system.slice", {"cpu.weight": "0", "cpuset.cpus.effective": "0-1"})
        self.write(f"cgroup/{SERVICE}", {"cgroup.procs": str(os.getpid())})

    def write(self, folder: str, files: dict[str, str]) -> None:
        """Write files of a folder."""
        (self.root / folder).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (self.root / folder / name).write_text(f"{text}\n")

    def at(self, second: int) -> None:
        """Write the counters of a second."""
        micro = second * 1_000_000
        for path, part in ((POD, 1), (SERVICE, 3)):
            files = {
                "cpu.stat": f"usage_usec {part * micro // 4}\nthrottled_usec 0",
                "cpu.pressure": f"some avg10=0.00 total={micro // 4}\nfull avg10=0.00 total={micro // 4}",
                "io.stat": f"8:0 rbytes={part * 1000 * second} wbytes=0 rios={part * second} wios=0\n7:0 rbytes=0",
                "memory.current": str(10_000 * part * second),
                "memory.stat": f"anon 1\npgsteal {part * second}\nworkingset_refault_file {second}",
            }
            self.write(f"cgroup/{path}", files)
        self.write("cgroup/kubepods.slice", {"memory.events.local": f"low 0\nhigh {second}\nmax {second}"})
        stat = "\n".join(f"cpu{cpu} {6 * second} 0 0 {2 * second} 0 {second} 0 {second} 0 0" for cpu in (0, 1))
        disks = {"diskstats": f"8 0 sda {8 * second} 0 {5 * second} 0 0 0 0 0 0 {500 * second} 0 0"}
        self.write("proc", {"stat": f"cpu  1 2 3\n{stat}\nintr 5", "vmstat": f"pgscan_direct {second}", **disks})

    def window(self, needs: Needs) -> NodeUse:
        """Return the node's use in two seconds."""
        self.at(10)
        before = self.counter.read(self.pods, needs)
        self.at(12)
        found = use(cpus=1, lost=Lost(0.5, 0.25, 0.0))
        after = self.counter.read(self.pods, needs)
        return node_between(before, after, {"key": found}, processors_between(before.ticks, after.ticks), 2.0)


def test_window_has_the_tree_of_cgroups_and_all_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Tree(tmp_path).window(Needs())
    assert found.processors == {cpu: Processor(0.6, 0.1, 0.1) for cpu in (0, 1)}
    assert mean_of(found.processors, 2) == found.processors[1]
    assert found.groups is not None
    kubepods, system, *_ = groups = {one.name: one for one in found.groups}
    assert (kubepods, system) == ("kubepods.slice", "system.slice")
    assert groups[kubepods].children == (Group("key", 4.0, 0.5, 1, 0.5, 0.75),)
    (service,) = groups[system].children
    assert (service.name, service.used) == (SERVICE, 0.75)
    assert service.wanted == pytest.approx(1.0)
    assert groups[system].weight == pytest.approx(0.3), "of cpu.idle"
    assert found.disks is not None
    disk = found.disks["8:0"]
    assert (disk.name, disk.busy) == ("sda", 0.5)
    assert disk.moved == {"key": Moved(1000.0, 1.0), SERVICE: Moved(3000.0, 3.0), REST: Moved(0.0, 4.0)}
    assert disk.parts() == pytest.approx({"key": 0.25 / 1.5, SERVICE: 0.75 / 1.5, REST: 0.5 / 1.5})
    assert found.memory == {"key": Memory(10_000 + 4096, 4096), SERVICE: Memory(30_000 + 3 * 4096, 4096)}
    assert (found.scanned, found.limits) == (2, {"kubepods.slice": 4, "system.slice": 0})
    monkeypatch.setattr(cgroup_tree, "MOST_OTHERS", 0)
    few = Tree(tmp_path).window(Needs()).groups or ()
    assert [one.name for one in few] == ["kubepods.slice", REST], "those beyond the most"
    assert few[1].used == pytest.approx(1.2 - 0.5)


def test_only_what_a_wait_needs_is_read(tmp_path: Path) -> None:
    assert Tree(tmp_path).window(NOTHING) == NodeUse(Tree(tmp_path).window(Needs()).processors)
    assert needs_of([use()]) == NOTHING
    assert needs_of([use(waited=WallPart(0.03))]) == NOTHING._replace(cpu=True)
    assert needs_of([use(blocked=WallPart(0.5), reclaimed=WallPart(0.5))]) == Needs(cpu=False)
    assert sampled({"a": use(), "b": use(waited=WallPart(0.01))}) == {}
    assert sampled({"a": use(waited=None)}) == {"a": 128}, "a kernel without pressure"
    waiting = {str(number): use(waited=WallPart(0.5)) for number in range(100)}
    assert sum(sampled({"a": use(), **waiting}).values()) <= 600


@pytest.mark.parametrize(
    "values, lost",
    [
        ((0.5, 0.5, 0.5, 0.5, 8, 0.0), (0.5, 0.0)),  # one task shares a CPU
        ((0.25, 0.25, 0.25, 0.25, 8, 0.0), (0.25, 0.0)),  # and rests half of the time
        ((1.0, 1.0, 0.5, 7.0, 2, 0.0), (1.0, 0.0)),  # eight tasks share two CPUs with each other and with another pod
        ((4.0, 0.5, 0.5, 4.0, 32, 0.0), (4.0, 0.0)),  # eight tasks share eight CPUs
        ((2.0, 1.0, 0.0, 6.0, 2, 0.0), (0.0, 0.0)),  # only with each other
        ((0.5, 0.5, 0.5, 0.5, 8, 0.5), (0.0, 0.5)),  # own limit
        ((4.0, 0.5, 0.5, None, 32, 0.0), (4.0, 0.0)),  # tasks unknown
        ((0.5, 0.5, None, None, 8, 0.0), (0.5, 0.0)),  # an old kernel
        ((0.5, 0.0, 0.0, 0.0, 8, 0.0), (0.0, 0.0)),
    ],
)
def test_lost_time_is_what_others_used_while_no_own_task_ran(values: Any, lost: tuple[float, float]) -> None:
    assert lost_cpus(*values) == pytest.approx(lost)


@pytest.mark.parametrize(
    "values, lost",
    [
        ((1.25, 0.53, 0.55, 2, 2, 0.75), 0.55),  # two tasks on one CPU, while others run on the pod's second one
        ((1.0, 0.9, 0.9, 1, 2, 0.0), 0.0),  # two tasks share their only CPU
        ((0.5, 1.0, 2.5, 1, 3, 0.5), 0.5),  # three tasks, and a neighbour
        ((2.0, 1.0, 6.0, 2, 8, 0.0), 0.0),  # only with each other
        ((1.0, 0.3, 0.3, 16, 2, 0.01), 0.01),  # each task wakes the other on its own CPU, on an idle node
        ((1.0, 0.5, 0.5, 16, 64, 8.0), 0.0),  # most of its tasks sleep: how many ran beside is unknown
        ((1.0, 0.0, 0.0, 2, 2, 1.0), 0.0),
    ],
)
def test_crowded_tasks_lost_at_least_what_others_used_of_the_other_cpus(values: Any, lost: float) -> None:
    assert crowded_cpus(*values) == pytest.approx(lost)


def test_delays_of_tasks(tmp_path: Path) -> None:
    folder, proc, own = tmp_path / "pod", tmp_path / "proc", os.getpid()
    folder.mkdir()
    (folder / "cgroup.threads").write_text(f"{own}\n7\n8\n")
    assert read_delays(str(proc), [str(folder)], 8) is None
    for tid, text in ((own, "5000000000 1000000000 4"), (7, "0 0 0")):
        (proc / str(tid)).mkdir(parents=True)
        (proc / str(tid) / "schedstat").write_text(text)
    found = read_delays(str(proc), [str(folder)], 8)
    assert found is not None
    assert (found.tasks, found.number) == ({own: (5.0, 1.0), 7: (0.0, 0.0)}, 3)
    assert found.cpus == sum(1 << cpu for cpu in os.sched_getaffinity(0))
    (folder / "container").mkdir()
    (folder / "container" / "cpu.stat").write_text("usage_usec 5\nnr_throttled 3\nthrottled_usec 2000000\n")
    found = read_delays(str(proc), [str(folder)], 2)
    assert found is not None
    assert (found.throttled, found.throttles, found.cpus) == (2.0, 3, 0), "too few tasks tell where all may run"
    old = Delays({1: (5.0, 1.0), 2: (1.0, 1.0)}, 2)
    assert waited_between(old, Delays({1: (6.0, 1.5), 3: (1.0, 0.25)}, 2)) == pytest.approx(0.75), "a new task"
    assert waited_between(old, Delays({1: (6.0, 1.5)}, 4)) == pytest.approx(2.0), "one of four"
    assert waited_between(None, old) is None
