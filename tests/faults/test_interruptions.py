"""A kill at each effect, and an error at each system call, of every way in which the node half changes a node.

One reconcile (after an error two) then gives what a run without an interruption gives, a further one changes nothing,
and the end of the container leaves the node as it was. What is compared is the whole node: groups, tasks, cgroups'
files, values of sysfs and of interrupts, and the names of records. A foreign group and foreign values are among them.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hosts.cpufreq import Cpufreq
from hosts.interrupts import DISABLE, InterruptHost
from hosts.killed_hook import NEVER, Interruption, interrupted
from hosts.node import UID, Container, Node, pod_number
from hosts.placed import CPUS, MACHINE
from hosts.simulated_kernel import Kernel

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.reconcile.release import release_everything
from resctrl_hooks.core.node.watch.containers import Containers
from resctrl_hooks.core.node.watch.move import serve

HOUSES = ("lab", "placement")
pytestmark = pytest.mark.no_cover
ALL_MAY: dict[str, Any] = {"enabled": True, "allow": {"shop": ["*"]}}
ASKED = {
    "memory.high.memtierd.nri.io": "64M",
    "class.rdt.resctrl-hooks.io": "gold",
    "class.blockio.resctrl-hooks.io": "slow",
    "class.scheduling.resctrl-hooks.io": "background",
    CPUS: "exclusive",
    **DISABLE,
}
WRITTEN = {"cpu.weight": "20", "io.weight": "default 50", "memory.high": str(64 << 20)}
FOUND = {
    "cpu.weight": "100", "io.weight": "default 100", "memory.high": "max", "memory.current": "4096",
    "memory.low": "4096", "cpuset.cpus": "", "cpuset.mems": "",
}  # fmt: skip
FAST = {
    "name": "fast", "freqGovernor": "performance", "minFreq": "2400000", "disabledCstates": ["C6"],
    "uncoreMaxFreq": "1800000",
}  # fmt: skip
POOLS: dict[str, Any] = {
    "policy": "pools",
    "pools": [{"name": "db", "cpus": "0-3,16-19", "cpuClass": "fast", "namespaces": ["shop"]}],
    "cpuClasses": [FAST],
}
OF_AN_ERROR = ("groups", "tasks")
"""What may differ after an error: a pod keeps a group that its failed step needed until another pod waits, and a class
whose record was not read is applied again.
"""


class FullNode(Node):
    """A node with every feature that needs no program, whose first container has changed values of the whole node.

    It has exclusive CPUs of a CPU class, without interrupts. A container of another pod shares the pool, and other
    programs have a group, and values in the container's cgroup.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root, kernel=partial(Kernel, rmids=12))
        self.values = InterruptHost(self.host)
        self.cpufreq = Cpufreq(MACHINE, self.values.sys)
        self.cgroup_files = FOUND
        self.add_class("gold", "silver")
        self.use()
        self.kernel.mkdir(f"{self.resctrl}/gold/mon_groups/pqos")
        self.kernel.spawn("/system.slice/cron", 1, "gold", "pqos")
        resources: Any = {"cpu": {"shares": 2048}, "memory": {"limit": 64 << 20}}
        self.main = Container(f"{1:064x}", UID, ASKED, {"resources": resources})
        self.other = Container(f"{2:064x}", pod_number(2), {}, {"resources": {"cpu": {"shares": 512}}})
        self.start(self.other, 2)
        self.reconcile()
        self.before = self.seen()

    def use(self, prefix: str = "", **placement: Any) -> None:
        paths = {"kubeletPath": str(self.root / "kubelet"), "irqbalancePath": str(self.values.balancers)}
        self.configure(
            groupPrefix=prefix,
            sysPath=self.values.sys,
            rdt=ALL_MAY,
            classes=[{"name": "swapless", "allowswap": False}],
            memory={"allowLimits": {"shop": ["memory.high"]}, "failurePolicy": "ignore"},
            placement=ALL_MAY | paths | POOLS | placement,
            blockio=ALL_MAY | {"classes": {"slow": [{"weight": 50}]}},
            scheduling=ALL_MAY | {"classes": {"background": {"cpuWeight": 20}}},
        )

    @property
    def folder(self) -> Path:
        return self.cgroup / self.main.cgroup[1:]

    def begin(self) -> None:
        self.spawn(self.main, 2)

    def dies(self) -> None:
        if self.main.pids:
            self.end(self.main)
            self.end_pod()
            (self.crun / self.main.id / "status").unlink(missing_ok=True)

    def passes(self, number: int = 1) -> None:
        for _ in range(number):
            self.kernel.now += 2  # nothing is in limbo
            for unfinished in self.state.glob("*~*"):
                os.utime(unfinished, (0, 0))  # a minute has passed
            report = self.reconcile()
            assert not report.events["failed"], report.as_text()

    def appears_and_passes(self) -> None:
        self.appear(self.main)
        self.passes()

    def seen(self) -> dict[str, Any]:
        model = self.kernel.model
        files = [path for path in self.cgroup.rglob("*") if path.is_file() and path.name != "cgroup.threads"]
        return {
            "groups": self.kernel.groups(),
            "tasks": {tid: self.kernel.where(tid) for tid in self.kernel.threads.starts},
            "classes": sorted(model.classes),
            "node": self.cpufreq.changed() | self.values.changed(),
            **{str(path.relative_to(self.cgroup))[-90:]: path.read_text().strip() for path in files},
            "records": [name for name in self.records() if "~" not in name],
        }


class Scenario(NamedTuple):
    """A change of a node.

    Args:
        act: what is interrupted; it is given the seam to the kernel.
        arrange: what precedes it.
        settle: what follows it; by default the container is known to its runtime, and a reconcile comes.
        wanted: what the container's cgroup has in the end; empty if it has ended.
    """

    act: Callable[[FullNode, Any], object]
    arrange: Callable[[FullNode], object] = FullNode.begin
    settle: Callable[[FullNode], object] = lambda node: node.appears_and_passes()
    wanted: dict[str, str] = WRITTEN


