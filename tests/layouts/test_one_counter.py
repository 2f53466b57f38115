"""A machine with one bandwidth counter in each domain (NVIDIA's Grace and Vera): pods take turns, totals stay exact."""

from pathlib import Path
from typing import Any

import pytest
from hosts.killed_hook import each_kill_point
from hosts.shared_node import SharedNode
from hosts.simulated_kernel import Layout

from resctrl_hooks.core.node.reconcile.release import release_everything
from resctrl_hooks.core.node.resctrl.assignment import Assignments
from resctrl_hooks.core.node.resctrl.layouts import AT_MEMORY, assignments_file
from resctrl_hooks.core.node.sharing.released_counters import FILE
from resctrl_hooks.lab.simulation.machine import BYTES_PER_SECOND

HOUSES = ("lab",)
SECONDS = 3
PODS = 3
LAYOUTS = [Layout("L3"), Layout("MB", "0-1,10"), Layout("NODE", "1,4"), Layout("X", "3,7")]
EACH = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.bandwidth)


def node_of(folder: Path, layout: Layout, pods: int = PODS) -> SharedNode:
    share: dict[str, Any] = {"interval": 0.0001, "atLeast": 0.0}
    node = SharedNode(folder, pmg=8, assignable_counters=1, layout=layout, share=share)
    for _ in range(pods):
        node.start()
    return node


def counted(node: SharedNode, *, killed: bool = False) -> list[str]:
    """Return the groups with a counter in each domain, the root group as an empty name; ``killed``: in a half state."""
    resctrl = node.context().monitor.resctrl
    folders = {"": resctrl.root} | {name: resctrl.group_folder("", name) for name in resctrl.groups("")}
    read = Assignments(resctrl).of
    states = {name: {*read(folder)["mbm_total_bytes"].values()} for name, folder in folders.items()}
    assert killed or {len(of) for of in states.values()} == {1}, "a group is counted in some domains only"
    return sorted(name for name, of in states.items() if all(of))


@EACH
def test_pods_take_turns_with_exact_totals(tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_of(tmp_path, layout, 0)
    assert counted(node) == [""]
    pods = [node.start() for _ in range(PODS)]
    assert counted(node) == [pods[0].key], "the root group's counter goes to the first pod"
    assert (node.host.state / FILE).exists()
    assert f"in {Assignments(node.context().monitor.resctrl).resource} domain" in node.host.log.read_text()
    rounds = 6
    for _ in range(rounds):
        node.kernel.now += SECONDS
        assert node.reconcile().ok
        assert len(counted(node)) == 1
    totals = node.totals()
    whole = rounds * SECONDS * BYTES_PER_SECOND
    unit = len(node.kernel.machine.bandwidth_domains) * node.kernel.UNIT
    assert abs(sum(totals.values()) - whole) <= PODS * rounds * unit
    assert all(abs(total - whole / PODS) <= whole / PODS / 2 for total in totals.values()), totals
    turns = node.context().monitor.read_counters(None).turns
    assert {key: pytest.approx(sum(moved for _, moved in of), abs=unit) for key, of in turns.items()} == totals
    released: set[str] = set()
    write = node.kernel.write

    def noted(path: str, value: bytes) -> None:
        if value == b"mbm_total_bytes:*=_\n":
            released.add(path.rpartition("/")[2])
        write(path, value)

    monkeypatch.setattr(node.kernel, "write", noted)
    for pod in pods:
        node.end(pod)
    node.reconcile()
    assert counted(node) == [""]
    assert not (node.host.state / FILE).exists()
    if layout.bandwidth in AT_MEMORY:  # where rmdir does not release them
        assert released == {assignments_file(layout.bandwidth)}


@EACH
def test_root_group_gets_its_counter_back_at_the_uninstallation(tmp_path: Path, layout: Layout) -> None:
    node = node_of(tmp_path, layout)
    node.kernel.show_counters()
    node.context().monitor.read_all()  # the totals' file stays apart from the record of the counters
    assert not release_everything(node.context()).problems
    assert counted(node) == [""]
    assert not (node.host.state / FILE).exists()


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.ci)])
def test_counter_is_given_back_after_a_hook_was_killed_at_any_effect(tmp_path: Path, step: int) -> None:
    for number, folder, done in each_kill_point(tmp_path, least=5 // step, most=300):
        effects = number * step
        node = node_of(folder, LAYOUTS[1], 0)
        pod = node.start(effects=effects)
        done.extend([True] * (counted(node, killed=True) == [pod.key]))
        assert not release_everything(node.context()).problems
        assert counted(node) == [""], effects
