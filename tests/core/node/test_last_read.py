"""Counts of a key that returns: its groups are read once more before they are removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosts.shared_node import SharedNode

from resctrl_hooks.core.node import lifecycle
from resctrl_hooks.core.node.resctrl.totals_file import LOCK

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from hosts.shared_node import Pod

HOUSES = ("lab",)


def last_container(root: Path) -> tuple[SharedNode, Pod]:
    """Return a node that releases a pod with its last container, and a pod that has just been read."""
    node = SharedNode(root, rmids=8, release="last-container")
    pod = node.start("shop")
    node.kernel.now += 1
    node.totals()
    return node, pod


def test_pod_whose_counters_are_being_read_is_released(tmp_path: Path) -> None:
    node, pod = last_container(tmp_path)
    context = node.context()
    context.monitor.patience = 0.05
    node.kernel.end(pod.pid)
    with context.ledger.lock_totals(LOCK, 0), context.monitor.hold(pod.key) as locked:
        assert lifecycle.release_key(locked, context)
    assert not node.kernel.groups()


def test_pod_with_a_cgroup_of_its_own_never_returns_and_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = SharedNode(tmp_path, rmids=8)
    pod = node.start("shop")
    monkeypatch.setattr(lifecycle, "_read_late", None)
    node.end(pod)
    assert not node.kernel.groups()
