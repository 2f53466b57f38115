"""The end-to-end behaviour of reconcile, counted in calls of functions too."""

import errno
import os
import shutil
import sys
import time
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from conftest import Host, always, raising
from hosts.cluster import NOW, POD, Cluster, pod_number
from hosts.faults import Fail
from hosts.simulated_kernel import Kernel

from core.node.reconcile.test_command import restored_by
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError, LedgerError
from resctrl_hooks.core.node.features import monitoring, rdt_class
from resctrl_hooks.core.node.reconcile import cleanup
from resctrl_hooks.core.node.reconcile import reconcile as module
from resctrl_hooks.core.node.reconcile.cleanup import tidy
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options, Report
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey
from resctrl_hooks.core.node.restored import Restored

HOUSES = ("lab",)


def test_dry_run_releases_only_dead_or_unwanted_pods(cluster: Cluster) -> None:
    cluster.start(1)
    dead, pid = cluster.start(2)
    cluster.kernel.end(pid)
    shutil.rmtree(cluster.root / "crun" / dead)
    for live, done in ((None, (1, [], 0)), (set[str](), (2, [POD], 1))):
        said = cluster.reconcile(Options(wait=False, dry_run=True, live=live))
        assert (said.number("cleaned"), [*said.events["released"]], said.number("freed")) == done
    assert cluster.kernel.groups() == {("", POD)}


def test_dry_run_reports_what_a_real_run_does(cluster: Cluster) -> None:
    cluster.unseen(1, threads=2)
    cluster.start(2, pod_number(2))
    cluster.kernel.end(cluster.kernel.spawn("/x"))
    dead, other = cluster.start(3, pod_number(3))
    cluster.kernel.end(other)
    cluster.end_pod(pod_number(3))
    before = (cluster.kernel.groups(), cluster.host.records())
    said = cluster.reconcile(Options(dry_run=True))
    assert (cluster.kernel.groups(), cluster.host.records()) == before
    done = cluster.reconcile()
    log = cluster.host.log.read_text()
    assert log.count(done.as_line()) == 1
    assert not cluster.reconcile().changed
    assert cluster.host.log.read_text() == log
    for name in ("adopted", "moved", "released", "freed", "cleaned"):
        assert (said.events[name], said.number(name)) == (done.events[name], done.number(name)), name
    assert (said.dry_run, dead in said.as_text()) == (True, False)


def test_unreadable_runtime_folder_is_reported(host: Host, fail: Fail) -> None:
    denied = PermissionError(errno.EACCES, "Permission denied", "/run/crun")
    fail("resctrl_hooks.core.node.container.runtimes", "list_folder", denied)
    with pytest.raises(HookError, match=r"cannot read .*/crun, the runtime's state directory: .*\(EACCES\)"):
        reconcile(host.context())


SIZES = (20, 40, 80)
SYSTEM_CALLS = 14
"""For each container, alone in its pod, with one thread."""
"""Tolerance of linearity: constant work counts more for few containers."""
SYSTEM_CALLS = 14
"""For each container, alone in its pod, with one thread."""


def steady(root: Path, containers: int, per_pod: int = 2) -> Context:
    """Return a node of plain files whose containers are in their groups, which is what nearly every reconcile finds."""
    cluster = Cluster(root, rmids=containers + 1, log={"target": "none"})
    pods: dict[str, list[int]] = {}
    for number in range(containers):
        key = pod_number(number // per_pod)
        pods.setdefault(key, []).append(cluster.start(number, key)[1])
    for key, pids in pods.items():
        (cluster.resctrl / "mon_groups" / key / "tasks").write_text("".join(f"{pid}\n" for pid in pids))
    context = cluster.host.context()
    assert reconcile(context, NOW).ok
    return context


def calls_of(context: Context, module: str = "") -> int:
    """Return how many functions one reconcile calls, those in C included; only those of a C module, if one is named."""
    count = 0

    def see(_frame: FrameType, event: str, called: object) -> None:
        nonlocal count
        count += event in ("call", "c_call") and (not module or getattr(called, "__module__", "") == module)

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        report = reconcile(context, NOW)
    finally:
        sys.setprofile(before)
    assert (report.ok, report.changed) == (True, False)
    return count


@pytest.mark.ci
def test_doubled_containers_double_system_calls(tmp_path: Path) -> None:
    few, some, many = (calls_of(steady(tmp_path / str(size), size)) for size in SIZES)
    assert few > 0
    assert abs((many - some) / (some - few) - 2) < 0.04, (few, some, many)  # constant work counts more for few


def test_reconcile_that_changes_nothing_makes_few_system_calls(tmp_path: Path) -> None:
    few, many = (calls_of(steady(tmp_path / str(size), size, per_pod=1), "posix") for size in SIZES[:2])
    assert many - few <= SYSTEM_CALLS * (SIZES[1] - SIZES[0])


@pytest.mark.parametrize("dry_run", [False, True])
def test_dead_keys_are_released_within_the_time_limit_and_beside_an_unreadable_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, dry_run: bool
) -> None:
    keys = [pod_number(number) for number in range(3)]
    for number, key in enumerate(keys):
        _, pid = cluster.start(number, key)
        cluster.kernel.end(pid)
        cluster.end_pod(key)
    options = Options(wait=False, dry_run=dry_run)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_MOST_SECONDS_FOR_THE_DEAD", -1)
        assert [*cluster.reconcile(options).events["released"]] == []
    path = cluster.host.state / "pods" / keys[0] / "pod"
    path.unlink()
    path.mkdir()  # it cannot be read
    report = cluster.reconcile(options)
    assert "Is a directory" in report.events["failed"][keys[0]]
    assert [*report.events["released"]] == keys[1:]


