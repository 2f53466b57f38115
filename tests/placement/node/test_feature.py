"""Placement by hooks on a made-up host: assigned CPUs, displaced containers, refusals."""

from typing import Any

import pytest
from conftest import UID
from hosts.placed import CPUS, PlacedHost, id_of

from resctrl_hooks.core.node.container.workload import workload_of
from resctrl_hooks.core.node.host.cpulist import parse_list
from resctrl_hooks.placement.node import kubelet
from resctrl_hooks.placement.node.allocations import Book
from resctrl_hooks.placement.node.feature import FEATURE
from resctrl_hooks.placement.node.policy import SHARED
from resctrl_hooks.placement.node.request import PRESERVE_CPUS


def test_container_that_preserves_its_cpus_is_not_placed(node: PlacedHost) -> None:
    log = node.start("a", 500, **{PRESERVE_CPUS: "true"})
    assert "annotation cpu.preserve.resource-policy.nri.io: CPUs and memory nodes left unchanged" in log
    assert Book(node.host.context()).entries == {}
    node.place(allow={"shop": ["exclusive"]})
    assert "is not allowed to keep its CPUs unchanged" in node.start("b", 500, **{PRESERVE_CPUS: "true"})
    assert node.cpus("b") == "0-3,16-19"


def test_cpus_of_dead_pods_are_released_on_demand(node: PlacedHost) -> None:
    other = {"io.kubernetes.pod.uid": UID}
    node.start("dead", 30000, **{CPUS: "exclusive"}, **other)
    node.die("dead")
    node.start("new", 30000, **{CPUS: "exclusive"})
    assert parse_list(node.cpus("new")).bit_count() == 30


@pytest.mark.parametrize(
    "file, policy, pins",
    [
        ("cpu_manager_state", "static", True),
        ("cpu_manager_state", "none", False),
        ("memory_manager_state", "Static", True),
        ("memory_manager_state", "None", False),
    ],
)
def test_placement_avoids_kubelet_cpu_manager(node: PlacedHost, file: str, policy: str, pins: bool) -> None:
    node.kubelet(policy, file)
    log = node.start("a", 500)
    assert ("placement is inactive" in log) is pins
    assert (node.cpus("a") == "") is pins
    assert bool(kubelet.static_managers(node.host.context().settings)) is pins


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_placement_is_inactive_while_kubelet_state_is_damaged(node: PlacedHost, text: str) -> None:
    folder = node.host.root / "kubelet"
    folder.mkdir()
    (folder / "cpu_manager_state").write_text(text)
    assert "cpu_manager_state has no policyName: whether the kubelet pins containers is unknown" in node.start("a", 500)
    assert node.cpus("a") == ""
    node.kubelet("none")
    node.start("b", 500)
    assert node.cpus("b") != ""


def limit(node: PlacedHost, name: str, cpus: str) -> None:
    """Let the parent cgroups of a container allow these CPUs."""
    node.folder(name).mkdir(parents=True)
    (node.folder(name) / "cpuset.cpus.effective").write_text(cpus)


def test_parent_cgroup_with_fewer_cpus_limits_placement(node: PlacedHost) -> None:
    limit(node, "b", "1-3")
    log = node.start("b", 1000, **{CPUS: "exclusive"})
    assert "the kernel set the container's CPUs to 1-3 instead of 0; a parent cgroup" in log
    (entry,) = Book(node.host.context()).entries.values()
    assert (entry.decision.kind, entry.decision.owned, node.cpus("b")) == (SHARED, 0, "0-31")
    assert (node.folder("b") / "cpuset.mems").read_text() == "0-1"


def test_parent_cgroup_with_fewer_cpus_refuses_under_fail(node: PlacedHost) -> None:
    node.place(failurePolicy="fail")
    limit(node, "b", "1-3")
    assert node.attempt("b", 1000, **{CPUS: "exclusive"}).code == 79
    assert Book(node.host.context()).entries == {}


@pytest.mark.parametrize(
    "section, annotations, words",
    [
        ({"allow": {}}, {CPUS: "exclusive"}, "namespace shop is not allowed to use exclusive CPUs"),
        ({}, {CPUS: "mine"}, f"invalid annotation {CPUS}: 'mine'"),
        (
            {"policy": "pools", "pools": [{"name": "db", "cpus": "0-3"}]},
            {"pool.placement.resctrl-hooks.io": "gone"},
            "unknown pool 'gone'",
        ),
        ({"policy": "/nowhere.py"}, {}, "cannot use policy /nowhere.py"),
    ],
)
def test_container_that_cannot_be_placed_shares_cpus(
    node: PlacedHost, section: dict[str, Any], annotations: dict[str, str], words: str
) -> None:
    node.start("own", 2000, **{CPUS: "exclusive"})
    node.place(**section)
    log = node.start("odd", 500, **annotations)
    assert words in log
    assert "shares CPUs; its request failed" in log
    assert parse_list(node.cpus("odd"))
    assert not parse_list(node.cpus("odd")) & parse_list(node.cpus("own"))
    node.assert_sound()
    node.place(failurePolicy="fail", **section)
    outcome = node.attempt("refused", 500, **annotations)
    assert (outcome.code, words in outcome.stderr) == (79, True)
    assert id_of("refused") not in Book(node.host.context()).entries


def test_external_policy_is_used(node: PlacedHost) -> None:
    file = node.host.root / "mine.py"
    file.write_text(
        "from .policy import Decision\n"
        "def choose(topology, usage, request):\n"
        "    return Decision('shared', 'mine', cpus=0b1000, why='I say so')\n"
    )
    node.place(policy=str(file))
    node.start("a")
    assert node.cpus("a") == "3"


def test_preview_shows_the_cpus_that_the_container_would_get(node: PlacedHost) -> None:
    node.start("a", 500)
    told = node.run_unseen("late", 2000, **{CPUS: "exclusive"})
    context = node.host.context()
    for cpus, others in (("0,16", "0-3,16-19"), ("0,16", "1-3,17-19")):
        workload = workload_of(id_of("late"), node.pids["late"], told["bundle"], context.proc, str(node.host.cgroup))
        (step,) = FEATURE.plan(workload, context)
        shown = FEATURE.preview(step, workload, context).parameters
        assert (shown["cpus"], shown["mems"], node.cpus("a")) == (cpus, "0", others)
        assert node.host.call(told).code == 0  # a second preview is of a container that has its place
    assert node.cpus("late") == "0,16"
    node.place(namespaces=["none"])
    (skipped,) = FEATURE.plan(workload, node.host.context())
    assert FEATURE.preview(skipped, workload, node.host.context()) is skipped
