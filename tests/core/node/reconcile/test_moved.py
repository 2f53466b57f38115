"""Groups of this project that another program renames or removes: they stay the pod's, and end with it."""

import errno
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import always
from hosts.cluster import POD, Cluster, pod_number
from hosts.shared_node import Pod, SharedNode

from resctrl_hooks.core.node.reconcile import bring_in, vanished
from resctrl_hooks.core.node.reconcile.report import Options, Report
from resctrl_hooks.core.node.reconcile.vanished import read_vanished
from resctrl_hooks.core.node.resctrl import mounts

HOUSES = ("lab",)


class Node(Cluster):
    """A node with a container in the class gold, whose group a pass of reconcile has seen."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, rmids=8)
        (self.host.resctrl / "mon_data").mkdir()  # a mount is known by its time, too
        self.add_class("gold", "silver")
        self.container, self.pid = self.start(1, POD, "gold")
        self.quiet_pass()

    def quiet_pass(self) -> None:
        self.kernel.now += 60
        report = self.reconcile()
        assert report.ok, report.as_text()

    def path(self, rdt_class: str, name: str = POD) -> str:
        return str(self.host.resctrl / rdt_class / "mon_groups" / name)

    def move(self, old: str, new: str, name: str = POD, new_name: str = POD) -> None:
        """Another program renames a group."""
        self.kernel.rename(self.path(old, name), self.path(new, new_name))

    def rmid(self) -> int:
        """Return the RMID of the group that has the container."""
        ((rdt_class, name),) = self.groups_of(self.pid)
        return self.kernel.model.classes.get(rdt_class, self.kernel.model.root).monitored[name].rmid

    def end_of_pod(self) -> set[tuple[str, str]]:
        """End the pod and return the groups that are left."""
        self.end(self.container, self.pid, POD)
        for _ in range(2):
            self.quiet_pass()
        return self.kernel.groups()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize("places, expected", [
    ([("silver", POD)], ("silver", POD)), ([("", POD)], ("", POD)), ([("gold", "batch")], ("gold", POD)),
    ([("silver", "batch")], ("silver", POD)), ([("silver", pod_number(7))], ("silver", POD)),
    ([("silver", POD), ("gold", POD)], ("gold", POD)),
])  # fmt: skip
def test_group_that_another_program_renames_stays_the_pods(
    node: Node, places: list[tuple[str, str]], expected: tuple[str, str]
) -> None:
    before, place = node.rmid(), ("gold", POD)
    for new in places:
        node.move(place[0], new[0], place[1], new[1])
        place = new
    node.quiet_pass()
    assert node.kernel.groups() == node.groups_of(node.pid) == {expected}
    assert node.rmid() == before
    assert node.pod_record()["groups"] == {expected[0]: "created"}
    assert not node.host.log.exists() or "vanished" not in node.host.log.read_text()
    assert node.end_of_pod() == set()


def test_group_is_known_to_the_next_container_in_its_new_class_but_not_after_a_remount(node: Node) -> None:
    node.move("gold", "silver")
    node.start(2, POD, "silver")
    assert node.pod_record()["groups"] == {"silver": "created"}
    node.move("silver", "gold")  # it has the identity of the pod's former group
    for folder in ("", "mon_data"):  # the times of a new mount
        (node.host.resctrl / folder).chmod(0o755)
    node.quiet_pass()
    assert node.pod_record()["groups"]["gold"] == "shared"


def test_identities_stay_while_the_mount_cannot_be_read(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.move("gold", "silver", POD, "batch")
    with monkeypatch.context() as patch:
        patch.setattr(mounts, "_time_of", always(""))
        node.reconcile()
    node.quiet_pass()
    assert ("silver", "batch") not in node.kernel.groups()
    node.move("silver", "silver", POD, "batch")
    node.kernel.mkdir(node.path("silver"))  # of another program, which uses the name now
    assert node.end_of_pod() == {("silver", POD)}


def removed_once_more(cluster: Cluster) -> Report:
    """Remove all groups with a UUID as their name, as resctrl-mon does; return the next report."""
    for path in cluster.host.resctrl.glob("mon_groups/*-*-*-*-*"):
        cluster.kernel.rmdir(str(path))
    return cluster.reconcile()


class Clocks:
    """The wall clock and the time since the boot of reconcile's counts."""

    CLOCK_BOOTTIME = time.CLOCK_BOOTTIME

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jump = self.uptime = 0.0
        for module in (vanished, bring_in):
            monkeypatch.setattr(module, "time", self)

    def time(self) -> float:
        return time.time() + self.uptime + self.jump

    def clock_gettime(self, clock: int) -> float:
        return time.clock_gettime(clock) + self.uptime


