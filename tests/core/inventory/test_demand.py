"""The demand for RMIDs and counters on a node with more pods than these."""

from pathlib import Path

from hosts.faults import Fail
from hosts.shared_node import RULES, SharedNode
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.inventory import demand as demand_module
from resctrl_hooks.core.inventory.demand import demand_of, filled
from resctrl_hooks.core.inventory.gather import gather
from resctrl_hooks.core.inventory.models import Pod
from resctrl_hooks.core.node.errors import HookError

HOUSES = ("lab",)


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


def test_foreign_and_missing_groups_are_not_pods_of_a_priority(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=8, priority=RULES, reserve={"rmids": 2, "above": 60, "runtimes": 1})
    pods = [node.start(namespace) for namespace in ("gold", "silver", "batch", "plain")]
    root = node.context().monitor.resctrl.root
    node.kernel.mkdir(f"{root}/mon_groups/job")
    node.kernel.rmdir(f"{root}/mon_groups/{pods[1].key}")
    node.context().ledger.mark("waiting", pods[1].key)
    (demand,) = demand_of(node.context(), gather(node.context()))
    assert (demand.total, demand.others, demand.reserved, demand.wanted) == (8, 3, 2, 4)
    found = [(one.priority, one.wanted, one.counted, one.kept) for one in demand.levels]
    assert found == [(100, 1, 1, 1), (50, 1, 0, 1), (0, 1, 1, 1), (-10, 1, 1, 0)]


def test_pods_that_nobody_counts_do_not_demand_an_rmid(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=8)
    inventory = gather(node.context())
    inventory.pods = [Pod(key=state, state=state) for state in ("unmonitored", "foreign", "idle")]
    (demand,) = demand_of(node.context(), inventory)
    assert [(one.priority, one.wanted) for one in demand.levels] == [(0, 1)]


def test_demand_for_counters_is_that_of_pods_beside_foreign_groups(tmp_path: Path, fail: Fail) -> None:
    node = SharedNode(tmp_path, rmids=16, assignable_counters=4, priority=RULES)
    root = node.context().monitor.resctrl.root
    node.kernel.mkdir(f"{root}/mon_groups/job")  # the kernel gives it two counters
    for namespace in ("gold", "batch", "batch", "batch"):
        node.start(namespace)
    rmids, counters = demand_of(node.context(), gather(node.context()))
    assert (rmids.resource, rmids.total, rmids.wanted) == ("RMIDs", 16, 4)
    assert counters.resource == "counters of mbm_total_bytes in L3 domain 0"
    assert (counters.total, counters.others, counters.reserved) == (4, 2, 0)
    found = [(one.priority, one.wanted, one.counted, one.kept, one.turn_percent) for one in counters.levels]
    assert found == [(100, 1, 1, 1, 100.0), (-10, 3, 1, 1, 33.3)]
    inventory = gather(node.context())
    fail(demand_module, "holders_of", HookError("unreadable"))
    assert [one.resource for one in demand_of(node.context(), inventory)] == ["RMIDs"]
