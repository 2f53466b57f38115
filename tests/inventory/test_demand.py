"""`list --demand` on a node with more pods than RMIDs."""

from pathlib import Path

from hosts.shared_node import RULES, SharedNode
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.inventory.demand import demand_of, filled
from resctrl_hooks.inventory.gather import gather


@given(
    st.integers(-2, 20), st.dictionaries(st.integers(-5, 5), st.integers(0, 9)), st.integers(0, 5), st.integers(-5, 5)
)
def test_supply_is_never_exceeded_and_higher_priorities_come_first(
    available: int, wanted: dict[int, int], reserved: int, above: int
) -> None:
    given_ = filled(available, wanted, reserved=reserved, above=above)
    assert sum(given_.values()) <= max(available, 0)
    short = [priority for priority in wanted if given_[priority] < wanted[priority]]
    for priority, number in wanted.items():
        assert 0 <= given_[priority] <= number
        if short and priority < max(short) and max(short) > above >= priority:
            assert given_[priority] == 0


def test_demand_and_holders_are_counted(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=4, priority=RULES)
    for namespace in ("batch", "batch", "batch", "gold", "silver"):
        node.start(namespace)
    context = node.context()
    inventory = gather(context)
    assert [pod.priority for pod in inventory.pods] == [-10, -10, -10, 100, 50]
    assert [pod.state for pod in inventory.pods].count("waiting") == 2
    (demand,) = demand_of(context, gather(context))
    assert (demand.total, demand.others, demand.wanted) == (4, 1, 5)
    found = [(one.priority, one.wanted, one.counted, one.kept, one.turn_percent) for one in demand.levels]
    assert found == [(100, 1, 1, 1, 100.0), (50, 1, 1, 1, 100.0), (-10, 3, 1, 1, 33.3)]