def running(node: FullNode) -> None:
    node.begin()
    node.serve(node.main)
    node.appears_and_passes()


def dies_at_once(node: FullNode) -> None:
    node.dies()
    node.passes()


def ended(node: FullNode) -> None:
    running(node)
    node.dies()


def unseen(node: FullNode) -> None:
    node.begin()
    node.appear(node.main)


def pass_of(node: FullNode, seam: Any) -> None:
    node.reconcile(seam=seam)


def renamed(node: FullNode) -> None:
    """Another program renames the container's group."""
    running(node)
    folder = f"{node.resctrl}/gold/mon_groups"
    node.kernel.rename(f"{folder}/{UID}", f"{folder}/batch")


def in_other_class(node: FullNode) -> None:
    """A program moves the container to another class, which the step of its class changes back."""
    running(node)
    node.kernel.write(f"{node.resctrl}/silver/tasks", b"%d" % node.main.pid)


def with_prefix(node: FullNode) -> None:
    running(node)
    node.use(prefix="rh-")


def without_placement(node: FullNode) -> None:
    running(node)
    node.use(enabled=False)


def of_version_0_2(node: FullNode) -> None:
    """The records lack what later versions added, and the upgrade changed the prefix."""
    running(node)
    ledger = node.context().ledger
    for key in ledger.keys():  # noqa: SIM118  # it is no dictionary
        record: Any = ledger.read_pod(key)
        for name in ("names", "identities", "born"):
            record.pop(name, None)
        ledger.write_pod(key, record)
    node.use(prefix="rh-")


def entered(node: FullNode) -> None:
    running(node)
    node.main.pids.append(node.kernel.spawn(node.main.cgroup, 2, "gold"))


def watch(node: FullNode, seam: Any) -> None:
    context = node.context(seam)
    serve(context, Containers(context.ledger), node.main.pids[-1])


def release(node: FullNode, seam: Any = None) -> None:
    release_everything(node.context(seam))


def release_again(node: FullNode) -> None:
    release(node)
    node.passes(3)


SCENARIOS = {
    "start": Scenario(lambda node, seam: node.serve(node.main, seam)),
    "start of a container that dies at once": Scenario(
        lambda node, seam: node.serve(node.main, seam), settle=dies_at_once, wanted={}
    ),
    "poststop": Scenario(lambda node, seam: node.poststop(node.main.id, seam), ended, FullNode.passes, {}),
    "late start": Scenario(pass_of, unseen, lambda node: node.passes(2)),
    "late end": Scenario(pass_of, ended, FullNode.passes, {}),
    "renamed group": Scenario(pass_of, renamed, FullNode.passes),
    "changed class": Scenario(pass_of, in_other_class, FullNode.passes),
    "changed prefix": Scenario(pass_of, with_prefix, FullNode.passes),
    "upgrade": Scenario(pass_of, of_version_0_2, FullNode.passes),
    "placement disabled": Scenario(pass_of, without_placement, FullNode.passes),
    "exec": Scenario(watch, entered, FullNode.passes),
    "release": Scenario(release, running, release_again),
}


def run(node: FullNode, scenario: Scenario, at: int = NEVER, error: str = "") -> tuple[Interruption, dict[str, Any]]:
    """Return the interruption, and what is seen in the end."""
    scenario.arrange(node)
    interruption = Interruption(at, error)
    try:
        with interrupted(interruption, node.kernel) as seam:
            scenario.act(node, seam)
    except (HookError, OSError):
        assert error, "there was no error"
    scenario.settle(node)
    if error:
        node.passes()  # an interrupt whose affinity could not be read is moved by the pass after the next
    seen = node.seen()
    assert not node.reconcile().changed
    assert node.seen() == seen
    return interruption, {name: value for name, value in seen.items() if name != "tasks"} | {
        "tasks": [node.places(one) for one in (node.main, node.other)]
    }


@pytest.mark.parametrize(
    "error, every",
    [
        ("", 4),
        ("EIO", 24),
        *(pytest.param(*each, marks=pytest.mark.ci) for each in (("", 1), ("EIO", 7), ("ENOSPC", 11))),
    ],
)
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_interrupted_change_is_repaired_by_one_reconcile(
    tmp_path: Path, scenario: Scenario, error: str, every: int
) -> None:
    node = FullNode(tmp_path)
    interruption, wanted = run(node, scenario)
    assert node.folder.is_dir() == bool(scenario.wanted)
    for name, value in scenario.wanted.items():
        assert (node.folder / name).read_text() == value
    clean(node)
    at = -every
    while at < interruption.count:
        at += every
        interruption, seen = run(node, scenario, at, error)
        found = differences(seen, wanted)
        if error:
            all_are_counted(node)
            for name in OF_AN_ERROR:
                found.pop(name, None)
        assert found == {}, (at, interruption.where)
        clean(node)


def all_are_counted(node: FullNode) -> None:
    """Each thread is in a recorded group of its pod, and the foreign group is there."""
    recorded = {(group.rdt_class, os.path.basename(group.path)) for group in node.context().monitor.list()}
    assert node.places(node.main) | node.places(node.other) <= recorded
    assert ("gold", "pqos") in node.kernel.groups()


def clean(node: FullNode) -> None:
    """End the container, if it lives; nothing of it is left."""
    node.dies()
    node.use()
    node.passes()
    assert differences(node.seen(), node.before) == {}


def differences(seen: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    return {name: (value, wanted[name]) for name, value in seen.items() if value != wanted[name]}