@pytest.mark.parametrize("days", [0, 31, -31, None], ids=["same clock", "a month later", "a month earlier", "0.2"])
def test_repeatedly_vanishing_group_is_paused_whatever_the_clock_says(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, days: int | None
) -> None:
    clocks = Clocks(monkeypatch)
    _, pid = cluster.start(1)
    assert removed_once_more(cluster).ok
    report = removed_once_more(cluster)
    assert not report.ok
    assert "its group vanished 2 times; created again in" in report.events["failed"][POD]
    assert report.reasons == ["vanished"]
    assert cluster.groups_of(pid) == {("", "")}
    assert not cluster.reconcile().ok
    path = cluster.host.state / vanished.VANISHED
    record = json.loads(path.read_text())
    assert record["total"] == 2, "it is counted once"
    if days is None:  # version 0.2 writes no time since the boot
        del record["uptime"]
        path.write_text(json.dumps(record))
    clocks.jump = 86400.0 * (days or 0)
    assert not cluster.reconcile().ok, "the pause lasts"
    clocks.uptime = 61.0
    assert cluster.reconcile().ok
    assert cluster.groups_of(pid) == {("", POD)}
    assert "its group vanished 3 times; created again in 120 s" in removed_once_more(cluster).events["failed"][POD]
    assert read_vanished(str(cluster.host.state))["total"] == 3


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


@pytest.mark.parametrize("taken", [False, True])
def test_group_keeps_its_name_if_it_cannot_be_renamed_or_the_new_one_is_taken(tmp_path: Path, taken: bool) -> None:
    node, pods = started(tmp_path)
    node.configure(groupPrefix="rh-")
    node.kernel.refuse_rename = 0 if taken else errno.EPERM
    for pod in pods if taken else ():
        node.kernel.mkdir(f"{node.host.resctrl}/mon_groups/rh-{pod.key}")
    for _ in range(2):
        assert node.reconcile().ok
    for pod in pods:
        assert node.groups_of(pod.pid) == {("", pod.key)}
        assert "renaming" not in node.pod_record(pod.key)
        node.end(pod)
    assert names(node) == [f"rh-{pod.key}" for pod in pods if taken]


def lose_records(node: SharedNode) -> None:
    for key in node.context().ledger.keys():  # noqa: SIM118  # it is no dictionary
        node.context().ledger.remove_pod(key)


@pytest.mark.parametrize("known", ["records", "config"])
def test_claim_finds_groups_of_a_former_prefix_after_a_loss_of_the_ledger(tmp_path: Path, known: str) -> None:
    node, (pod, dead) = started(tmp_path, groupPrefix="a-")
    held = rmids(node)
    if known == "records":
        lose_records(node)
    else:  # the marks of prefixes, too
        shutil.rmtree(node.host.state)
    node.kernel.mkdir(f"{node.host.resctrl}/mon_groups/pqos")  # no pod's
    node.kernel.end(dead.pid)
    shutil.rmtree(node.root / "crun" / dead.id)
    node.end_pod(dead.key)
    node.configure(groupPrefix="b-", **({"formerPrefixes": ["a-"]} if known == "config" else {}))
    node.reconcile()
    for options in (Options(claim=True, dry_run=True), Options(claim=True, wait=False)):
        assert names(node) == sorted([f"a-{pod.key}", f"a-{dead.key}", "pqos"])
        assert sorted(node.reconcile(options).events["claimed"]) == sorted([pod.key, dead.key])
    node.reconcile()
    assert names(node) == [f"b-{pod.key}", "pqos"]
    assert rmids(node)[pod.key] == held[pod.key]
    node.end(pod)
    assert names(node) == ["pqos"]


def test_claim_empties_a_left_group_into_the_recorded_one(tmp_path: Path) -> None:
    node, (pod,) = started(tmp_path, 1, groupPrefix="a-")
    lose_records(node)
    node.configure(groupPrefix="b-")
    second = node.start(beside=pod)
    assert node.groups_of(second.pid) == {("", f"b-{pod.key}")}
    node.reconcile(Options(claim=True, wait=False))
    assert names(node) == [f"b-{pod.key}"]
    assert node.groups_of(pod.pid) == {("", f"b-{pod.key}")}
