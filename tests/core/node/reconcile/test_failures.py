"""Failures of one key, container or feature, which others do not notice."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from conftest import Host, always
from hosts.cluster import NOW, POD, Cluster, pod_number
from hosts.faults import Fail, failing
from hosts.simulated_kernel import Kernel

from core.node.reconcile.test_release import restored_by
from resctrl_hooks.core.node.errors import HookError, LedgerError
from resctrl_hooks.core.node.features import monitoring, rdt_class
from resctrl_hooks.core.node.reconcile import cleanup
from resctrl_hooks.core.node.reconcile import reconcile as module
from resctrl_hooks.core.node.reconcile.cleanup import tidy
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options, Report
from resctrl_hooks.core.node.restored import Restored

if TYPE_CHECKING:
    from collections.abc import Callable

    from resctrl_hooks.core.node.context import Context
    from resctrl_hooks.core.node.resctrl.locked_key import LockedKey

HOUSES = ("lab",)


def damage_record(cluster: Cluster, key: str) -> None:
    """Put a folder in the place of a key's record, which can then not be read."""
    path = cluster.host.state / "pods" / key / "pod"
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("dry_run", [False, True])
def test_unreadable_key_is_reported_and_others_are_released(cluster: Cluster, *, dry_run: bool) -> None:
    for number in (1, 2):
        _, pid = cluster.start(number, pod_number(number))
        cluster.kernel.end(pid)
        cluster.end_pod(pod_number(number))
    damage_record(cluster, pod_number(1))
    report = cluster.reconcile(Options(wait=False, dry_run=dry_run))
    assert "Is a directory" in report.events["failed"][pod_number(1)]
    assert [*report.events["released"]] == [pod_number(2)]


