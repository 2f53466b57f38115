"""A change of groupPrefix: running pods keep their RMIDs and counts, and every reader knows their groups."""

from __future__ import annotations

import errno
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hosts.shared_node import SharedNode

from resctrl_hooks.core.node.reconcile.report import Options

if TYPE_CHECKING:
    from pathlib import Path

    from hosts.shared_node import Pod

HOUSES = ("lab",)


def names(node: SharedNode) -> list[str]:
    return sorted(name for _, name in node.kernel.groups())


def rmids(node: SharedNode) -> dict[str, int]:
    """Return the RMIDs of groups by the key at the end of their names."""
    return {name[-36:]: group.rmid for name, group in node.kernel.model.root.monitored.items()}


def started(root: Path, number: int = 2, **config: Any) -> tuple[SharedNode, list[Pod]]:
    node = SharedNode(root, rmids=8)
    if config:
        node.configure(**config)
    pods = [node.start() for _ in range(number)]
    node.kernel.now += 10
    node.reconcile()
    node.totals()
    return node, pods


@pytest.mark.parametrize("before, after", [("", "rh-"), ("rh-", ""), ("a-", "b-")])
def test_changed_prefix_renames_running_groups_with_rmid_and_counts(tmp_path: Path, before: str, after: str) -> None:
    node, pods = started(tmp_path, groupPrefix=before)
    held, totals = rmids(node), node.totals()
    node.configure(groupPrefix=after)
    report = node.reconcile()
    assert report.ok
    assert not report.number("freed")
    assert names(node) == sorted(after + pod.key for pod in pods)
    assert (rmids(node), node.totals()) == (held, totals)
    second = node.start(beside=pods[0])
    assert node.groups_of(second.pid) == {("", after + pods[0].key)}
    assert not node.reconcile().changed
    node.end(second, pod_lives=True)
    for pod in pods:
        node.end(pod)
    node.reconcile()
    assert (names(node), node.context().ledger.keys()) == ([], [])


def test_group_keeps_its_name_if_the_kernel_cannot_rename(tmp_path: Path) -> None:
    node, pods = started(tmp_path)
    node.configure(groupPrefix="rh-")
    node.kernel.refuse_rename = errno.EPERM
    for _ in range(2):
        assert node.reconcile().ok
    assert names(node) == sorted(pod.key for pod in pods)
    assert not node.context().ledger.read_pod(pods[0].key).keys() & {"renaming"}  # type: ignore[union-attr]
    for pod in pods:
        node.end(pod)
    assert names(node) == []


def test_group_keeps_its_name_if_the_new_one_is_taken(tmp_path: Path) -> None:
    node, pods = started(tmp_path, 1)
    node.kernel.mkdir(f"{node.host.resctrl}/mon_groups/rh-{pods[0].key}")
    node.configure(groupPrefix="rh-")
    assert node.reconcile().ok
    assert node.groups_of(pods[0].pid) == {("", pods[0].key)}
    node.end(pods[0])
    assert names(node) == [f"rh-{pods[0].key}"]


def lose_ledger(node: SharedNode, known: str) -> None:
    """Lose the records, or with the whole state directory also the marks of prefixes."""
    if known == "config":
        shutil.rmtree(node.host.state)
        return
    ledger = node.context().ledger
    for key in ledger.keys():  # noqa: SIM118  # it is no dictionary
        ledger.remove_pod(key)


@pytest.mark.parametrize("known", ["records", "config"])
def test_claim_finds_groups_of_a_former_prefix_after_a_loss_of_the_ledger(tmp_path: Path, known: str) -> None:
    node, (pod, dead) = started(tmp_path, groupPrefix="a-")
    held = rmids(node)
    lose_ledger(node, known)
    node.kernel.end(dead.pid)
    shutil.rmtree(node.root / "crun" / dead.id)
    node.end_pod(dead.key)
    node.configure(groupPrefix="b-", **({"formerPrefixes": ["a-"]} if known == "config" else {}))
    node.reconcile()
    assert names(node) == sorted([f"a-{pod.key}", f"a-{dead.key}"])
    dry = node.reconcile(Options(claim=True, dry_run=True))
    assert sorted(dry.events["claimed"]) == sorted([pod.key, dead.key])
    report = node.reconcile(Options(claim=True, wait=False))
    assert sorted(report.events["claimed"]) == sorted([pod.key, dead.key])
    node.reconcile()
    assert names(node) == [f"b-{pod.key}"]
    assert rmids(node) == {pod.key: held[pod.key]}
    node.end(pod)
    assert names(node) == []


def test_claim_empties_a_left_group_into_the_recorded_one(tmp_path: Path) -> None:
    node, (pod,) = started(tmp_path, 1, groupPrefix="a-")
    lose_ledger(node, "records")
    node.configure(groupPrefix="b-")
    second = node.start(beside=pod)
    assert node.groups_of(second.pid) == {("", f"b-{pod.key}")}
    node.reconcile(Options(claim=True, wait=False))
    assert names(node) == [f"b-{pod.key}"]
    assert node.groups_of(pod.pid) == {("", f"b-{pod.key}")}
