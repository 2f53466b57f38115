"""Each record of placement checks each of its fields."""

from typing import Any

import pytest
from hosts.record_types import check_fields

from resctrl_hooks.core.node.shapes import fits
from resctrl_hooks.placement.node.allocations import AllocationsRecord, _Places
from resctrl_hooks.placement.node.node_values import NodeValuesRecord
from resctrl_hooks.placement.node.policy import DecisionRecord, PlacementNeeds, RequestRecord

REQUEST = {
    "namespace": "shop",
    "pod": "web",
    "container": "app",
    "qos": "Guaranteed",
    "kind": "exclusive",
    "exclusive": 1,
    "milli": 1000,
    "limit": 1000,
    "memory": 1,
    "isolated": True,
    "one_thread": True,
    "any_memory": True,
    "only_isolated": True,
    "pool": "a",
    "matched": "a",
    "group": "a",
    "pulls": [["id", -1]],
    "hints": [["gpu", "0-3"]],
    "strict_hints": True,
    "by_hints": True,
    "quiet": True,
    "housekeeping": True,
    "cpu_class": "turbo",
    "memory_kinds": ["dram"],
    "wide": "die",
}
DECISION = {
    "kind": "exclusive",
    "pool": "a",
    "milli": 1000,
    "cpus": "0-3",
    "owned": "0,1",
    "hidden": "2",
    "mems": "0",
    "quiet": "0",
    "cpu_class": "turbo",
    "why": "full",
}
ROW = ["id", "key", 1, 1, "/cgroup", 1000, "", "/scope", 1, "{}"]


@pytest.mark.parametrize(
    "kind, value",
    [
        (RequestRecord, REQUEST),
        (DecisionRecord, DECISION),
        (PlacementNeeds, {"request": REQUEST, "decision": DECISION}),
        (
            NodeValuesRecord,
            {"boot": "boot", "values": {"a": {"found": "1", "wanted": "2", "now": "2", "refused": ""}}, "facts": "f"},
        ),
        (
            AllocationsRecord,
            {"format": 4, "boot": "boot", "machine": ["0-3"], "containers": 1, "others": {"claim": "0"}},
        ),
    ],
)
def test_record_checks_each_of_its_fields(kind: Any, value: dict[str, Any]) -> None:
    check_fields(kind, value)


def test_row_of_a_container_checks_each_column() -> None:
    assert fits(_Places, [])
    assert fits(_Places, [ROW, ROW])
    for place, value in enumerate(ROW):
        for other in (None, True, 1 if isinstance(value, str) else "1", "\0", -1, 1 << 62, 1.0, "/a/../b"):
            if place not in {0, 1, 6, 9} or other != "/a/../b":  # a text may be any
                assert not fits(_Places, [ROW, [*ROW[:place], other, *ROW[place + 1 :]]]), (place, other)
    damaged: list[Any] = [{}, [{}], [ROW[1:]], [ROW, [*ROW, 1]]]
    for wrong in damaged:
        assert not fits(_Places, wrong)
