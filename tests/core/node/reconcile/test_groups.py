"""Groups and classes that other programs made, changed, renamed or removed, and foreign tasks in a pod's group."""

import errno
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, always, stat_line
from hosts.cluster import NOW, POD, Cluster, pod_number
from hosts.faults import Fail
from hosts.shared_node import RULES, Pod, SharedNode
from hosts.simulated_kernel import ROOT_CALLER

from resctrl_hooks.core.node.errors import ClassMismatchError, LedgerError
from resctrl_hooks.core.node.host import procfs
from resctrl_hooks.core.node.host.files import read_kernel_file
from resctrl_hooks.core.node.reconcile import bring_in, tasks, turns, vanished
from resctrl_hooks.core.node.reconcile.discovery import observe
from resctrl_hooks.core.node.reconcile.forks import may_fork
from resctrl_hooks.core.node.reconcile.report import Options, Report
from resctrl_hooks.core.node.reconcile.vanished import read_vanished
from resctrl_hooks.core.node.resctrl import mounts
from resctrl_hooks.core.node.sharing.claims import holders

HOUSES = ("lab",)


def test_removed_class_moves_pods_to_root_class_and_keeps_counting(cluster: Cluster) -> None:
    cluster.add_class("gold")
    id_, pid = cluster.start(1, rdt_class="gold")
    assert cluster.groups_of(pid) == {("gold", POD)}
    cluster.kernel.rmdir(f"{cluster.host.resctrl}/gold")
    assert cluster.groups_of(pid) == {("", "")}
    said = f"RDT class gold of running container {id_[:12]} was removed; it is now in the root class"
    for _ in range(2):
        assert cluster.reconcile().ok
        assert cluster.groups_of(pid) == {("", POD)}
        assert cluster.pod_record()["groups"] == {"": "created"}, "the record of a group ends with its class"
        assert cluster.host.log.read_text().count(said) == 1, "it is said once"


def test_claim_leaves_group_made_by_runtime(cluster: Cluster) -> None:
    id_ = f"{7:064x}"
    pid = cluster.kernel.spawn(f"/libpod-{id_}", 1, "")
    cluster.kernel.mkdir(f"{cluster.host.resctrl}/mon_groups/{id_}")
    cluster.kernel.model.write_tasks(cluster.kernel.model.root.monitored[id_], f"{pid}\n", ROOT_CALLER)
    cluster.kernel.show_tasks()
    cluster.appear(id_, pid)
    config = {"linux": {"intelRdt": {"enableMonitoring": True}}}  # of Podman
    (cluster.root / f"bundle-{id_[-8:]}" / "config.json").write_text(json.dumps(config))
    for options in (Options(claim=True, dry_run=True), Options(claim=True, wait=False)):
        report = cluster.reconcile(options)
        assert (report.ok, [*report.events["claimed"]]) == (True, [])
    assert report.number("moved") == 0
    assert cluster.groups_of(pid) == {("", id_)}
    assert cluster.pod_record(id_)["groups"].get("") in (None, "shared")
    cluster.end(id_, pid)
    assert ("", id_) in cluster.kernel.groups()


def plant(cluster: Cluster, pid: int) -> int:
    model = cluster.kernel.model
    model.write_tasks(model.root.monitored[POD], f"{pid}\n", ROOT_CALLER)
    cluster.kernel.show_tasks()
    return pid


