"""A refused request of a pod's author: the operator's settings apply."""

from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from hosts.placed import PlacedHost

from resctrl_hooks.core.node.host.cpulist import parse_list


@pytest.mark.parametrize(
    "name, value",
    [
        ("cpus.placement.resctrl-hooks.io", "exclusive"),
        ("cpus.placement.resctrl-hooks.io", "mine"),
        ("pool.placement.resctrl-hooks.io", "other"),
        ("pool.placement.resctrl-hooks.io", "x" * 300),
        ("cpu-class.resource-policy.nri.io", "turbo"),
        ("cpu-class.resource-policy.nri.io", "gone"),
        ("cpu.preserve.resource-policy.nri.io", "true"),
        ("memory-type.resource-policy.nri.io", "gold"),
        ("prefer-reserved-cpus.resource-policy.nri.io", "true"),
    ],
)
def test_refused_placement_request_leaves_the_operators_pool(tmp_path: Path, name: str, value: str) -> None:
    expression = {"key": "namespace", "operator": "In", "values": ["shop"]}
    pools = [{"name": "own", "cpus": "2-3", "matchExpressions": [expression]}, {"name": "other", "cpus": "4-5"}]
    section: dict[str, Any] = {"policy": "pools", "pools": pools, "allow": {}, "cpuClasses": [{"name": "turbo"}]}
    placed = PlacedHost(Host(tmp_path))
    placed.place(**section)
    log = placed.start("a", 500, **{name: value})
    assert "its request failed" in log
    assert placed.cpus("a") == "2-3"


def test_refused_request_leaves_a_guaranteed_container_its_exclusive_cpus(tmp_path: Path) -> None:
    placed = PlacedHost(Host(tmp_path))
    placed.place(allow={"shop": ["exclusive"]})
    log = placed.start("a", 2000, **{"cpu-class.resource-policy.nri.io": "gone"})
    assert "is placed as without annotations; its request failed" in log
    assert parse_list(placed.cpus("a")).bit_count() == 2
