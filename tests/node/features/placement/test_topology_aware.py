"""The order of choices in the topology-aware policy."""

from resctrl_hooks.node.features.placement.exclusive_cpus import whole_cores
from resctrl_hooks.node.host.topology import Topology


def test_whole_cores_have_all_threads_and_fast_ones_come_first() -> None:
    cores = [0b11, 0b1100, 0b110000]
    assert whole_cores(Topology(0b111111, cores), 0b111011) == [0b11, 0b110000]
    hybrid = Topology(0b111111, cores, kinds={"efficient": 0b1111, "performance": 0b110000})
    assert whole_cores(hybrid, 0b111111) == [0b110000, 0b11, 0b1100]