def test_planted_process_is_moved_out_of_a_group_of_ours(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    id_, container = cluster.start(1)
    (cluster.host.cgroup / f"kubepods/pod{POD}/crio-{id_}/cgroup.threads").write_text(f"{container}\n")
    stranger = plant(cluster, cluster.kernel.spawn("/system.slice/cron.service"))
    sandbox = plant(cluster, cluster.kernel.spawn(f"/kubepods/pod{POD}/crio-{9:064x}"))
    for origin, dry_run, left in (("shared", False, True), ("created", True, True), ("created", False, False)):
        with cluster.context().monitor.hold(POD) as locked:
            locked.origins[""] = origin
            locked.save()
        report = cluster.reconcile(Options(wait=False, dry_run=dry_run))
        assert (report.ok, report.number("repaired")) == (True, int(origin == "created"))
        assert cluster.groups_of(stranger) == {("", POD if left else "")}
        assert cluster.groups_of(sandbox) == cluster.groups_of(container) == {("", POD)}
    assert f"moved 1 tasks of other cgroups out of the group of {POD}: {stranger}" in cluster.host.log.read_text()
    assert cluster.reconcile().number("repaired") == 0
    deep = plant(cluster, cluster.kernel.spawn("/kubepods/deep"))

    def read(path: str) -> bytes:
        if path.endswith((f"/{deep}/cgroup", f"/{container}/cgroup")):
            raise OSError(errno.ENAMETOOLONG, "File name too long", path)  # deeper than the kernel can tell
        return read_kernel_file(path)

    monkeypatch.setattr(procfs, "read_kernel_file", read)
    report = cluster.reconcile()
    assert (report.ok, report.number("repaired"), report.events["failed"]) == (True, 0, {})
    assert cluster.groups_of(deep) == {("", POD)}


Where = dict[int, "tuple[str, str] | None"]


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Where:
    """Return a container's threads, by id: class and group, or None where /proc doesn't say. 0 has just ended."""
    found: Where = {}

    def groups_of(_proc: str, tid: int) -> tuple[str, str] | None:
        if not tid:
            raise ProcessLookupError
        return found[tid]

    monkeypatch.setattr(tasks, "threads_of_container", lambda *_given: list(found))
    monkeypatch.setattr(tasks, "resctrl_groups_of", groups_of)
    return found


def test_outside_threads_are_found_in_proc_or_without_it_in_group_lists(host: Host, threads: Where) -> None:
    threads.update({1: ("gold", "k"), 0: None, 2: ("gold", ""), 3: ("gold", "pqos"), 4: ("silver", "k"), 5: ("", "k")})
    found = tasks.outside(host.context(), {"gold": "k", "": "k"}, "/c", 1)
    assert found == [(2, "gold", ""), (3, "gold", "pqos"), (4, "silver", "k")]
    host.add_class("gold")
    for folder, listed in (("mon_groups/k", "1\n"), ("gold/mon_groups/k", "3\n"), ("gold/mon_groups/other", "2\n")):
        (host.resctrl / folder).mkdir()
        (host.resctrl / folder / "tasks").write_text(listed)
    threads.clear()
    threads.update({1: None, 2: None, 3: None})
    for groups, tids in (({"": "k", "gold": "k"}, [2]), ({"gold": "k"}, [1, 2]), ({}, [1, 2, 3])):
        assert tasks.outside(host.context(), groups, "/c", 1) == [(tid, "?", "") for tid in tids]


@pytest.mark.parametrize("state, possible", [("R", True), ("D", True), ("S", False), ("T", False), ("Z", False)])
def test_thread_that_runs_or_waits_for_a_lock_can_be_in_a_fork(host: Host, state: str, possible: bool) -> None:
    assert not may_fork(str(host.proc), 7)
    host.process(7)
    (host.proc / "7/stat").write_text(stat_line(7, 1, state))
    assert may_fork(str(host.proc), 7) is possible


@pytest.mark.parametrize("places, groups, refused, moved, left", [
    # Each thread joins the group of its class; 3 was in an unrecorded group.
    ({1: ("", ""), 2: ("gold", ""), 3: ("gold", "k")}, (), (), [1, 2, 3], 0),
    # A thread of an unknown class is tried in the other groups of its key.
    ({1: None}, ("", "bronze", "gold"), ("", "bronze"), [1], 0),
    # One that changes its class meanwhile is not moved, and a class that refuses stops no other.
    ({1: ("", "")}, ("",), ("",), [], 1),
    ({1: ("", ""), 2: ("gold", "")}, (), ("",), [2], 1),
])  # fmt: skip
def test_threads_join_a_group_that_accepts_them(
    host: Host, threads: Where, places: Where, groups: Any, refused: Any, moved: list[int], left: int
) -> None:
    """The classes ``refused`` refuse all threads, and each class those of another, as the kernel does."""
    host.add_class("bronze", "gold")
    threads.update(places)
    context = host.context()
    done: list[int] = []

    def add_tasks(rdt_class: str, name: str, tids: list[int]) -> None:
        if rdt_class in refused or any((threads.get(tid) or [rdt_class])[0] != rdt_class for tid in tids):
            raise ClassMismatchError("Can't move task to different control group")
        done.extend(tids)
        threads.update(dict.fromkeys(tids, (rdt_class, name)))

    with context.monitor.hold("k") as locked:
        for name in groups:
            locked.ensure_group(name)
        context.monitor.resctrl.add_tasks = add_tasks  # type: ignore[assignment, method-assign]
        found = tasks.gather(locked, context, "/c", 1, "")
    assert (sorted(done), found.moved, found.left) == (moved, len(moved), left)
    expected = {tid: ((places[tid] or ["gold"])[0], "k") for tid in moved}
    assert {tid: threads[tid] for tid in moved} == expected
    assert {place[0] for place in expected.values()} <= set((context.ledger.read_pod("k") or {})["groups"])


@pytest.mark.parametrize(
    "options, ahead, joins",
    [(Options(), 0, True), (NOW, 0, False), (Options(), 1000, False)],
    ids=["waits", "does not wait", "waits too long"],
)
def test_rmid_in_limbo_is_waited_for_if_requested_but_not_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Options, ahead: float, joins: bool
) -> None:
    full = Cluster(tmp_path, rmids=2)
    first, second = pod_number(1), pod_number(2)
    holds, (_, waits) = full.start(1, first), full.start(2, second)
    clock = "resctrl_hooks.core.node.reconcile.reconcile.time"
    monkeypatch.setattr(f"{clock}.sleep", pytest.fail)
    assert list(full.reconcile(options).events["waiting"]) == [second], "the only RMID is in use"
    full.end(*holds, first)
    now = [0.0]

    def nap(_seconds: float) -> None:
        now[0] += ahead or 1
        full.kernel.now += 0 if ahead else 1

    monkeypatch.setattr(f"{clock}.sleep", nap)
    monkeypatch.setattr(f"{clock}.monotonic", lambda: now[0])
    report = full.reconcile(options)
    assert (report.ok, now[0] > 0) == (joins, options.wait)
    assert full.groups_of(waits) == {("", second if joins else "")}


