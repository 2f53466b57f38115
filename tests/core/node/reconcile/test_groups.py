"""Groups and classes that other programs made, changed or removed, and foreign tasks in a pod's group."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, always
from hosts.cluster import NOW, POD, Cluster, pod_number
from hosts.shared_node import RULES, Pod, SharedNode
from hosts.simulated_kernel import ROOT_CALLER

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import ClassMismatchError, LedgerError
from resctrl_hooks.core.node.host import procfs
from resctrl_hooks.core.node.host.files import read_kernel_file
from resctrl_hooks.core.node.reconcile import tasks, turns
from resctrl_hooks.core.node.reconcile.discovery import observe
from resctrl_hooks.core.node.reconcile.report import Options, Report
from resctrl_hooks.core.node.reconcile.tasks import Gathering
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey
from resctrl_hooks.core.node.sharing.claims import holders

HOUSES = ("lab",)


def test_removed_class_moves_pods_to_root_class_and_keeps_counting(cluster: Cluster) -> None:
    cluster.add_class("gold")
    id_, pid = cluster.start(1, rdt_class="gold")
    assert cluster.groups_of(pid) == {("gold", POD)}
    cluster.kernel.rmdir(f"{cluster.host.resctrl}/gold")
    assert cluster.groups_of(pid) == {("", "")}
    assert cluster.reconcile().ok
    assert cluster.groups_of(pid) == {("", POD)}
    assert cluster.pod_record()["groups"] == {"": "created"}, (
        "a group that is gone with its class is no longer said to be there"
    )
    said = f"RDT class gold of running container {id_[:12]} was removed; it is now in the root class"
    assert cluster.host.log.read_text().count(said) == 1
    assert cluster.reconcile().ok
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


@pytest.fixture
def container(cluster: Cluster) -> int:
    """Return the process of a container whose cgroup lists its threads, as the kernel does."""
    id_, pid = cluster.start(1)
    (cluster.host.cgroup / f"kubepods/pod{POD}/crio-{id_}/cgroup.threads").write_text(f"{pid}\n")
    return pid


def plant(cluster: Cluster, pid: int) -> int:
    model = cluster.kernel.model
    model.write_tasks(model.root.monitored[POD], f"{pid}\n", ROOT_CALLER)
    cluster.kernel.show_tasks()
    return pid


def test_planted_process_is_gone_after_one_pass(cluster: Cluster, container: int) -> None:
    stranger = plant(cluster, cluster.kernel.spawn("/system.slice/cron.service"))
    sandbox = plant(cluster, cluster.kernel.spawn(f"/kubepods/pod{POD}/crio-{9:064x}"))
    report = cluster.reconcile()
    assert (report.ok, report.number("repaired")) == (True, 1)
    assert cluster.groups_of(stranger) == {("", "")}
    assert cluster.groups_of(sandbox) == cluster.groups_of(container) == {("", POD)}
    assert f"moved 1 tasks of other cgroups out of the group of {POD}: {stranger}" in cluster.host.log.read_text()
    assert cluster.reconcile().number("repaired") == 0


@pytest.mark.usefixtures("container")
@pytest.mark.parametrize("origin, dry_run", [("shared", False), ("created", True)])
def test_foreign_group_and_dry_run_change_nothing(cluster: Cluster, origin: str, *, dry_run: bool) -> None:
    stranger = plant(cluster, cluster.kernel.spawn("/system.slice/cron.service"))
    with cluster.context().monitor.hold(POD) as locked:
        locked.origins[""] = origin
        locked.save()
    assert cluster.reconcile(Options(wait=False, dry_run=dry_run)).number("repaired") == int(dry_run)
    assert cluster.groups_of(stranger) == {("", POD)}


def test_process_in_a_cgroup_deeper_than_the_kernel_can_tell_is_no_problem(
    cluster: Cluster, container: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = plant(cluster, cluster.kernel.spawn("/kubepods/deep"))

    def read(path: str) -> bytes:
        if path.endswith((f"/{deep}/cgroup", f"/{container}/cgroup")):
            raise OSError(errno.ENAMETOOLONG, "File name too long", path)
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


def test_outside_threads_are_found_in_proc(host: Host, threads: Where) -> None:
    threads.update({1: ("gold", "k"), 0: None, 2: ("gold", ""), 3: ("gold", "pqos"), 4: ("silver", "k"), 5: ("", "k")})
    found = tasks.outside(host.context(), {"gold": "k", "": "k"}, "/c", 1)
    assert found == [(2, "gold", ""), (3, "gold", "pqos"), (4, "silver", "k")]


def test_outside_threads_are_found_in_group_lists_without_proc(host: Host, threads: Where) -> None:
    host.add_class("gold")
    for folder, listed in (("mon_groups/k", "1\n"), ("gold/mon_groups/k", "3\n"), ("gold/mon_groups/other", "2\n")):
        (host.resctrl / folder).mkdir()
        (host.resctrl / folder / "tasks").write_text(listed)
    threads.update({1: None, 2: None, 3: None})
    assert tasks.outside(host.context(), {"": "k", "gold": "k"}, "/c", 1) == [(2, "?", "")]
    assert tasks.outside(host.context(), {"gold": "k"}, "/c", 1) == [(1, "?", ""), (2, "?", "")]
    assert tasks.outside(host.context(), {}, "/c", 1) == [(1, "?", ""), (2, "?", ""), (3, "?", "")]


def gathered(
    context: Context, threads: Where, *classes: str, refused: tuple[str, ...] = ()
) -> tuple[list[int], Gathering]:
    """Gather the threads of key ``k``, which has groups in these classes; return the moved ones and the result.

    The classes ``refused`` refuse them all, and each class those of another, as the kernel does.
    """
    moved: list[int] = []

    def add_tasks(rdt_class: str, name: str, tids: list[int]) -> None:
        if rdt_class in refused or any((threads.get(tid) or [rdt_class])[0] != rdt_class for tid in tids):
            raise ClassMismatchError("Can't move task to different control group")
        moved.extend(tids)
        for tid in tids:
            threads[tid] = (rdt_class, name)

    with context.monitor.hold("k") as locked:
        for name in classes:
            locked.ensure_group(name)
        context.monitor.resctrl.add_tasks = add_tasks  # type: ignore[assignment, method-assign]
        return moved, tasks.gather(locked, context, "/c", 1, "")


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
    for name in ("bronze", "gold"):
        host.add_class(name)
    threads.update(places)
    context = host.context()
    done, found = gathered(context, threads, *groups, refused=refused)
    assert (sorted(done), found.moved, found.left) == (moved, len(moved), left)
    expected = {tid: ((places[tid] or ["gold"])[0], "k") for tid in moved}
    assert {tid: threads[tid] for tid in moved} == expected
    assert {place[0] for place in expected.values()} <= set((context.ledger.read_pod("k") or {})["groups"])


FIRST, SECOND = pod_number(1), pod_number(2)


class Full(Cluster):
    """A node with one RMID, which the first of two pods has."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, rmids=2)
        self.first = self.start(1, FIRST)
        _, self.waits = self.start(2, SECOND)

    def end_first(self) -> None:
        self.end(*self.first, FIRST)


