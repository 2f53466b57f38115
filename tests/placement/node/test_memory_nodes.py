"""Memory nodes: limits that are bound to nodes never exceed their memory."""

import json
from itertools import combinations
from typing import Any

import pytest
from conftest import Host
from golden import Golden
from hosts.devices import Devices
from hosts.machines import machine, write_sysfs
from hosts.placed import CPUS, MACHINE, PlacedHost
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.container.oci import Bundle, parse_state
from resctrl_hooks.core.node.container.workload import derive
from resctrl_hooks.core.node.host.cpulist import format_list, parse_list
from resctrl_hooks.core.node.host.topology import FAST, SLOW, MemoryNode, Topology
from resctrl_hooks.placement.node import topology_aware
from resctrl_hooks.placement.node.hints import hints_of
from resctrl_hooks.placement.node.policy import EXCLUSIVE, Decision, PlacementError, Request
from resctrl_hooks.placement.node.usage import Grant, Usage

GIB = 1 << 30
GPU, NIC = "0000:ca:00.0", "0000:17:02.1"
CARD = {"path": "/dev/dri/card0", "type": "c", "major": 226, "minor": 0}
HINTS, TYPE = "topologyhints.resource-policy.nri.io", "memory-type.resource-policy.nri.io"
TWO = machine(2, 2, 2, 4, 2)
"""Two packages of two nodes of two L3 caches of four cores."""
NODES = [node.cpus for node in TWO.nodes]


@pytest.fixture
def node(host: Host) -> PlacedHost:
    placed, devices = PlacedHost(host), Devices(host.root)
    first, second = MACHINE.nodes
    devices.add_file(devices.add_pci(GPU, 1, second.cpus) / "drm/card0", "char", "226:0")
    devices.add_pci(NIC, 0, first.cpus)
    return placed


def place(topology: Topology, *wanted: Request) -> list[Decision]:
    """Return the decisions of topology-aware for containers that start in this order."""
    grants: list[Grant] = []
    for request in wanted:
        decision = topology_aware.choose(topology, Usage(topology, grants), request)
        grants.append(Grant(decision, request.key, memory=request.memory))
    return [grant.decision for grant in grants]


def with_kinds(fast: int = GIB, slow: int = 4 * GIB) -> Topology:
    """Return two packages, each with a node of DRAM (0, 1), of HBM (2, 3) and of PMEM (4, 5)."""
    topology = machine(2, 1, 1, 4, memory=2 * GIB)
    for number, kind, size in ((2, FAST, fast), (3, FAST, fast), (4, SLOW, slow), (5, SLOW, slow)):
        topology.nodes.append(MemoryNode(number, 0, {}, size, kind))
    for node in topology.nodes:
        near = {other: 15 if (other ^ node.id) & 1 == 0 else 30 for other in range(6)}
        node.distances = near | {node.id: 10}
    return topology


def test_memory_type_annotation_binds_and_is_recorded(node: PlacedHost) -> None:
    node.sys = write_sysfs(with_kinds(), node.host.root / "kinds")
    node.place()
    node.start("a", 1000, **{TYPE: "hbm"})
    assert "unknown memory type 'tape'" in node.start("b", 1000, **{TYPE: "tape"})
    assert "not read" not in node.start("c", 1000, **{TYPE: "dram,pmem"})
    node.place(pinMemory=False)
    node.start("d", 1000, **{TYPE: "hbm"})
    assert (node.mems("a"), node.mems("c") in ("0,4", "1,5"), node.mems("d")) == ("2", True, "")


