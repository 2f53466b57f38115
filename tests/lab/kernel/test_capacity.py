"""The capacity of memory domains from the firmware's tables, as a real kernel passes them on, and the load by it."""

import time

import pytest

from kernel.installed import Installed
from resctrl_hooks.observe.inventory.memory_load import memory_usage
from resctrl_hooks.observe.inventory.usage_models import MemoryUsage
from resctrl_hooks.observe.node.capacity.capacity import Capacities, Capacity, capacities_by_domain, capacities_of
from resctrl_hooks.observe.node.guard.snapshots import domains_of
from resctrl_hooks.observe.node.sampler.largest import Largest
from resctrl_hooks.observe.node.snapshot.snapshot import take

MODULE = 3200e6 * 8
"""Bytes per second of the guest's module, whose width QEMU leaves unknown."""


def seen(installed: Installed) -> tuple[Capacities, MemoryUsage]:
    """Let the sampling process note rates; return the capacities, and the load of the first domain."""
    context = installed.context()
    context.ledger.prepare()
    largest = Largest(context, take(context).slots.values())
    for _ in range(4):
        before = take(context)
        largest.saw(before)
        time.sleep(1.2)
    now = take(context)
    capacities = capacities_of(context, now.slots.values())
    assert capacities_by_domain(context)[0] == capacities.of(0)
    (first, *_) = memory_usage(before, now, domains_of(context, now), capacities, {})
    assert first.memory_bandwidth_bytes_per_second
    return capacities, first


def check_load(installed: Installed, expected: Capacity) -> Capacities:
    """Check the capacity of the first domain, and its load."""
    capacities, first = seen(installed)
    assert first.capacity_source == expected.source
    assert first.capacity_bytes_per_second == pytest.approx(expected.rate)
    part = (first.memory_bandwidth_bytes_per_second or 0) / expected.rate
    assert first.load_percent == pytest.approx(100 * part, abs=0.06)
    return capacities


@pytest.mark.nightly
@pytest.mark.guest(cpus=4, numa=2, hmat=20000, dimms=3200)
def test_hmat_gives_each_node_its_capacity(installed: Installed) -> None:
    found = check_load(installed, Capacity(20e9, "hmat"))
    assert found.of(1) == Capacity(40e9, "hmat")
    installed.configure(monitoring={"capacity": {"0": 5e9}})
    check_load(installed, Capacity(5e9, "configured"))


@pytest.mark.nightly
@pytest.mark.guest(cpus=4, dimms=3200)
def test_smbios_gives_the_modules_to_the_only_memory_domain(installed: Installed) -> None:
    check_load(installed, Capacity(0.8 * MODULE, "smbios"))


@pytest.mark.guest(cpus=2)
def test_largest_rate_stands_for_an_unknown_capacity(installed: Installed) -> None:
    capacities, first = seen(installed)
    found = capacities.of(0)
    assert found is not None
    assert first.capacity_source == found.source == "seen"
    assert capacities.reliable(0) == 0
