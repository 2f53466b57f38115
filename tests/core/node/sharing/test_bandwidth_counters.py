"""Assignment of bandwidth counters, reports of missing ones, and dry runs without changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hosts.shared_node import SharedNode

from resctrl_hooks.core.node.resctrl.counter_share import LOCK
from resctrl_hooks.core.node.sharing import counter_turns
from resctrl_hooks.core.node.sharing.bandwidth_counters import SHORT, balance, ensure_counted

if TYPE_CHECKING:
    from pathlib import Path

HOUSES = ("lab",)
TOTAL = "mbm_total_bytes"
SHARE: dict[str, Any] = {"interval": 0.0001, "atLeast": 0.0}


def node_of(folder: Path, pods: int, **monitoring: Any) -> SharedNode:
    """Return a node with counters for two pods' totals."""
    node = SharedNode(folder, rmids=8, assignable_counters=2, events=[TOTAL], **monitoring)
    for _ in range(pods):
        node.start()
    return node


def said(node: SharedNode) -> str:
    return node.host.log.read_text() if node.host.log.exists() else ""


def test_uncounted_pods_are_named_with_domains_and_node_is_short(tmp_path: Path) -> None:
    node = node_of(tmp_path, 3)
    found = balance(node.context())
    assert found is not None
    assert (found.changes, found.event) == ([], TOTAL)
    assert found.uncounted == {node.pods[2].key: [0]}
    assert node.context().ledger.flagged(SHORT)
    node.end(node.pods[0])
    found = balance(node.context())
    assert found is not None
    assert len(found.changes) == 1
    assert found.uncounted == {}
    assert not node.context().ledger.flagged(SHORT)


def test_dry_run_reports_the_same_without_changes(tmp_path: Path) -> None:
    node = node_of(tmp_path, 3)
    node.end(node.pods[0])
    assert node.context().ledger.flagged(SHORT)
    file = f"{node.host.resctrl}/mon_groups/{node.pods[2].key}/mbm_L3_assignments"
    before = node.kernel.read(file)
    found = balance(node.context(), dry_run=True)
    assert found is not None
    assert len(found.changes) == 1
    assert node.kernel.read(file) == before
    assert node.context().ledger.flagged(SHORT)
    balance(node.context())
    assert node.kernel.read(file) != before


@pytest.mark.parametrize(
    "share, options, turns",
    [
        (SHARE, {"in_turns": True}, 1),
        (SHARE, {"in_turns": True, "dry_run": True}, 0),
        (SHARE, {}, 0),
        (None, {"in_turns": True}, 0),
    ],
)
def test_turns_happen_in_reconcile_and_on_request_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: Any, options: dict[str, bool], turns: int
) -> None:
    node = node_of(tmp_path, 3, **({"share": share} if share else {}))
    asked: list[Any] = []
    monkeypatch.setattr(counter_turns, "set_turns", lambda *given: asked.append(given))
    assert balance(node.context(), **options) is not None
    assert len(asked) == turns


@pytest.mark.parametrize(
    "pods, told, words",
    [
        (3, 2, "all bandwidth counters are in use: {total} of {key} is not counted in L3 domain 0"),
        (2, 0, "{key} got a counter for {total} from groups of lower priority"),
    ],
)
def test_pod_is_told_of_its_counter_or_a_missing_one(tmp_path: Path, pods: int, told: int, words: str) -> None:
    node = node_of(tmp_path, pods)
    assert words.format(total=TOTAL, key=node.pods[told].key) in said(node)


def test_busy_counters_are_not_a_failure(tmp_path: Path) -> None:
    node = node_of(tmp_path, 1)
    context = node.context()
    context.monitor.patience = 0.01
    with context.ledger.lock_named(LOCK, 1):
        ensure_counted(context, node.pods[0].key)
    assert "cannot assign a bandwidth counter: " in said(node)


def test_kernel_without_assignment_needs_nothing(tmp_path: Path) -> None:
    node = SharedNode(tmp_path)
    key = node.start().key
    assert balance(node.context()) is None
    ensure_counted(node.context(), key)
    assert "counter" not in said(node)
