"""Groups and classes that other programs made, changed or removed, and foreign tasks in a pod's group."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, always, stat_line
from hosts.cluster import NOW, POD, Cluster, pod_number
from hosts.faults import Fail
from hosts.shared_node import RULES, SharedNode
from hosts.simulated_kernel import ROOT_CALLER

from resctrl_hooks.core.node.errors import ClassMismatchError, LedgerError
from resctrl_hooks.core.node.host import procfs
from resctrl_hooks.core.node.host.files import read_kernel_file
from resctrl_hooks.core.node.reconcile import tasks, turns
from resctrl_hooks.core.node.reconcile.discovery import observe
from resctrl_hooks.core.node.reconcile.forks import may_fork
from resctrl_hooks.core.node.reconcile.report import Options, Report
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


@pytest.mark.parametrize(
    "places, groups, refused, moved, left",
    [
        # Each thread joins the group of its class; 3 was in an unrecorded group.
        ({1: ("", ""), 2: ("gold", ""), 3: ("gold", "k")}, (), (), [1, 2, 3], 0),
        # A thread of an unknown class is tried in the other groups of its key.
        ({1: None}, ("", "bronze", "gold"), ("", "bronze"), [1], 0),
        # One that changes its class meanwhile is not moved, and a class that refuses stops no other.
        ({1: ("", "")}, ("",), ("",), [], 1),
        ({1: ("", ""), 2: ("gold", "")}, (), ("",), [2], 1),
    ],
)
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


@pytest.mark.parametrize("member, seconds, freed", [
    ("", -1, 1), ("", 0, 0), ("", 59, 0), ("", 60, 1),  # a group is reserved for a further container for a minute
    ("f" * 64, {"steps": [JOINS_SILVER]}, 0),  # which is about to start
    ("step-1", {}, 0), ("step-1", {"steps": []}, 1),  # a program's own member
])  # fmt: skip
def test_group_that_a_further_container_or_a_programs_member_needs_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, member: str, seconds: Any, freed: int
) -> None:
    """No RMID is free: the root, gold and silver have one each, as have the pod's two groups."""
    node = SharedNode(tmp_path, rmids=5)
    node.add_class("gold", "silver")
    pod = node.start(rdt_class="gold")
    init = node.start(rdt_class="silver", beside=pod)
    node.end(init, pod_lives=True)
    node.start(rdt_class="gold")
    with node.context().monitor.hold(pod.key) as locked:
        if member:
            locked.add_member(member, seconds)
        else:
            locked.record["reserved"] = {"silver": 1000.0}
            locked.save()
            now = "resctrl_hooks.core.node.reconcile.unneeded.time.clock_gettime"
            monkeypatch.setattr(now, lambda _clock: 1000.0 + seconds)
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
def test_giver_of_a_failed_handover_waits_if_its_rmid_was_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, given_back: bool
) -> None:
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
