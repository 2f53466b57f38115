"""Each layout of bandwidth counters: commands that read them, and turns where each domain has one counter.

`L3` as on most machines, `MB` as in NVIDIA's kernels (Grace and Vera have one counter in each domain), `NODE` as in the
patches under review, and an invented resource. Ids have gaps. An Arm machine is simulated, which counts the total only.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.killed_hook import each_kill_point
from hosts.monitored import KEYS, MonitoredHost, monitored_host
from hosts.shared_node import SharedNode
from hosts.simulated_kernel import Layout

from resctrl_hooks.core.node.reconcile.release import release_everything
from resctrl_hooks.core.node.resctrl.assignment import Assignments
from resctrl_hooks.core.node.resctrl.layouts import AT_MEMORY, assignments_file
from resctrl_hooks.core.node.sharing.released_counters import FILE
from resctrl_hooks.lab.simulation import mounted
from resctrl_hooks.lab.simulation.machine import BYTES_PER_SECOND

HOUSES = ("lab",)
TOTAL = "mbm_total_bytes"
LAYOUTS = {
    Layout("L3"): [0, 1], Layout("MB", "0-1,10"): [0, 1, 10], Layout("NODE", "1,4"): [1, 4], Layout("X", "3,7"): [3, 7]
}  # fmt: skip


class LayoutHost(MonitoredHost):
    """A host with one pod of one process, and where its bandwidth is counted: resource and domains."""

    resource: str
    numbers: list[int]

    @property
    def folders(self) -> list[str]:
        return [f"mon_{self.resource}_{number:02d}" for number in self.numbers]


@pytest.fixture(scope="module", params=LAYOUTS, ids=lambda layout: layout.bandwidth)
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LayoutHost]:
    root, layout = tmp_path_factory.mktemp("layout"), request.param
    machine: dict[str, Any] = {"vendor": "arm", "pmg": 8, "partids": 4, **layout._asdict()}
    machine["other_schemata"] = "MB_MIN:0=0;1=0 MB_REGION0_OPT:0=5 GMB:0=4096"
    capacity = {"monitoring": {"capacity": {"*": 1e9}}}
    with mounted(root / "resctrl", **machine) as path, monitored_host(root, path, **capacity) as made:
        made.__class__ = LayoutHost
        assert isinstance(made, LayoutHost)
        made.resource, made.numbers = layout.bandwidth, LAYOUTS[layout]
        made.pod(0, "web-0")
        yield made


def near(rate: float | None, share: float = 1.0) -> bool:
    """Return whether a rate is about a part of one process's traffic; timers of a busy machine are late."""
    return rate is not None and 0.5 * share * BYTES_PER_SECOND < rate < 1.5 * share * BYTES_PER_SECOND


@pytest.mark.fuse
def test_commands_name_the_domains_and_leave_other_schemata_alone(host: LayoutHost) -> None:
    (pod,) = host.json("list")["items"]
    assert pod["pod"] == "web-0"
    text = host.run("show", "web-0").output
    assert all(folder.removeprefix("mon_") in text for folder in host.folders), text
    found = [one for one in host.context.monitor.read(KEYS[0]) if one.counter.name == TOTAL]
    wanted = [(folder, number, "By") for folder, number in zip(host.folders, host.numbers, strict=True)]
    assert [(one.domain.folder, one.domain.id, one.unit) for one in found] == wanted
    made = host.run("rdt", "show", "--json")
    (root,) = json.loads(made.stdout)["items"]
    assert root["schemata"].items() >= {"MB_MIN": {"0": "0", "1": "0"}, "GMB": {"0": "4096"}}.items()
    assert (root["units"].keys(), root["state"], made.exit_code) == ({"MB"}, "not declared", 0)
    items = json.loads(host.run("doctor", "--json").stdout)["items"]
    assert not [one for one in items if "Traceback" in one["text"]]
    assert [one["level"] for one in items if one["check"] == "counters"] == ["ok"]


# One counter in each domain


SECONDS = 3
PODS = 3
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


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.ci)])
def test_root_group_gets_its_counter_back_at_the_uninstallation_after_each_kill(tmp_path: Path, step: int) -> None:
    for number, folder, done in each_kill_point(tmp_path, least=5 // step, most=300):
        effects = number * step
        node = node_of(folder, [*LAYOUTS][number % len(LAYOUTS)], 0)
        pod = node.start(effects=effects)
        done.extend([True] * (counted(node, killed=True) == [pod.key]))
        node.kernel.show_counters()
        node.context().monitor.read_all()  # the totals' file stays apart from the record of the counters
        assert not release_everything(node.context()).problems
        assert (counted(node), (node.host.state / FILE).exists()) == ([""], False), effects
