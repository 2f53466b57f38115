"""CPU classes on a simulated host: their values, and the restoration of the previous values."""

from typing import Any

import pytest
from conftest import Host
from hosts.cpufreq import POOLS, ClassHost
from hosts.interrupts import EXCLUSIVE, InterruptHost
from hosts.kernel_values import AfterWrites, Writer, after_writes, check_kept, check_refused
from hosts.machines import machine
from hosts.placed import PlacedHost

from resctrl_hooks.core.node.host.cpulist import format_list, parse_list
from resctrl_hooks.placement.node import node_values
from resctrl_hooks.placement.node.cpu_classes import assign, values_of
from resctrl_hooks.placement.node.policy import SHARED, Decision
from resctrl_hooks.placement.node.usage import Grant, Usage

POOL = "pool.placement.resctrl-hooks.io"
TRUE_WRITE = node_values.write_value


# CPU classes: which CPUs have them, and their values by file


def assigned(options: dict[str, Any], *decisions: Decision) -> list[tuple[str, str]]:
    topology = machine(1, 1, 2, 4, 2, isolated=0b1000 << 4)
    usage = Usage(topology, [*map(Grant, decisions)], reserved=0b1)
    return [(name, format_list(cpus)) for name, cpus in assign(usage, options)]


@pytest.mark.parametrize("policy", ["topology-aware", "/etc/policy.py"])
def test_class_of_pool_is_unused_under_policy_without_pools(policy: str) -> None:
    part = Decision(SHARED, "db", cpus=parse_list("0-3"))  # a part of the machine with a pool's name
    assert assigned({"policy": policy, "pools": POOLS, "idleCpuClass": "slow"}, part) == [("slow", "4-6,8-15")]


def test_values_that_are_not_set_are_not_written() -> None:
    classes = [{"name": "a", "minFreq": None, "freqGovernor": "", "energyPerformancePreference": "0"}]
    assert values_of({"cpuClasses": classes}) == {"a": {"energy_performance_preference": "0"}}


# Values of placement are in effect only if they read so: another value of the kernel's is noticed, and a refusal

__all__ = ("after_writes",)


def cpuset(host: Host) -> str:
    return PlacedHost(host).start("a", 2000, **{"class.placement.resctrl-hooks.io": ""})


def frequencies(host: Host) -> str:
    node = ClassHost(host)
    return node.start("a", 500) + (node.record.read_text() if node.record.exists() else "")


def interrupts(host: Host) -> str:
    node = InterruptHost(host)
    return node.start("a", 2000, **EXCLUSIVE) + (node.record.read_text() if node.record.exists() else "")


WRITERS = {
    "cpuset": Writer(cpuset, "cpuset.cpus", "0-31", "set cpuset.cpus to '0-31'"),
    "cpufreq": Writer(frequencies, "scaling_min_freq", "900000", '"now": "900000"'),
    "interrupts": Writer(interrupts, "25/smp_affinity_list", "3", '"now": "3"'),
}


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_value_that_the_kernel_keeps_instead_is_reported(host: Host, after_writes: AfterWrites, writer: Writer) -> None:
    check_kept(host, after_writes, writer)


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_refused_value_is_reported(host: Host, after_writes: AfterWrites, writer: Writer) -> None:
    check_refused(host, after_writes, writer)
