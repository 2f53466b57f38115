"""CPU classes: which CPUs have them, and their values by file."""

from typing import Any

import pytest
from hosts.cpufreq import POOLS
from hosts.machines import machine

from resctrl_hooks.core.node.host.cpulist import format_list, parse_list
from resctrl_hooks.placement.node.cpu_classes import assign, values_of
from resctrl_hooks.placement.node.policy import EXCLUSIVE, SHARED, Decision
from resctrl_hooks.placement.node.usage import Grant, Usage


def assigned(options: dict[str, Any], *decisions: Decision) -> list[tuple[str, str]]:
    topology = machine(1, 1, 2, 4, 2, isolated=0b1000 << 4)
    usage = Usage(topology, [*map(Grant, decisions)], reserved=0b1)
    return [(name, format_list(cpus)) for name, cpus in assign(usage, options)]


def test_pool_class_applies_to_cpus_that_its_containers_use() -> None:
    options = {"policy": "pools", "pools": POOLS, "idleCpuClass": "slow"}
    assert assigned(options) == [("fast", ""), ("slow", ""), ("slow", "1-6,8-15")]
    shares = Decision(SHARED, "db", cpus=parse_list("0-3"))
    owns = Decision(EXCLUSIVE, "batch", owned=parse_list("4,12"), hidden=parse_list("12"))
    other = Decision(SHARED, "plain", cpus=parse_list("8-9"))
    assert assigned(options, shares, owns, other) == [("fast", "1-3"), ("slow", "4,12"), ("slow", "5-6,10-11,13-15")]


def test_container_of_pool_that_shares_whole_node_has_class_on_cpus_of_pool_only() -> None:
    wide = Decision(SHARED, "db", cpus=parse_list("0-15"))
    assert assigned({"policy": "pools", "pools": POOLS}, wide) == [("fast", "1-3"), ("slow", "")]


@pytest.mark.parametrize("policy", ["topology-aware", "/etc/policy.py"])
def test_class_of_pool_is_unused_under_policy_without_pools(policy: str) -> None:
    part = Decision(SHARED, "db", cpus=parse_list("0-3"))  # a part of the machine with a pool's name
    assert assigned({"policy": policy, "pools": POOLS, "idleCpuClass": "slow"}, part) == [("slow", "4-6,8-15")]


def test_values_that_are_not_set_are_not_written() -> None:
    classes = [{"name": "a", "minFreq": None, "freqGovernor": "", "energyPerformancePreference": "0"}]
    assert values_of({"cpuClasses": classes}) == {"a": {"energy_performance_preference": "0"}}
