"""Hook, reconcile and release killed at every system call with an effect, while they change values of the node.

These are the values of CPU classes, and the CPUs of interrupts beside exclusive CPUs. strace kills, as in
`test_kill_features`. The values of sysfs and /proc/irq are files here.
"""

from typing import Any, ClassVar

import pytest
from conftest import Host
from hosts.cpufreq import ClassHost, disabled, on
from hosts.interrupts import EXCLUSIVE, InterruptHost, without
from hosts.traced_hook import SystemCall, TracedHook

from resctrl_hooks.core.node.reconcile.reconcile import reconcile

HOUSES = ("placement",)
pytestmark = pytest.mark.no_cover
CLASS = {
    "name": "fast",
    "freqGovernor": "performance",
    "minFreq": "2400000",
    "disabledCstates": ["C6"],
    "uncoreMaxFreq": "1800000",
}
POOL = {"name": "db", "cpus": "0-1", "cpuClass": "fast", "namespaces": ["shop"]}


class Classes(ClassHost):
    """A container in a pool with a CPU class."""

    VALUES: ClassVar = {
        **on("0-1", {"scaling_governor": "performance", "scaling_min_freq": "2400000"}),
        **disabled("0-1", "state3"),
        "package_00_die_00/max_freq_khz": "1800000",
    }
    MILLI = 500
    ASKED: ClassVar[dict[str, str]] = {}

    def use(self, **section: Any) -> None:
        self.classes(**({"pools": [POOL], "cpuClasses": [CLASS]} | section))

    def changed(self) -> dict[str, str]:
        return self.cpufreq.changed()


class Interrupts(InterruptHost):
    """A container with exclusive CPUs that has turned off their interrupts."""

    VALUES: ClassVar = without("0,16")
    MILLI = 2000
    ASKED: ClassVar = EXCLUSIVE

    def use(self, **section: Any) -> None:
        self.place(**section)


Node = Classes | Interrupts


@pytest.fixture(params=[Classes, Interrupts])
def node(request: pytest.FixtureRequest, host: Host) -> Node:
    made: Node = request.param(host)
    made.use()
    return made


def start(node: Node) -> None:
    node.start("a", node.MILLI, **node.ASKED)


def points(node: Node, state: dict[str, Any], command: str = "hook") -> tuple[TracedHook, list[SystemCall]]:
    """Return the traced hook, and the calls with an effect of an undisturbed run.

    A file that is created is also written or renamed, and the number of files that are opened varies.
    """
    traced = TracedHook(node.host)
    assert traced.run(state, command=command).returncode == 0
    return traced, [call for call in traced.calls() if call.is_effect and call.name != "openat"]


def reconciled(node: Node) -> None:
    assert [*reconcile(node.host.context()).events["problem"]] == []
    again = reconcile(node.host.context())
    assert ([*again.events["problem"]], again.number("repaired")) == ([], 0)


def assert_restored(node: Node) -> None:
    assert node.changed() == {}
    assert not node.record.exists()


def started(node: Node) -> dict[str, Any]:
    node.begin("a")
    return node.told("a", node.MILLI, **node.ASKED)


def test_start_killed_anywhere_leaves_values_that_reconcile_completes_and_restores(node: Node) -> None:
    node.start("a", 500)  # creates the state directory
    node.stop("a")
    traced, calls = points(node, started(node))
    assert node.changed() == node.VALUES
    node.stop("a")
    assert len(calls) > len(node.VALUES)
    for point in calls:
        for dead in (False, True):
            traced.run(started(node), point.kill())
            assert traced.was_killed_at(point)
            if dead:
                node.die("a")
            reconciled(node)
            recorded = bool(node.host.records())
            assert node.changed() == (node.VALUES if recorded else {})
            assert not (dead and recorded)
            if not dead:
                node.stop("a")
            assert_restored(node)
    print(f"start: {len(calls)} kill points")


def test_end_killed_anywhere_is_completed_by_reconcile(node: Node) -> None:
    start(node)
    node.die("a")
    traced, calls = points(node, node.told("a", status="stopped"))
    assert node.changed() == {}
    for point in calls:
        start(node)
        assert node.changed() == node.VALUES
        node.die("a")
        traced.run(node.told("a", status="stopped"), point.kill())
        assert traced.was_killed_at(point)
        reconciled(node)
        assert_restored(node)
    print(f"end: {len(calls)} kill points")


@pytest.mark.parametrize(
    "node, removed",
    [(Classes, {"cpuClasses": []}), (Classes, {"cpuClasses": [], "enabled": False}), (Interrupts, {"enabled": False})],
    indirect=["node"],
    ids=["classes removed", "classes and placement removed", "placement disabled"],
)
def test_reconcile_killed_anywhere_after_a_removal_restores_values_in_the_end(
    node: Node, removed: dict[str, Any]
) -> None:
    start(node)
    node.use(**removed)
    traced, calls = points(node, {}, "reconcile")
    assert node.changed() == {}
    for point in calls:
        node.use()
        reconciled(node)
        assert node.changed() == node.VALUES
        node.use(**removed)
        traced.run({}, point.kill(), command="reconcile")
        assert traced.was_killed_at(point)
        reconciled(node)
        assert_restored(node)


def test_release_killed_anywhere_restores_values_when_it_is_repeated(node: Node) -> None:
    start(node)
    traced, calls = points(node, {}, "release")
    assert node.changed() == {}
    assert len(calls) > len(node.VALUES)
    for point in calls:
        start(node)
        assert node.changed() == node.VALUES
        traced.run({}, point.kill(), command="release")
        assert traced.was_killed_at(point)
        assert traced.run({}, command="release").returncode == 0
        assert_restored(node)
