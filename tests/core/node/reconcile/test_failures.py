"""One key or one feature that fails in a pass does not stop the others, and is reported."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Host, always
from hosts.cluster import NOW, POD, Cluster, pod_number

from core.node.reconcile.test_release import restored_by
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.ledger import CHANGING
from resctrl_hooks.core.node.reconcile import cleanup
from resctrl_hooks.core.node.reconcile import reconcile as module
from resctrl_hooks.core.node.reconcile.enforce import try_again
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options, Report
from resctrl_hooks.core.node.restored import Restored

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


def test_pointer_to_a_key_without_record_releases_nothing(cluster: Cluster) -> None:
    ledger = cluster.context().ledger
    ledger.prepare()
    ledger.point("a" * 64, POD)
    report = cluster.reconcile()
    assert ([*report.events["released"]], report.events["failed"], [*report.events["problem"]]) == ([], {}, [])
    assert not list(ledger.keys())


@pytest.mark.parametrize("refused", [False, True])
def test_containers_that_still_wait_are_returned(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, refused: bool
) -> None:
    def take_in(_: Any, change: Any, __: Report) -> bool:
        if change.container.key == "broken":
            raise HookError("no")
        return not refused

    monkeypatch.setattr("resctrl_hooks.core.node.reconcile.enforce.take_in", take_in)
    containers: Any = [SimpleNamespace(key=key, recorded=True, record={"steps": []}) for key in ("a", "broken", "b")]
    report = Report()
    assert try_again(cluster.context(), containers, report) == (containers[::2] if refused else [])
    assert list(report.events["failed"]) == ["broken"]


def test_changes_of_counters_are_counted(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [SimpleNamespace(give=give) for give in (True, False, False, True, False)]
    uncounted = {"x": [0, 2]}
    found = SimpleNamespace(changes=changes, uncounted=uncounted, resource="L3")
    monkeypatch.setattr("resctrl_hooks.core.node.sharing.bandwidth_counters.balance", always(found))
    report = reconcile(host.context(), NOW)
    assert (report.number("assigned"), report.number("unassigned")) == (2, 3)
    assert report.events["uncounted"] == {"x": "in L3 domain 0, 2"}


def failing(*_: object, **__: object) -> Any:
    raise HookError("no")


def feature(name: str, adopts: Callable[..., Any], repairs: Callable[..., Any]) -> Any:
    return SimpleNamespace(name=name, adopt=adopts, repair=repairs, orphans=repairs)


@pytest.mark.parametrize("dry_run", [False, True])
def test_failing_feature_does_not_stop_others(host: Host, monkeypatch: pytest.MonkeyPatch, *, dry_run: bool) -> None:
    left: list[str] | int = ["left"] if dry_run else 3
    features = [
        feature("first", failing, always(left)),
        feature("second", always((["a"], {"c": HookError("cannot")})), failing),
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


def test_failure_to_count_threads_is_reported_and_adopts_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.unseen(1)
    monkeypatch.setattr("resctrl_hooks.core.node.reconcile.enforce.stray_threads", raising)
    report = cluster.reconcile(Options(wait=False, dry_run=True))
    assert (report.number("moved"), [*report.events["adopted"]], list(report.events["failed"])) == (0, [], [POD])


def test_failure_to_join_is_reported(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.unseen(1)
    monkeypatch.setattr("resctrl_hooks.core.node.reconcile.bring_in.join", raising)
    report = cluster.reconcile()
    assert "a bug" in report.events["failed"][POD]
    assert report.events["waiting"] == {}


def test_unfinished_change_of_a_broken_key_is_reported(cluster: Cluster) -> None:
    cluster.start(1)
    context, report = cluster.context(), Report()
    context.ledger.mark(CHANGING, POD)
    cleanup._finish_change(context, POD, report)
    assert (context.ledger.marked(CHANGING), report.number("tidied")) == ([], 1)
    context.ledger.mark(CHANGING, POD)
    context.monitor.hold = raising  # type: ignore[method-assign]
    cleanup._finish_change(context, POD, report)
    assert (context.ledger.marked(CHANGING), list(report.events["failed"]), report.number("tidied")) == (
        [POD],
        [POD],
        1,
    )


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