@pytest.fixture
def full(tmp_path: Path) -> Full:
    return Full(tmp_path)


def ended_pods(cluster: Cluster) -> None:
    """Start three pods, which end without a poststop."""
    for number in range(3):
        _, pid = cluster.start(number, pod_number(number))
        cluster.kernel.end(pid)
        cluster.end_pod(pod_number(number))


@pytest.mark.parametrize(
    "options, ahead, joins",
    [(Options(), 0, True), (NOW, 0, False), (Options(), 1000, False)],
    ids=["waits", "does not wait", "waits too long"],
)
def test_rmid_in_limbo_is_waited_for_if_requested_but_not_for_long(
    full: Full, monkeypatch: pytest.MonkeyPatch, options: Options, ahead: float, joins: bool
) -> None:
    clock = "resctrl_hooks.core.node.reconcile.reconcile.time"
    monkeypatch.setattr(f"{clock}.sleep", pytest.fail)
    assert list(full.reconcile(options).events["waiting"]) == [SECOND], "the only RMID is in use"
    full.end_first()
    now = [0.0]

    def nap(_seconds: float) -> None:
        now[0] += ahead or 1
        full.kernel.now += 0 if ahead else 1

    monkeypatch.setattr(f"{clock}.sleep", nap)
    monkeypatch.setattr(f"{clock}.monotonic", lambda: now[0])
    report = full.reconcile(options)
    assert (report.ok, now[0] > 0) == (joins, options.wait)
    assert full.groups_of(full.waits) == {("", SECOND if joins else "")}


def test_dead_keys_beyond_time_limit_are_left_to_next_pass(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    ended_pods(cluster)
    monkeypatch.setattr("resctrl_hooks.core.node.reconcile.reconcile._MOST_SECONDS_FOR_THE_DEAD", -1)
    assert [*cluster.reconcile().events["released"]] == []
    monkeypatch.undo()
    assert len(cluster.reconcile().events["released"]) == 3


def full_node(root: Path) -> tuple[SharedNode, Pod, Pod]:
    """Return a node without a free RMID, with a pod whose init container in class silver has ended, and a waiting pod.

    The root, gold and silver have an RMID each, as have the pod's two groups.
    """
    node = SharedNode(root, rmids=5)
    node.add_class("gold", "silver")
    pod = node.start(rdt_class="gold")
    init = node.start(rdt_class="silver", beside=pod)
    node.kernel.now += 10
    node.totals()
    node.end(init, pod_lives=True)
    return node, pod, node.start(rdt_class="gold")


JOINS_SILVER = {"feature": "monitoring", "action": "join", "needs": {"class": "silver"}}


@pytest.mark.parametrize("member, seconds, freed", [
    ("", -1, 1), ("", 0, 0), ("", 59, 0), ("", 60, 1),  # a group is reserved for a further container for a minute
    ("f" * 64, {"steps": [JOINS_SILVER]}, 0),  # which is about to start
    ("step-1", {}, 0), ("step-1", {"steps": []}, 1),  # a program's own member
])  # fmt: skip
def test_group_that_a_further_container_or_a_programs_member_needs_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, member: str, seconds: Any, freed: int
) -> None:
    node, pod, _ = full_node(tmp_path)
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
def test_pod_that_cannot_be_ranked_is_reported(tmp_path: Path, *, unread: bool) -> None:
    node = SharedNode(tmp_path, rmids=4, priority=RULES)
    first, second = node.start("gold"), node.start("silver")
    context, report = node.context(), Report()
    containers = observe(context).containers
    for pod in (first, second):
        record = context.ledger.read_pod(pod.key) or {}
        del record["claim"]
        context.ledger.write_pod(pod.key, record)
    hold = context.monitor.hold

    def refuse(key: str, patience: float | None = None) -> LockedKey:
        if key == first.key:
            raise LedgerError("the disk is gone")
        return hold(key, patience)

    context.monitor.hold = refuse  # type: ignore[method-assign]
    turns.refresh(context, [] if unread else containers, report)
    assert list(report.events["failed"]) == [first.key]
    index = [claim.key for claim in holders(context.ledger)]
    assert index == [first.key] if unread else sorted(index) == sorted([first.key, second.key])