JOINS_SILVER = {"feature": "monitoring", "action": "join", "needs": {"class": "silver"}}


@pytest.mark.parametrize("name, value, freed", [
    ("", -1, 1), ("", 0, 0), ("", 59, 0), ("", 60, 1),  # a group is reserved for a further container for a minute
    ("f" * 64, {"steps": [JOINS_SILVER]}, 0),  # which is about to start
    ("step-1", {}, 0), ("step-1", {"steps": []}, 1),  # a program's own member
])  # fmt: skip
def test_needed_group_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: Any, freed: int) -> None:
    """No RMID is free: the root, gold and silver have one each, as have the pod's two groups."""
    node = SharedNode(tmp_path, rmids=5)
    node.add_class("gold", "silver")
    pod = node.start(rdt_class="gold")
    init = node.start(rdt_class="silver", beside=pod)
    node.end(init, pod_lives=True)
    node.start(rdt_class="gold")
    with node.context().monitor.hold(pod.key) as locked:
        if name:
            locked.add_member(name, value)
        else:
            locked.record["reserved"] = {"silver": 1000.0}
            locked.save()
            now = "resctrl_hooks.core.node.reconcile.unneeded.time.clock_gettime"
            monkeypatch.setattr(now, lambda _clock: 1000.0 + value)
    assert node.reconcile().number("freed") == freed


EVERY_PASS: dict[str, Any] = {"share": {"interval": 0.0001, "atLeast": 0.0}}


def test_pod_with_ended_containers_releases_turn_and_is_not_waiting(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, **EVERY_PASS)
    first, second = node.start(), node.start()
    node.kernel.end(first.pid)  # its pod is still there, and may start another
    first.pid = 0
    report = node.reconcile()
    assert [*report.events["handover"]] == [second.key]
    assert list(report.events["queued"]) == node.waiting() == []
    assert node.counted() == [second]
    again = node.start(beside=first)
    assert node.waiting() == [first.key]
    node.reconcile()
    assert node.counted() == [again]
    node.check()


def test_namespace_limit_holds_in_every_turn_and_each_pod_gets_some(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=4, limits={"batch": 1}, **EVERY_PASS)
    batch = [node.start("batch") for _ in range(3)]
    shop = [node.start("shop") for _ in range(4)]
    assert node.counted() == [batch[0], *shop[:2]]
    served: set[str] = set()
    for _ in range(40):
        node.reconcile()
        counted = node.counted()
        assert [pod.namespace for pod in counted].count("batch") <= 1
        served |= {pod.key for pod in counted}
        if len(served) == len(batch + shop):
            return
    pytest.fail(f"counted were {served}")


@pytest.mark.parametrize("given_back", [False, True])
def test_giver_waits_if_its_rmid_was_given_back(tmp_path: Path, monkeypatch: Any, given_back: bool) -> None:
    monkeypatch.setattr(turns, "hand_on", always(value=False))
    monkeypatch.setattr(turns, "give_back", always(given_back))
    node = SharedNode(tmp_path, rmids=2, **EVERY_PASS)
    first, second = node.start(), node.start()
    report = node.reconcile()
    assert [*report.events["handover"]] == ([second.key] if given_back else [])
    assert (first.key in report.events["queued"]) is given_back
    assert second.key in report.events["queued"]


@pytest.mark.parametrize("unread", [False, True])
def test_pod_that_cannot_be_ranked_is_reported(tmp_path: Path, fail: Fail, *, unread: bool) -> None:
    node = SharedNode(tmp_path, rmids=4, priority=RULES)
    first, second = node.start("gold"), node.start("silver")
    context, report = node.context(), Report()
    containers = observe(context).containers
    for pod in (first, second):
        record = context.ledger.read_pod(pod.key) or {}
        del record["claim"]
        context.ledger.write_pod(pod.key, record)
    fail(context.monitor, "hold", LedgerError("the disk is gone"), when=lambda key, *_: key == first.key)
    turns.refresh(context, [] if unread else containers, report)
    assert list(report.events["failed"]) == [first.key]
    index = [claim.key for claim in holders(context.ledger)]
    assert index == [first.key] if unread else sorted(index) == sorted([first.key, second.key])


# Groups of this project that another program renames or removes: they stay the pod's, and end with it


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
def test_renamed_group_stays_the_pods(node: Node, places: list[tuple[str, str]], expected: tuple[str, str]) -> None:
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
def test_often_vanishing_group_is_paused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, days: int | None) -> None:
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
