"""Figures about the hook itself, from the lines that its calls append."""

import os
from pathlib import Path

import pytest
from conftest import ID, Host

from resctrl_hooks.node import call_metrics as tally
from resctrl_hooks.node.ledger import Ledger
from resctrl_hooks.node.reconcile.reconcile import reconcile


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(str(tmp_path / "state"))
    made.prepare()
    return made


def test_calls_are_counted_by_stage_reason_and_duration(ledger: Ledger) -> None:
    ledger.tally("createRuntime", 0.0015)
    ledger.tally("createRuntime", 0.3, ["no-rmids"], "k1")
    ledger.tally("poststop", 20.0)
    found = tally.read(ledger)
    create = found.stage("createRuntime")
    assert (create.runs, create.failures) == (2, {"no-rmids": 1})
    assert create.seconds == pytest.approx(0.3015)
    assert create.buckets[tally.BOUNDS.index(0.002)] == 1
    assert create.buckets[tally.BOUNDS.index(0.5)] == 1
    assert found.stage("poststop").buckets[-1] == 1
    assert [(stage, reasons, key) for _, stage, reasons, key in found.failures] == [("createRuntime", "no-rmids", "k1")]


def test_the_last_run_is_the_last_after_the_clock_was_set_back(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may begin with a wrong clock; an alert on the time of the last run would stay silent for as long."""
    for now in (4_000_000_000.0, 1_700_000_000.0):
        monkeypatch.setattr("time.time", iter([now]).__next__)
        ledger.tally("reconcile", 0.1)
    assert tally.read(ledger).stage("reconcile").last == 1_700_000_000


def test_half_a_line_is_passed_over(ledger: Ledger) -> None:
    ledger.tally("poststop", 0.001)
    with Path(ledger.folder, "calls").open("a") as calls:
        calls.write("1700000000 poststop 10 - -\n17000 posts")
    assert tally.read(ledger).stage("poststop").runs == 2


def test_folding_loses_and_doubles_nothing(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "_FOLD_FROM", 1)
    for number in range(1, 8):
        ledger.tally("poststop", 0.001)
        tally.fold(ledger)
        assert tally.read(ledger).stage("poststop").runs == number
    with Path(ledger.folder, "calls.old").open("a") as late:  # a hook that opened it before the rename
        late.write("1700000000 poststop 10 - -\n")
    ledger.tally("poststop", 0.001)
    tally.fold(ledger)
    assert tally.read(ledger).stage("poststop").runs == 9


def test_a_fold_that_was_killed_before_its_removal_counts_nothing_twice(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "_FOLD_FROM", 1)
    ledger.tally("poststop", 0.001)
    tally.fold(ledger)
    ledger.tally("poststop", 0.001)
    with monkeypatch.context() as killed:
        killed.setattr(tally, "remove_file", _kill)
        with pytest.raises(KeyboardInterrupt):
            tally.fold(ledger)
    assert tally.read(ledger).stage("poststop").runs == 2
    tally.fold(ledger)
    assert tally.read(ledger).stage("poststop").runs == 2


def _kill(_: str) -> bool:
    raise KeyboardInterrupt


def test_few_lines_are_not_folded(ledger: Ledger) -> None:
    ledger.tally("poststop", 0.001)
    tally.fold(ledger)
    assert not Path(ledger.folder, "tally").exists()


def test_reconcile_folds(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "_FOLD_FROM", 1)
    used = host.context().ledger
    used.prepare()
    used.tally("poststop", 0.001)
    reconcile(host.context())
    assert not Path(used.folder, "calls").exists()
    assert tally.read(used).stage("poststop").runs == 1


def test_the_file_has_a_bound(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resctrl_hooks.node.ledger._MOST_CALLS", 100)
    before = os.listdir("/proc/self/fd")
    for _ in range(50):
        ledger.tally("poststop", 0.001)
    assert Path(ledger.folder, "calls").stat().st_size < 200
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_hook_that_works_and_one_that_fails_leave_a_line_each(tmp_path: Path) -> None:
    host = Host(tmp_path)
    state = {"ociVersion": "1.2.1", "id": ID, "status": "created", "pid": host.process(100), "bundle": host.bundle()}
    host.call(state)
    host.call({**state, "bundle": "/nowhere"})
    host.call(b"nonsense")
    found = tally.read(host.context().ledger)
    assert found.stage("createRuntime").runs == 2
    assert found.stage("createRuntime").failures == {"bad-input": 1}
    assert found.stage("hook").failures == {"bad-input": 1}


def test_a_step_that_fails_and_is_ignored_is_counted(tmp_path: Path) -> None:
    host = Host(tmp_path)
    bundle = host.bundle({"ociVersion": "1.2.1", "linux": {"intelRdt": {"closID": "missing"}}})
    state = {"ociVersion": "1.2.1", "id": ID, "status": "created", "pid": host.process(100), "bundle": bundle}
    assert host.call(state).code == 0
    assert tally.read(host.context().ledger).stage("createRuntime").failures == {"bad-class": 1}
