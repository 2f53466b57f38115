"""Leftovers of killed writers, and their removal."""

import os
import time
from pathlib import Path

import pytest
from conftest import Host
from hosts.cluster import POD, Cluster
from hosts.faults import Fail, failing

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import LedgerError, LockTimeoutError
from resctrl_hooks.core.node.host.unfinished import remove_unfinished
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.pointers import has_member
from resctrl_hooks.core.node.reconcile import cleanup
from resctrl_hooks.core.node.reconcile.cleanup import tidy
from resctrl_hooks.core.node.reconcile.discovery import observe
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Report
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey

HOUSES = ("lab",)


@pytest.fixture
def context(host: Host) -> Context:
    made = host.context()
    made.ledger.prepare()
    return made


def test_only_abandoned_files_are_removed(host: Host) -> None:
    host.process(4712)
    host.state.mkdir(parents=True)
    long_ago = time.time() - 100
    for name in ("placement~4711", "counters~4711", "wake~4712", "wake~4711", "book", "odd~", "~odd"):
        (host.state / name).touch()
        if name != "wake~4711":  # just written, so its writer may be in another pid namespace
            os.utime(host.state / name, (long_ago, long_ago))
    assert remove_unfinished(str(host.state), str(host.proc)) == 2
    assert sorted(os.listdir(host.state)) == ["book", "odd~", "wake~4711", "wake~4712", "~odd"]
    assert remove_unfinished("/nowhere", str(host.proc)) == 0


def test_reconcile_removes_abandoned_files(host: Host, context: Context) -> None:
    left = host.state / "placement~4711"
    left.touch()
    os.utime(left, (0, 0))
    assert reconcile(context).number("tidied") == 1
    assert not left.exists()


UNFINISHED = (
    "wake~4000001",
    "totals/counters~4000001",
    "totals/class-counters~4000001",
    f"pods/{POD}/pod~4000001",
    f"pods/{POD}/c-{'a' * 64}~4000001",
    "../etc/config.json~4000001",
    "../etc/.config.json.4000001.unfinished",
    "../etc/.config.last.json.4000001.unfinished",
    "../nfd/.labels~4000001",
)
FOREIGN = ("../nfd/other~4000001", "../etc/.other.4000001.unfinished", "../etc/config.json~x")


def test_unfinished_files_are_removed_wherever_files_are_replaced(tmp_path: Path) -> None:
    node = Cluster(tmp_path)
    node.start(1)
    host = node.host
    context = host.context()
    context.settings.node_features_path = f"{host.state}/../nfd/labels"
    context.settings.path = f"{host.state}/../etc/config.json"
    for name in (*UNFINISHED, *FOREIGN):
        path = host.state / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (1, 1))
    reconcile(context)
    assert [name for name in (*UNFINISHED, *FOREIGN) if (host.state / name).exists()] == [*FOREIGN]


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


def test_locked_key_does_not_keep_other_pointers(context: Context) -> None:
    for broken in ("a", "b"):
        report = Report()
        for key in ("a", "b"):
            context.ledger.point(f"of-{key}", key)
        held = LockTimeoutError("another process holds it")
        with failing(context.monitor, "hold", held, when=broken.__eq__):
            tidy(context, [], report)
        assert context.ledger.containers() == [f"of-{broken}"]
        assert list(report.events["failed"]) == [f"of-{broken}"]


def test_mark_of_ended_pod_is_removed(cluster: Cluster) -> None:
    cluster.unseen(1)
    context, report = cluster.context(), Report()
    context.ledger.prepare()
    for key in (POD, "recorded", "gone", "gone-too"):
        context.ledger.mark("waiting", key)
    context.ledger.write_member("recorded", "m", {})
    tidy(context, observe(context).containers, report)
    assert sorted(context.ledger.marked("waiting")) == sorted([POD, "recorded"])
    assert report.number("tidied") == 2


def test_recorded_running_container_is_not_examined(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, pod in enumerate((POD, "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c02"), 1):
        cluster.start(number, pod)
    context = cluster.context()
    containers = observe(context).containers
    context.ledger.point("gone", "k")
    asked: list[str] = []

    def asking(ledger: Ledger, key: str, member: str) -> bool:
        asked.append(member)
        return has_member(ledger, key, member)

    monkeypatch.setattr(cleanup, "has_member", asking)
    tidy(context, containers, Report())
    assert asked == ["gone"]


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
