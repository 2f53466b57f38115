"""Which counters are the memory bandwidth: one resource of each node."""

import pytest

from resctrl_hooks.core.node.resctrl.bandwidth import bandwidth_of, resource_of
from resctrl_hooks.core.node.resctrl.counters import slot_at
from resctrl_hooks.core.node.resctrl.turn_counts import counted_in

L3, MB, NODE, X = (f"mon_{name}_0{{}}/mbm_total_bytes" for name in ("L3", "MB", "NODE", "X"))


@pytest.mark.parametrize(
    "paths, resource, numbers",
    [
        ([L3.format(0), L3.format(1), "mon_L3_00/mon_sub_L3_00/mbm_total_bytes"], "L3", [0, 1]),
        (["mon_L3_01/llc_occupancy", MB.format(2), MB.format(0)], "MB", [0, 2]),
        (["mon_L3_01/llc_occupancy", NODE.format(1)], "NODE", [1]),
        (["mon_L3_01/llc_occupancy", X.format(7)], "X", [7]),
        ([L3.format(1), MB.format(0), X.format(3)], "MB", [0]),
        ([L3.format(1), X.format(3)], "L3", [1]),
        (["mon_L3_01/llc_occupancy"], "L3", []),
        ([], "L3", []),
    ],
)
def test_bandwidth_is_of_one_resource(paths: list[str], resource: str, numbers: list[int]) -> None:
    slots = list(map(slot_at, paths))
    found = bandwidth_of(slots)
    assert (resource_of(slots), found.resource, found.numbers) == (resource, resource, numbers)
    assert [slots[place].domain.id for place, _ in counted_in(slots)] == [
        one.domain.id for one in slots if one.domain.resource == resource and one.domain.node is None and numbers
        and one.counter.name == "mbm_total_bytes"
    ]  # fmt: skip
    assert found.at_memory == (resource in ("MB", "NODE"))
