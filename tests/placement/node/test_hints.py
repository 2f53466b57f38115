"""Hints from devices: which devices count, and the parts of the machine that placement prefers."""

import json
from typing import Any

import pytest
from conftest import Host
from hosts.devices import Devices
from hosts.machines import machine
from hosts.placed import CPUS, MACHINE, PlacedHost

from resctrl_hooks.core.node.container.oci import Bundle, parse_state
from resctrl_hooks.core.node.container.workload import derive
from resctrl_hooks.core.node.host.cpulist import format_list, parse_list
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.placement.node.hints import hints_of
from resctrl_hooks.placement.node.policy import EXCLUSIVE, Decision, PlacementError, Request
from resctrl_hooks.placement.node.topology_aware import choose
from resctrl_hooks.placement.node.usage import Grant, Usage

GPU, NIC = "0000:ca:00.0", "0000:17:02.1"
CARD = {"path": "/dev/dri/card0", "type": "c", "major": 226, "minor": 0}
HINTS = "topologyhints.resource-policy.nri.io"
TWO = machine(2, 2, 2, 4, 2)
"""Two packages of two nodes of two L3 caches of four cores."""
NODES = [node.cpus for node in TWO.nodes]


@pytest.fixture
def node(host: Host) -> PlacedHost:
    placed = PlacedHost(host)
    devices = Devices(host.root)
    first, second = MACHINE.nodes
    devices.add_file(devices.add_pci(GPU, 1, second.cpus) / "drm/card0", "char", "226:0")
    devices.add_pci(NIC, 0, first.cpus)
    return placed


def settings(node: PlacedHost) -> Settings:
    return node.host.context().settings


def near(*cpus: int, **values: Any) -> Request:
    hints = [[f"dev{number}", format_list(one)] for number, one in enumerate(cpus)]
    return Request("a", milli=values.pop("milli", 500), hints=hints, **values)


def chosen(request: Request, *others: Decision) -> Decision:
    return choose(TWO, Usage(TWO, [*map(Grant, others)]), request)


def test_devices_and_pci_variables_are_hints(node: PlacedHost) -> None:
    config: dict[str, Any] = {
        "linux": {"devices": [CARD, {"path": "/dev/null", "type": "c", "major": 1, "minor": 3}, "x", {"path": 1}]},
        "process": {"env": ["A=b", f"PCIDEVICE_X_COM_NIC={NIC},none", f"PCIDEVICE_X_COM_NIC_INFO={GPU}", 7]},
    }
    first, second = (format_list(one.cpus) for one in MACHINE.nodes)
    both = [["/dev/dri/card0", second], [NIC, first]]
    assert hints_of(Bundle(config), "", settings(node)) == both
    assert hints_of(Bundle(config), "true", settings(node)) == both
    assert hints_of(Bundle(config), "mounts, devices", settings(node)) == both
    for off in ("false", "none", "mounts"):
        assert hints_of(Bundle(config), off, settings(node)) == []


@pytest.mark.parametrize(
    "kinds, wanted, dropped",
    [
        ("T", True, ""),
        ("F", False, ""),
        ("all", True, ""),
        ("pod-resources", True, ""),
        ("mounts,pod-resources", True, ""),
        ("faLse", True, "faLse"),
        ("off", True, "off"),
        ("None", True, "None"),
        ("none,device", False, "device"),
    ],
)
def test_unknown_kind_of_hints_is_a_dropped_wish(node: PlacedHost, kinds: str, *, wanted: bool, dropped: str) -> None:
    node.start("a", 500)
    state, bundle = parse_state(json.dumps(node.told("a", 500)).encode()), Bundle({"linux": {"devices": [CARD]}})
    told = derive(state, bundle, [], "/")
    assert bool(hints_of(bundle, kinds, settings(node), told)) is wanted
    assert str(told.dropped or "") == (
        f"{{'annotation {HINTS}': \"unknown kind of hints '{dropped}'\"}}" if dropped else ""
    )


def test_all_devices_of_the_host_are_no_hint(node: PlacedHost) -> None:
    privileged = {"linux": {"devices": [CARD] * 33}}
    assert hints_of(Bundle(privileged), "", settings(node)) == []
    assert hints_of(Bundle({"linux": {"devices": "x"}, "process": {"env": {}}}), "", settings(node)) == []


def test_part_near_to_the_device_is_preferred() -> None:
    assert chosen(near()).pool == "l3-0"
    found = chosen(near(NODES[2]))
    assert (found.pool, found.why.partition("; ")[2]) == ("l3-4", "near to dev0")
    full = Decision("shared", "x", cpus=NODES[2], milli=16000)
    found = chosen(near(NODES[2]), full)
    assert (found.pool, found.why.partition("; ")[2]) == ("package1", "not only near to dev0")


def test_part_with_both_devices_is_preferred_to_one_of_them() -> None:
    assert chosen(near(NODES[2], NODES[3])).pool == "package1"
    assert chosen(near(NODES[0], NODES[3])).pool == "node"


def test_exclusive_cores_are_near_to_the_device() -> None:
    found = chosen(near(NODES[3], kind=EXCLUSIVE, exclusive=4, milli=4000))
    assert not found.owned & ~NODES[3]
    apart = near(NODES[0], NODES[3], kind=EXCLUSIVE, exclusive=4, milli=4000)
    assert not chosen(apart).owned & NODES[3]
    apart.by_hints = True
    assert not chosen(apart).owned & ~(NODES[0] | NODES[3])


def test_strict_hint_refuses_other_parts() -> None:
    full = Decision("shared", "x", cpus=NODES[2], milli=16000)
    assert chosen(near(NODES[2], strict_hints=True)).pool == "l3-4"
    with pytest.raises(PlacementError, match="no room near to its device dev0"):
        chosen(near(NODES[2], strict_hints=True), full)


def test_hook_places_container_near_to_its_device(node: PlacedHost) -> None:
    node.devices = [CARD]
    assert "near to /dev/dri/card0" in node.start("a", 2000, **{CPUS: "exclusive"})
    assert not parse_list(node.cpus("a")) & ~MACHINE.nodes[1].cpus
    node.stop("a")
    node.start("a", 2000, **{CPUS: "exclusive", HINTS: "false"})
    assert not parse_list(node.cpus("a")) & ~MACHINE.nodes[0].cpus
