"""A policy's view of the use of CPUs."""

from hosts.machines import machine

from resctrl_hooks.node.features.placement.policy import EXCLUSIVE, MIXED, RESERVED, SHARED, Decision
from resctrl_hooks.node.features.placement.usage import Grant, Usage

MACHINE = machine(cores=4, threads=1)


def test_pool_is_a_set_of_shared_cpus() -> None:
    grants = [
        Grant(Decision(SHARED, "all", cpus=0b1111, milli=500)),
        Grant(Decision(SHARED, "all", cpus=0b1111, milli=250), users=2),
        Grant(Decision(MIXED, "all", cpus=0b1111, owned=0b0010, milli=100)),
        Grant(Decision(EXCLUSIVE, "all", owned=0b0100, milli=1000)),  # shares nothing
        Grant(Decision(RESERVED, "reserved", cpus=0b0001, milli=700)),  # no other container has those either
    ]
    usage = Usage(MACHINE, grants, reserved=0b0001)
    assert usage.pools() == [0b1111]
    assert usage.load(0b1111) == (850, 4)
    assert usage.load(0b0001) == (0, 0)
    assert (usage.owned, usage.usable, usage.common) == (0b0110, 0b1110, 0b1000)
