"""Values of placement are in effect only if they read so: another value of the kernel's is noticed, and a refusal."""

import pytest
from conftest import Host
from hosts.cpufreq import ClassHost
from hosts.interrupts import EXCLUSIVE, InterruptHost
from hosts.kernel_values import AfterWrites, Writer, after_writes, check_kept, check_refused
from hosts.placed import PlacedHost

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