def test_changes_of_counters_are_counted(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [SimpleNamespace(give=give) for give in (True, False, False, True, False)]
    uncounted = {"x": [0, 2]}
    found = SimpleNamespace(changes=changes, uncounted=uncounted, resource="L3")
    monkeypatch.setattr("resctrl_hooks.core.node.sharing.bandwidth_counters.balance", always(found))
    report = reconcile(host.context(), NOW)
    assert (report.number("assigned"), report.number("unassigned")) == (2, 3)
    assert report.events["uncounted"] == {"x": "in L3 domain 0, 2"}


def refusing(*_: object, **__: object) -> Any:
    raise HookError("no")


def feature(name: str, adopts: Callable[..., Any], repairs: Callable[..., Any]) -> Any:
    return SimpleNamespace(name=name, adopt=adopts, repair=repairs, orphans=repairs)


@pytest.mark.parametrize("dry_run", [False, True])
def test_failing_feature_does_not_stop_others(host: Host, monkeypatch: pytest.MonkeyPatch, *, dry_run: bool) -> None:
    left: list[str] | int = ["left"] if dry_run else 3
    features = [
        feature("first", refusing, always(left)),
        feature("second", always((["a"], {"c": HookError("cannot")})), refusing),
        feature("third", always((["b"], {})), always(left)),
    ]
    for name in ("features_in_use", "features_to_repair"):
        monkeypatch.setattr(module, name, always(features))
    report = reconcile(host.context(), Options(wait=False, dry_run=dry_run))
    assert ([*report.events["placed"]], report.number("repaired")) == (["a", "b"], 0 if dry_run else 6)
    assert [*report.events["orphan"]] == (["first left", "third left"] if dry_run else [])
    assert report.events["failed"] == {"first": "no", "second": "no", "c": "cannot"}


def raising(*_: object, **__: object) -> Any:
    raise RuntimeError("a bug")


def test_failure_to_join_is_reported(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.unseen(1)
    monkeypatch.setattr("resctrl_hooks.core.node.reconcile.bring_in.join", raising)
    report = cluster.reconcile()
    assert "a bug" in report.events["failed"][POD]
    assert report.events["waiting"] == {}


def test_values_that_an_ended_program_left_are_reported(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Restored("the guard")
    found.done, found.foreign, found.failed = ["class a"], ["class b: left"], ["class c: EINVAL"]
    context, report = cluster.context(), Report()
    restored_by(monkeypatch, cleanup, always(found))
    assert [*cluster.reconcile().events["problem"]] == ["cannot restore class c: EINVAL"]
    cluster.host.log.unlink()
    cleanup._restore_values(context, report)
    assert (report.number("repaired"), [*report.events["problem"]]) == (1, ["cannot restore class c: EINVAL"])
    log = cluster.host.log.read_text()
    assert "restored after the guard ended: class a" in log
    assert "left after the guard ended: class b: left" in log
    restored_by(monkeypatch, cleanup, raising)
    cleanup._restore_values(context, report)
    assert list(report.events["failed"]) == ["guard"]


FULL = OSError(errno.ENFILE, "Too many open files in system", "/proc/100/cpu_resctrl_groups")
PARTS = {
    "rdt": [(rdt_class, "choose")],
    "monitoring": [(monitoring, "class_of"), (monitoring, "why_not")],
}
"""The functions that plan each feature."""
RDT = {"enabled": True, "allow": {"*": ["gold"]}, "defaults": {"namespaces": {"*": "gold"}}}
SCHEDULING = {"enabled": True, "defaults": {"namespaces": {"*": "calm"}}, "classes": {"calm": {}}}


def silent(self: Kernel) -> None:
    """Write nothing to /proc about groups, as a simulation."""


@pytest.mark.parametrize("told", [True, False], ids=["class in /proc", "class not in /proc"])
@pytest.mark.parametrize("failed", [["rdt"], ["monitoring"], ["rdt", "monitoring"]], ids="-".join)
def test_failed_plan_of_a_class_or_a_group_is_planned_again_and_the_group_is_in_the_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: list[str], *, told: bool
) -> None:
    if not told:
        monkeypatch.setattr(Kernel, "show_tasks", silent)
    cluster = Cluster(tmp_path, rdt=RDT, scheduling=SCHEDULING)
    cluster.add_classes("gold")
    with contextlib.ExitStack() as faults:
        for module, name in (part for feature in failed for part in PARTS[feature]):
            faults.enter_context(failing(module, name, FULL))
        id_, pid = cluster.start(1)
        assert cluster.groups_of(pid) != {("gold", POD)}
        record: Any = cluster.context().ledger.read_member(POD, id_)
        assert (record["unplanned"], list(record["unmet"])) == (failed, failed)
        report = cluster.reconcile()
        assert (report.ok, list(report.events["unmet"])) == (True, [f"{id_[:12]} {name}" for name in failed])
    report = cluster.reconcile()
    assert report.ok, report.as_text()
    assert cluster.groups_of(pid) == {("gold", POD)}
    record = cluster.context().ledger.read_member(POD, id_)
    assert {step["feature"]: step["needs"].get("class") for step in record["steps"]} == {
        "rdt": "gold", "monitoring": "gold", "scheduling": "calm"
    }  # fmt: skip
    assert not {"unplanned", "unmet"} & record.keys()
    again = cluster.reconcile()
    assert (again.ok, again.changed) == (True, False), again.as_text()


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


def test_uncleanable_state_directory_is_reported_and_rest_continues(context: Context, fail: Fail) -> None:
    report = Report()
    context.ledger.point("gone", "k")
    fail(cleanup, "fold", LedgerError("the disk is full"), when=lambda ledger: ledger is context.ledger)
    tidy(context, [], report)
    assert list(report.events["failed"]) == ["stateDir"]
    assert (context.ledger.containers(), report.number("tidied")) == ([], 1)


def test_pointers_without_record_are_removed(host: Host, context: Context) -> None:
    report = Report()
    for name, key in (("gone", "k"), ("here", "k"), ("gone-too", "other")):
        context.ledger.point(name, key)
    context.ledger.write_member("k", "here", {})
    (host.state / "containers/junk").symlink_to("../..")
    tidy(context, [], report)
    assert (context.ledger.containers(), report.number("tidied"), report.ok) == (["here"], 2, True)


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
