"""Groups of this project that another program renames or removes: they stay the pod's, and end with it."""

import errno
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from hosts.cluster import POD, Cluster, SimulatedNode, pod_number
from hosts.shared_node import Pod, SharedNode

from resctrl_hooks.core.node.reconcile import bring_in, vanished
from resctrl_hooks.core.node.reconcile.report import Options, Report
from resctrl_hooks.core.node.reconcile.vanished import read_vanished
from resctrl_hooks.core.node.resctrl import mounts

HOUSES = ("lab",)


OTHER = pod_number(7)


class Node(Cluster):
    """A node with a container in the class gold, whose group a pass of reconcile has seen."""

    def __init__(self, root: Path, **config: str) -> None:
        super().__init__(root, rmids=8, **config)
        (self.host.resctrl / "mon_data").mkdir()  # a mount is known by its time, too
        self.add_class("gold", "silver")
        self.container, self.pid = self.start(1, POD, "gold")
        self.quiet_pass()

    def quiet_pass(self) -> None:
        self.kernel.now += 60
        report = self.reconcile()
        assert report.ok, report.as_text()

    def path(self, rdt_class: str, name: str = POD) -> str:
        return "/".join(part for part in (str(self.host.resctrl), rdt_class, "mon_groups", name) if part)

    def move(self, old: str, new: str, name: str = POD, new_name: str = POD) -> None:
        """Another program renames a group."""
        self.kernel.rename(self.path(old, name), self.path(new, new_name))

    def end_of_pod(self) -> set[tuple[str, str]]:
        """End the pod and return the groups that are left."""
        self.end(self.container, self.pid, POD)
        for _ in range(2):
            self.quiet_pass()
        return self.kernel.groups()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def rmid(node: Node) -> int:
    """Return the RMID of the group that has the container."""
    rdt_class, name = next(iter(node.groups_of(node.pid)))
    return node.kernel.model.classes.get(rdt_class, node.kernel.model.root).monitored[name].rmid


@pytest.mark.parametrize(
    "places, expected",
    [
        ([("silver", POD)], ("silver", POD)),
        ([("", POD)], ("", POD)),
        ([("gold", "batch")], ("gold", POD)),
        ([("silver", "batch")], ("silver", POD)),
        ([("silver", POD), ("gold", POD)], ("gold", POD)),
        ([("silver", OTHER)], ("silver", POD)),
    ],
)
def test_group_that_another_program_renames_stays_the_pods(
    node: Node, places: list[tuple[str, str]], expected: tuple[str, str]
) -> None:
    before, place = rmid(node), ("gold", POD)
    for new in places:
        node.move(place[0], new[0], place[1], new[1])
        place = new
    node.quiet_pass()
    assert node.kernel.groups() == {expected}
    assert node.groups_of(node.pid) == {expected}
    assert rmid(node) == before
    assert node.pod_record()["groups"] == {expected[0]: "created"}
    assert not node.host.log.exists() or "vanished" not in node.host.log.read_text()
    assert node.end_of_pod() == set()


def test_group_is_known_to_the_next_container_in_its_new_class(node: Node) -> None:
    node.move("gold", "silver")
    node.start(2, POD, "silver")
    assert node.pod_record()["groups"] == {"silver": "created"}


def test_group_with_the_same_identity_after_a_remount_is_shared(node: Node) -> None:
    node.move("gold", "silver")  # it has the identity of the pod's former group
    for folder in ("", "mon_data"):  # the times of a new mount
        (node.host.resctrl / folder).chmod(0o755)
    node.quiet_pass()
    assert node.pod_record()["groups"]["silver"] == "shared"