@given(
    st.sampled_from([machine(2, 2, 1, 2, memory=8 * GIB), machine(1, 3, 1, 2, memory=4 * GIB)]),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 20)), max_size=30),
)
def test_no_set_of_nodes_has_more_bound_to_it_than_memory(topology: Topology, wanted: list[tuple[int, int]]) -> None:
    """The whole node may: nothing is bound to it."""
    requests = [Request(f"c{number}", milli=milli, memory=gib * GIB) for number, (milli, gib) in enumerate(wanted)]
    found = place(topology, *requests)
    sizes = {1 << node.id: node.memory for node in topology.nodes}
    for number in range(1, len(sizes)):
        for nodes in combinations(sizes, number):
            bound = [
                one.memory for one, to in zip(requests, found, strict=True) if to.mems and not to.mems & ~sum(nodes)
            ]
            assert sum(bound) <= sum(sizes[one] for one in nodes)
    assert all(one.mems != topology.memory_nodes for one in found)


# Hints from devices: which devices count, and the parts of the machine that placement prefers


def near(*cpus: int, **values: Any) -> Request:
    hints = [[f"dev{number}", format_list(one)] for number, one in enumerate(cpus)]
    return Request("a", **{"milli": 500, **values}, hints=hints)


def chosen(request: Request, *others: Decision) -> Decision:
    return topology_aware.choose(TWO, Usage(TWO, [*map(Grant, others)]), request)


def test_devices_and_pci_variables_are_hints(node: PlacedHost) -> None:
    config: dict[str, Any] = {
        "linux": {"devices": [CARD, {"path": "/dev/null", "type": "c", "major": 1, "minor": 3}, "x", {"path": 1}]},
        "process": {"env": ["A=b", f"PCIDEVICE_X_COM_NIC={NIC},none", f"PCIDEVICE_X_COM_NIC_INFO={GPU}", 7]},
    }
    settings = node.host.context().settings
    first, second = (format_list(one.cpus) for one in MACHINE.nodes)
    both = [["/dev/dri/card0", second], [NIC, first]]
    found = {kinds: hints_of(Bundle(config), kinds, settings) for kinds in ("", "true", "mounts, devices")}
    assert [*found.values()] == [both] * 3
    assert [hints_of(Bundle(config), off, settings) for off in ("false", "none", "mounts")] == [[]] * 3


KINDS = ("T", "F", "all", "pod-resources", "mounts,pod-resources", "faLse", "off", "None", "none,device")


def test_unknown_kind_of_hints_is_a_dropped_wish(node: PlacedHost, golden: Golden) -> None:
    node.start("a", 500)
    state, bundle = parse_state(json.dumps(node.told("a", 500)).encode()), Bundle({"linux": {"devices": [CARD]}})
    lines = []
    for kinds in KINDS:
        told = derive(state, bundle, [], "/")
        lines.append(f"{kinds}: {hints_of(bundle, kinds, node.host.context().settings, told)}, dropped {told.dropped}")
    golden("\n".join(lines))


def test_exclusive_cores_are_near_to_the_device_and_a_strict_hint_refuses_other_parts() -> None:
    own: dict[str, Any] = {"kind": EXCLUSIVE, "exclusive": 4, "milli": 4000}
    assert not chosen(near(NODES[3], **own)).owned & ~NODES[3]
    apart = near(NODES[0], NODES[3], **own)
    assert not chosen(apart).owned & NODES[3]
    apart.by_hints = True
    assert not chosen(apart).owned & ~(NODES[0] | NODES[3])
    strict = near(NODES[2], strict_hints=True)
    assert chosen(strict).pool == "l3-4"
    with pytest.raises(PlacementError, match="no room near to its device dev0"):
        chosen(strict, Decision("shared", "x", cpus=NODES[2], milli=16000))


def test_hook_places_container_near_to_its_device(node: PlacedHost) -> None:
    node.devices = [CARD]
    assert "near to /dev/dri/card0" in node.start("a", 2000, **{CPUS: "exclusive"})
    assert not parse_list(node.cpus("a")) & ~MACHINE.nodes[1].cpus
    node.stop("a")
    node.start("a", 2000, **{CPUS: "exclusive", HINTS: "false"})
    assert not parse_list(node.cpus("a")) & ~MACHINE.nodes[0].cpus