def test_changes_of_counters_are_counted(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [SimpleNamespace(give=give) for give in (True, False, False, True, False)]
    uncounted = {"x": [0, 2]}
    found = SimpleNamespace(changes=changes, uncounted=uncounted, resource="L3")
    monkeypatch.setattr("resctrl_hooks.core.node.sharing.bandwidth_counters.balance", always(found))
    report = reconcile(host.context(), NOW)
    assert (report.number("assigned"), report.number("unassigned")) == (2, 3)
    assert report.events["uncounted"] == {"x": "in L3 domain 0, 2"}


@pytest.mark.parametrize("dry_run", [False, True])
def test_failing_feature_does_not_stop_others(host: Host, monkeypatch: pytest.MonkeyPatch, *, dry_run: bool) -> None:
    refuses, leaves = raising(HookError("no")), always(["left"] if dry_run else 3)
    kinds = {
        "first": (refuses, leaves),
        "second": (always((["a"], {"c": HookError("cannot")})), refuses),
        "third": (always((["b"], {})), leaves),
    }
    features = [SimpleNamespace(name=name, adopt=of[0], repair=of[1], orphans=of[1]) for name, of in kinds.items()]
    for name in ("features_in_use", "features_to_repair"):
        monkeypatch.setattr(module, name, always(features))
    report = reconcile(host.context(), Options(wait=False, dry_run=dry_run))
    assert ([*report.events["placed"]], report.number("repaired")) == (["a", "b"], 0 if dry_run else 6)
    assert [*report.events["orphan"]] == (["first left", "third left"] if dry_run else [])
    assert report.events["failed"] == {"first": "no", "second": "no", "c": "cannot"}


def test_failure_to_join_is_reported(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.unseen(1)
    monkeypatch.setattr("resctrl_hooks.core.node.reconcile.bring_in.join", raising(RuntimeError("a bug")))
    report = cluster.reconcile()
    assert "a bug" in report.events["failed"][POD]
    assert report.events["waiting"] == {}


def test_values_that_an_ended_program_left_are_reported(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Restored("the guard")
    found.done, found.foreign, found.failed = ["class a"], ["class b: left"], ["class c: EINVAL"]
    restored_by(monkeypatch, cleanup, always(found))
    report = cluster.reconcile()
    assert (report.number("repaired"), [*report.events["problem"]]) == (1, ["cannot restore class c: EINVAL"])
    log = cluster.host.log.read_text()
    assert "restored after the guard ended: class a" in log
    assert "left after the guard ended: class b: left" in log
    restored_by(monkeypatch, cleanup, raising(RuntimeError("a bug")))
    assert list(cluster.reconcile().events["failed"]) == ["guard"]


PARTS = {"rdt": [(rdt_class, "choose")], "monitoring": [(monitoring, "class_of"), (monitoring, "why_not")]}
"""The functions that plan each feature."""
RDT = {"enabled": True, "allow": {"*": ["gold"]}, "defaults": {"namespaces": {"*": "gold"}}}
SCHEDULING = {"enabled": True, "defaults": {"namespaces": {"*": "calm"}}, "classes": {"calm": {}}}


@pytest.mark.parametrize("told", [True, False], ids=["class in /proc", "class not in /proc"])
@pytest.mark.parametrize("failed", [["rdt"], ["monitoring"], ["rdt", "monitoring"]], ids="-".join)
def test_failed_plan_of_a_class_or_a_group_is_planned_again_and_the_group_is_in_the_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: Fail, failed: list[str], *, told: bool
) -> None:
    if not told:
        monkeypatch.setattr(Kernel, "show_tasks", always(None))
    cluster = Cluster(tmp_path, rdt=RDT, scheduling=SCHEDULING)
    cluster.add_class("gold")
    full = OSError(errno.ENFILE, "Too many open files in system", "/proc/100/cpu_resctrl_groups")
    broken = list(failed)
    for owner, name in (part for feature in failed for part in PARTS[feature]):
        fail(owner, name, full, when=lambda *_, **__: bool(broken))
    id_, pid = cluster.start(1)
    assert cluster.groups_of(pid) != {("gold", POD)}
    record: Any = cluster.context().ledger.read_member(POD, id_)
    assert (record["unplanned"], list(record["unmet"])) == (failed, failed)
    report = cluster.reconcile()
    assert (report.ok, list(report.events["unmet"])) == (True, [f"{id_[:12]} {name}" for name in failed])
    broken.clear()
    for changed in (True, False):
        report = cluster.reconcile()
        assert (report.ok, report.changed) == (True, changed), report.as_text()
        assert cluster.groups_of(pid) == {("gold", POD)}
    record = cluster.context().ledger.read_member(POD, id_)
    classes = {step["feature"]: step["needs"].get("class") for step in record["steps"]}
    assert classes == {"rdt": "gold", "monitoring": "gold", "scheduling": "calm"}
    assert not {"unplanned", "unmet"} & record.keys()


@pytest.fixture
def context(host: Host) -> Context:
    made = host.context()
    made.ledger.prepare()
    return made


def test_unfinished_files_of_many_pods_are_removed_some_at_a_time(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "_MOST_FOLDERS", 2)
    for number in range(5):
        context.ledger.write_pod(f"k{number}", {})
        path = f"{context.ledger.folder}/pods/k{number}/pod~4711"
        Path(path).touch()
        os.utime(path, (1, 1))
    for begin in range(3):
        monkeypatch.setattr(time, "monotonic_ns", lambda begin=begin: 2 * begin)
        report = Report()
        tidy(context, [], report)
        assert report.number("tidied") == (1 if begin == 2 else 2)


def test_pointers_without_record_are_removed_even_if_the_state_directory_cannot_be_cleaned(
    host: Host, context: Context, fail: Fail
) -> None:
    report = Report()
    fail(cleanup, "fold", LedgerError("the disk is full"), when=lambda ledger: ledger is context.ledger)
    for name, key in (("gone", "k"), ("here", "k"), ("gone-too", "other")):
        context.ledger.point(name, key)
    context.ledger.write_member("k", "here", {})
    (host.state / "containers/junk").symlink_to("../..")
    tidy(context, [], report)
    assert (context.ledger.containers(), report.number("tidied")) == (["here"], 2)
    assert list(report.events["failed"]) == ["stateDir"]


@pytest.mark.parametrize("made", ["its record", "another pointer"])
def test_pointer_of_running_hook_stays(context: Context, monkeypatch: pytest.MonkeyPatch, made: str) -> None:
    """It is written before the record; the holder of the key's lock has both."""
    report = Report()
    context.ledger.point("m", "k")
    hold = context.monitor.hold

    def holding(key: str) -> LockedKey:
        if made == "its record":
            context.ledger.write_member("k", "m", {})
        else:
            context.ledger.point("m", "other")
        return hold(key)

    monkeypatch.setattr(context.monitor, "hold", holding)
    tidy(context, [], report)
    assert (context.ledger.containers(), report.number("tidied")) == (["m"], 0)


def test_reconcile_shares_totals_with_the_earlier_version(host: Host, context: Context) -> None:
    """A reader of counters may write only the folder ``totals``."""
    for name in ("counters", "class-counters"):
        (host.state / "totals" / name).write_text("new")
    (host.state / "class-counters").write_text("the earlier version's")
    os.utime(host.state / "totals/class-counters", (0, 0))
    for _ in range(2):
        reconcile(context)
        assert (host.state / "counters").samefile(host.state / "totals/counters")
        assert (host.state / "class-counters").read_text() == "the earlier version's"