def test_identities_stay_while_the_mount_cannot_be_read(node: Node) -> None:
    node.move("gold", "silver", POD, "batch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mounts, "_time_of", lambda folder: "")
        node.reconcile()
    node.quiet_pass()
    assert ("silver", "batch") not in node.kernel.groups()
    assert node.end_of_pod() == set()


def test_renamed_group_whose_name_another_program_uses_is_removed(node: Node) -> None:
    node.move("gold", "gold", POD, "batch")
    node.kernel.mkdir(node.path("gold"))
    assert node.end_of_pod() == {("gold", POD)}


def removed_once_more(cluster: Cluster) -> Report:
    """Remove all groups with a UUID as their name, as resctrl-mon does; return the next report."""
    for path in cluster.host.resctrl.glob("mon_groups/*-*-*-*-*"):
        cluster.kernel.rmdir(str(path))
    return cluster.reconcile()


def total(cluster: SimulatedNode) -> int:
    return read_vanished(str(cluster.host.state))["total"]


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


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


MONTH = 31 * 86400.0


@pytest.mark.parametrize("jump", [0.0, MONTH, -MONTH], ids=["same clock", "a month later", "a month earlier"])
def test_repeatedly_vanishing_group_is_paused_whatever_the_clock_says(
    cluster: Cluster, clocks: Clocks, jump: float
) -> None:
    _, pid = cluster.start(1)
    assert removed_once_more(cluster).ok
    report = removed_once_more(cluster)
    assert not report.ok
    assert "its group vanished 2 times; created again in" in report.events["failed"][POD]
    assert report.reasons == ["vanished"]
    assert cluster.groups_of(pid) == {("", "")}
    assert not cluster.reconcile().ok
    assert total(cluster) == 2, "it is counted once"
    clocks.jump = jump
    assert not cluster.reconcile().ok, "the pause lasts"
    clocks.uptime = 61.0
    assert cluster.reconcile().ok
    assert cluster.groups_of(pid) == {("", POD)}
    assert "its group vanished 3 times; created again in 120 s" in removed_once_more(cluster).events["failed"][POD]
    assert total(cluster) == 3


def test_pause_of_version_0_2_lasts(cluster: Cluster, clocks: Clocks) -> None:
    cluster.start(1)
    removed_once_more(cluster)
    removed_once_more(cluster)
    path = cluster.host.state / vanished.VANISHED
    record = json.loads(path.read_text())
    del record["uptime"]
    path.write_text(json.dumps(record))
    assert not cluster.reconcile().ok
    clocks.uptime = 61.0
    assert cluster.reconcile().ok


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
    node.kernel.mkdir(f"{node.host.resctrl}/mon_groups/pqos")  # no pod's
    node.kernel.end(dead.pid)
    shutil.rmtree(node.root / "crun" / dead.id)
    node.end_pod(dead.key)
    node.configure(groupPrefix="b-", **({"formerPrefixes": ["a-"]} if known == "config" else {}))
    node.reconcile()
    assert names(node) == sorted([f"a-{pod.key}", f"a-{dead.key}", "pqos"])
    dry = node.reconcile(Options(claim=True, dry_run=True))
    assert sorted(dry.events["claimed"]) == sorted([pod.key, dead.key])
    report = node.reconcile(Options(claim=True, wait=False))
    assert sorted(report.events["claimed"]) == sorted([pod.key, dead.key])
    node.reconcile()
    assert names(node) == [f"b-{pod.key}", "pqos"]
    assert rmids(node)[pod.key] == held[pod.key]
    node.end(pod)
    assert names(node) == ["pqos"]


def test_claim_empties_a_left_group_into_the_recorded_one(tmp_path: Path) -> None:
    node, (pod,) = started(tmp_path, 1, groupPrefix="a-")
    lose_ledger(node, "records")
    node.configure(groupPrefix="b-")
    second = node.start(beside=pod)
    assert node.groups_of(second.pid) == {("", f"b-{pod.key}")}
    node.reconcile(Options(claim=True, wait=False))
    assert names(node) == [f"b-{pod.key}"]
    assert node.groups_of(pod.pid) == {("", f"b-{pod.key}")}
