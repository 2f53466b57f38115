"""The largest pods of a class, for the log."""

import pytest
from conftest import Host
from hosts.faults import Fail

from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.resctrl.bandwidth import Bandwidth
from resctrl_hooks.observe.node.guard.pods import Pods

from .node import GB, Node

L3_DOMAINS = Bandwidth("L3", (0, 1))


def count(node: Node, group: str, total: int | str, number: int = 0) -> None:
    """Set the counter of a mon_group of class bronze."""
    folder = node.root / f"bronze/mon_groups/{group}/mon_data/mon_L3_{number:02d}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mbm_total_bytes").write_text(f"{total}\n")


def test_largest_pods_come_first_and_are_at_most_three(host: Host) -> None:
    node = Node(host, l3=(0, 1))
    pods = Pods(node.context(), L3_DOMAINS)
    for rates in ({"a": 9, "b": 0, "c": 0, "d": 0, "e": 0, "z": 0}, {"a": 10, "b": 4, "c": 3, "d": 2, "e": 0, "f": 9}):
        for group, total in rates.items():
            count(node, group, total)
            count(node, group, total * 2, 1)
        pods.sample((0, 1), ["bronze"])
    count(node, "g", "Unavailable")
    assert pods.largest(0, "bronze") == ["b", "c", "d"]
    assert pods.largest(0, "silver") == pods.largest(1, "bronze") == []
    count(node, "a", "Unavailable")
    count(node, "e", 1)
    pods.sample((0, 1), ["bronze"])
    assert pods.largest(0, "bronze") == ["e"]


@pytest.mark.parametrize(
    "pod, namespace, shown",
    [("web", "shop", "shop/web"), ("web", "", "web"), ("", "shop", "pod1"), (None, None, "pod1")],
)
def test_pod_is_named_as_in_its_record(host: Host, pod: str | None, namespace: str | None, shown: str) -> None:
    node = Node(host)
    context = node.context()
    context.ledger.prepare()
    if pod is not None:
        with context.ledger.lock("pod1", 1.0):
            context.ledger.write_pod("pod1", {"groups": {}, "pod": pod, "namespace": namespace or ""})
    found = Pods(context, L3_DOMAINS)
    for total in (0, 1):
        count(node, "pod1", total)
        found.sample((0,), ["bronze"])
    assert found.largest(0, "bronze") == [shown]


def test_pod_with_an_unreadable_record_is_named_by_its_group(host: Host, fail: Fail) -> None:
    node = Node(host)
    found = Pods(node.context(), L3_DOMAINS)
    for total in (0, 1):
        count(node, "pod1", total)
        found.sample((0,), ["bronze"])
    fail(Ledger, "read_pod", LedgerError("cannot read /x"))
    assert found.largest(0, "bronze") == ["pod1"]


def test_log_of_a_cut_names_the_largest_pods(host: Host) -> None:
    node = Node(host)
    guard = node.guard()
    for second in range(6):
        count(node, "web", second * GB)
        node.pass_time(guard, {"gold": 20.0, "silver": 20.0, "bronze": 45.0})  # just full
    (line,) = [line for line in node.lines if "guard lowered" in line]
    assert line.endswith(": load 85%; largest pods: web")
