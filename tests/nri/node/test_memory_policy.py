"""Memory policies of classes: the nodes that they name, permissions, and runtimes without them."""

from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from hosts.machines import machine, write_sysfs

from nri.node.conftest import POD, log
from nri.node.test_adjustments import adjusted
from resctrl_hooks.core.config.check import check_text
from resctrl_hooks.core.node.host.cpulist import format_list, parse_list
from resctrl_hooks.core.node.host.topology_sysfs import read_topology
from resctrl_hooks.nri.node.memory_policy import MemoryPolicyError, memory_policy, nodes_of

pytestmark = pytest.mark.usefixtures("alarm")
NRI = (0, 12)
SPREAD: dict[str, Any] = {"mode": "MPOL_INTERLEAVE", "nodes": "allowed-mems", "flags": ["MPOL_F_STATIC_NODES"]}
ASKS = {**POD, "annotations": {"class.memory-policy.nri.io": "spread"}}
CLASSES: dict[str, Any] = {"classes": [{"name": "spread", "policy": SPREAD}]}


@pytest.fixture
def sysfs(tmp_path: Path) -> str:
    """Two packages with two NUMA nodes each."""
    return write_sysfs(machine(packages=2, nodes=2, cores=2), tmp_path / "machine")


def test_words_name_nodes(sysfs: str) -> None:
    topology = read_topology(sysfs)
    cpus = topology.nodes[2].cpus
    distances = sorted(set(topology.nodes[2].distances.values()))

    def named(words: str) -> str:
        return format_list(nodes_of(words, topology, cpus, parse_list("0-1")))

    words = ("all", "allowed-mems", "cpu-nodes", "cpu-packages", "0,3")
    assert [named(one) for one in words] == ["0-3", "0-1", "2", "2-3", "0,3"]
    assert [named(f"max-dist:{most}") for most in distances] == ["2", "2-3", "0-3"]


def test_policy_is_that_of_the_class_within_the_containers_nodes(sysfs: str) -> None:
    whole = {"mode": 3, "nodes": "0-3", "flags": [0]}
    assert memory_policy(SPREAD, NRI, {}, sysfs) == whole
    assert memory_policy(SPREAD, NRI, {"mems": "1-2"}, sysfs) == {**whole, "nodes": "1-2"}
    assert memory_policy({**SPREAD, "nodes": "all"}, NRI, {"mems": "2"}, sysfs) == {**whole, "nodes": "2"}
    assert memory_policy({"mode": "MPOL_LOCAL"}, NRI, {"mems": "2"}, "/nowhere") == {"mode": 4, "flags": []}


@pytest.mark.parametrize("version", [(0, 11), (0, 0)])
def test_runtime_without_memory_policies_is_named(sysfs: str, version: tuple[int, int]) -> None:
    with pytest.raises(MemoryPolicyError, match=r"the runtime's NRI has no memory policies; NRI 0\.12 has them"):
        memory_policy(SPREAD, version, {}, sysfs)


def test_nodes_that_the_container_may_not_use_are_named(sysfs: str) -> None:
    with pytest.raises(MemoryPolicyError, match="MPOL_INTERLEAVE of nodes 3: the container may only use 0-1"):
        memory_policy({**SPREAD, "nodes": "3"}, NRI, {"mems": "0-1"}, sysfs)


def test_policy_of_an_annotated_class_is_in_the_specification(host: Host, sysfs: str) -> None:
    settings = {**CLASSES, "sysPath": sysfs, "nri": {"allow": {"shop": ["spread"]}}}
    found = adjusted(host, ASKS, "v0.12.1", settings)
    assert found == {"linux": {"memory_policy": {"mode": 3, "nodes": "0-3", "flags": [0]}}}
    assert adjusted(host, POD, "v0.12.1", settings) == {}, "a container without the annotation"


@pytest.mark.parametrize(
    "allow, version, why",
    [
        ({}, "v0.12.1", "not allowed to use the devices, mounts, variables or policy of class 'spread'"),
        ({"shop": ["spread"]}, "v0.11.0", "the runtime's NRI has no memory policies"),
    ],
)
def test_policy_needs_permission_and_a_runtime_that_has_it(
    host: Host, sysfs: str, allow: dict[str, list[str]], version: str, why: str
) -> None:
    assert adjusted(host, ASKS, version, {**CLASSES, "sysPath": sysfs, "nri": {"allow": allow}}) == {}
    assert why in log(host)


@pytest.mark.parametrize(
    "policy, error",
    [
        ("{mode: MPOL_SPREAD}", "policy.mode"),
        ("{nodes: all}", "policy.mode"),
        ("{mode: MPOL_BIND, nodes: some}", "'some' names no nodes; use all, allowed-mems"),
        ("{mode: MPOL_BIND, nodes: 'max-dist:x'}", "'max-dist:x' names no nodes"),
        ("{mode: MPOL_BIND, flags: [MPOL_F_NONE]}", "policy.flags"),
    ],
)
def test_invalid_policy_is_named(policy: str, error: str) -> None:
    checked = check_text(f"classes: [{{name: a, policy: {policy}}}]".encode(), "config.yaml")
    assert error in " ".join(str(problem) for problem in checked.errors)
