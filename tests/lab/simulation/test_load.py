"""The work of pods in the simulation: counted in their groups and cgroups, and changed by classes and cgroups."""

from math import inf
from pathlib import Path

import pytest

from resctrl_hooks.lab.scene.node import MACHINE, play
from resctrl_hooks.lab.scene.scenes import CAPACITY, CULPRIT, PODS, VICTIM
from resctrl_hooks.lab.simulation.load import Load
from resctrl_hooks.lab.simulation.model import Resctrl
from resctrl_hooks.lab.simulation.tree import Tree

from .test_model import Bench

GROUPS = {pod: f"mon_groups/{pod.uid}" for pod in PODS} | {CULPRIT: f"batch/mon_groups/{CULPRIT.uid}"}
VICTIMS = GROUPS[VICTIM]


class Node(Bench):
    """The node of the scenes, without FUSE."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.sim = Resctrl(MACHINE, self.proc, lambda: self.now, Load(str(folder / "work.json"), MACHINE))
        self.tree = Tree(self.sim)
        self.make("batch", *GROUPS.values())
        for number, path in enumerate(GROUPS.values(), 100):
            self.proc.start(number)
            for group in (path.partition("mon_groups")[0], path):
                self.write(f"{group}/tasks", str(number))

    def files(self, pod: str) -> Path:
        return self.folder / "cgroup/kubepods" / f"pod{pod}"

    def seconds(self, number: int) -> None:
        for _ in range(number):
            self.sim.settle()
            self.now += 1
        self.sim.settle()

    def used(self, path: str, event: str) -> float:
        """Return the growth of a counter in four seconds."""
        self.seconds(2)
        before = self.number(path, event)
        self.seconds(4)
        return self.number(path, event) - before

    def cost(self) -> float:
        """Return the cycles of an operation of the victim."""
        cycles, operations = (
            self.used(VICTIMS, f"mon_PERF_PKG_00/{event}") for event in ("unhalted_core_cycles", "uops_retired")
        )
        return cycles / operations


@pytest.fixture
def node(tmp_path: Path) -> Node:
    play(str(tmp_path), "quiet")
    return Node(tmp_path)


def test_class_is_limited_by_its_schemata(node: Node) -> None:
    quiet = node.cost()
    for scene, text in (("cache", "L3:0=007\n"), ("noisy", "MB:0=30\n")):
        play(str(node.folder), scene)
        assert 1.5 < node.cost() / quiet < (2 if scene == "noisy" else inf)
        node.write("batch/schemata", text)
        assert node.cost() / quiet < 1.15
        if scene == "cache":
            node.write("batch/schemata", "L3:0=fff\n")
    for group in ("batch", GROUPS[CULPRIT]):
        assert node.used(group, "mon_L3_00/mbm_total_bytes") == pytest.approx(4 * 0.3 * CAPACITY, rel=0.01)


def test_cgroup_has_waits_and_obeys_its_limit(node: Node) -> None:
    play(str(node.folder), "cpu")
    node.seconds(3)
    pressure = (node.files(VICTIM.uid) / "cpu.pressure").read_text()
    assert int(pressure.rpartition("=")[2]) > 1_000_000
    (node.files(CULPRIT.uid) / "cpu.max").write_text("200000 100000\n")
    node.seconds(1)
    before = (node.files(CULPRIT.uid) / "cpu.stat").read_text().split()
    node.seconds(2)
    after = (node.files(CULPRIT.uid) / "cpu.stat").read_text().split()
    assert int(after[1]) - int(before[1]) == pytest.approx(2 * 2e6, rel=0.01)
    assert int(after[-1]) > int(before[-1])


def test_pod_with_cpus_of_its_own_does_not_wait(node: Node) -> None:
    play(str(node.folder), "cpu")
    for pod, cpus in {VICTIM: "0-3", CULPRIT: "4-23"}.items():
        (node.files(pod.uid) / "main").mkdir(parents=True)
        (node.files(pod.uid) / "main/cpuset.cpus").write_text(f"{cpus}\n")
    node.seconds(3)
    assert "total=0" in (node.files(VICTIM.uid) / "cpu.pressure").read_text()


@pytest.mark.parametrize(
    "old, new",
    [("{", "{{"), ('"cpus": 24', '"cpus": 0'), ('"cycles": 1.0', '"cycles": 0'), ("held", "hold"), ("4", "[]")],
)
def test_damaged_file_changes_nothing_and_ended_pods_do_nothing(node: Node, old: str, new: str) -> None:
    node.seconds(1)
    file = node.folder / "work.json"
    file.write_text(file.read_text().replace(old, new))
    assert node.used(VICTIMS, "mon_L3_00/mbm_total_bytes") > 4e9
    for task in range(100, 103):
        node.proc.end(task)
    assert node.used(VICTIMS, "mon_L3_00/mbm_total_bytes") == 0
