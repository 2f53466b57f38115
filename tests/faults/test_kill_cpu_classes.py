"""The hook, reconcile and release killed at every system call with an effect, while they write or restore CPU classes.

strace kills them, as in `test_kill_features`. The values of sysfs are files here.
"""

from typing import Any

import pytest
from conftest import Host
from hosts.cpufreq import ClassHost, disabled, on
from hosts.traced_hook import SystemCall, TracedHook

from resctrl_hooks.node.reconcile.reconcile import reconcile

pytestmark = pytest.mark.no_cover
CLASS = {
    "name": "fast",
    "freqGovernor": "performance",
    "minFreq": "2400000",
    "disabledCstates": ["C6"],
    "uncoreMaxFreq": "1800000",
}
POOL = {"name": "db", "cpus": "0-1", "cpuClass": "fast", "namespaces": ["shop"]}
VALUES = {
    **on("0-1", {"scaling_governor": "performance", "scaling_min_freq": "2400000"}),
    **disabled("0-1", "state3"),
    "package_00_die_00/max_freq_khz": "1800000",
}


@pytest.fixture
def node(host: Host) -> ClassHost:
    node = ClassHost(host)
    node.classes(pools=[POOL], cpuClasses=[CLASS])
    return node


def points(node: ClassHost, state: dict[str, Any], command: str = "hook") -> tuple[TracedHook, list[SystemCall]]:
    """Return the traced hook, and the calls with an effect of an undisturbed run.

    A file that is created is also written or renamed, and the number of files that are opened varies.
    """
    traced = TracedHook(node.host)
    assert traced.run(state, command=command).returncode == 0
    return traced, [call for call in traced.calls() if call.is_effect and call.name != "openat"]


def reconciled(node: ClassHost) -> None:
    assert reconcile(node.host.context()).problems == []
    again = reconcile(node.host.context())
    assert (again.problems, again.repaired) == ([], 0)


def started(node: ClassHost) -> dict[str, Any]:
    node.process("a")
    return node.state("a", 500)


def test_start_killed_anywhere_leaves_values_that_reconcile_completes_and_restores(node: ClassHost) -> None:
    node.start("a", 500)  # creates the state directory
    node.stop("a")
    traced, calls = points(node, started(node))
    node.stop("a")
    assert len(calls) > len(VALUES)
    for point in calls:
        for dead in (False, True):
            traced.run(started(node), point.kill())
            assert traced.was_killed_at(point)
            if dead:
                node.die("a")
            reconciled(node)
            recorded = bool(node.host.records())
            assert node.cpufreq.changed() == (VALUES if recorded else {})
            assert not (dead and recorded)
            if not dead:
                node.stop("a")
            assert node.cpufreq.changed() == {}
            assert not node.record.exists()


def test_end_killed_anywhere_is_completed_by_reconcile(node: ClassHost) -> None:
    node.start("a", 500)
    node.die("a")
    traced, calls = points(node, node.state("a", status="stopped"))
    assert node.cpufreq.changed() == {}
    for point in calls:
        node.start("a", 500)
        assert node.cpufreq.changed() == VALUES
        node.die("a")
        traced.run(node.state("a", status="stopped"), point.kill())
        assert traced.was_killed_at(point)
        reconciled(node)
        assert node.cpufreq.changed() == {}
        assert not node.record.exists()


@pytest.mark.parametrize("enabled", [True, False])
def test_reconcile_killed_anywhere_after_classes_are_removed_restores_values_in_the_end(
    node: ClassHost, *, enabled: bool
) -> None:
    node.start("a", 500)
    node.classes(pools=[POOL], cpuClasses=[], enabled=enabled)
    traced, calls = points(node, {}, "reconcile")
    assert node.cpufreq.changed() == {}
    for point in calls:
        node.classes(pools=[POOL], cpuClasses=[CLASS])
        reconciled(node)
        assert node.cpufreq.changed() == VALUES
        node.classes(pools=[POOL], cpuClasses=[], enabled=enabled)
        traced.run({}, point.kill(), command="reconcile")
        assert traced.was_killed_at(point)
        reconciled(node)
        assert node.cpufreq.changed() == {}
        assert not node.record.exists()


def test_release_killed_anywhere_restores_values_when_it_is_repeated(node: ClassHost) -> None:
    node.start("a", 500)
    traced, calls = points(node, {}, "release")
    assert node.cpufreq.changed() == {}
    assert len(calls) > len(VALUES)
    for point in calls:
        node.start("a", 500)
        assert node.cpufreq.changed() == VALUES
        traced.run({}, point.kill(), command="release")
        assert traced.was_killed_at(point)
        assert traced.run({}, command="release").returncode == 0
        assert node.cpufreq.changed() == {}
        assert not node.record.exists()
