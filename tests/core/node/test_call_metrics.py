"""Figures about the hook itself, from the lines that its calls append."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import ID, Host
from hosts.faults import failing

from resctrl_hooks.core.node import call_metrics
from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.reconcile.reconcile import reconcile


def test_calls_are_counted_by_stage_reason_and_duration(ledger: Ledger) -> None:
    ledger.count_call("createRuntime", 0.0015)
    ledger.count_call("createRuntime", 0.3, ["no-rmids"], "k1")
    ledger.count_call("poststop", 20.0)
    found = call_metrics.read(ledger)
    create = found.stage("createRuntime")
    assert (create.runs, create.failures) == (2, {"no-rmids": 1})
    assert create.seconds == pytest.approx(0.3015)
    assert create.buckets[call_metrics.BOUNDS.index(0.002)] == 1
    assert create.buckets[call_metrics.BOUNDS.index(0.5)] == 1
    assert found.stage("poststop").buckets[-1] == 1
    assert [(stage, reasons, key) for _, stage, reasons, key in found.failures] == [("createRuntime", "no-rmids", "k1")]


def test_last_run_is_correct_after_clock_change(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may begin with a wrong clock; an alert on the time of the last run would stay silent for as long."""
    for now in (4_000_000_000.0, 1_700_000_000.0):
        monkeypatch.setattr("time.time", iter([now]).__next__)
        ledger.count_call("reconcile", 0.1)
    assert call_metrics.read(ledger).stage("reconcile").last == 1_700_000_000


def test_folding_neither_loses_nor_doubles(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_metrics, "_FOLD_FROM", 1)
    for number in range(1, 8):
        ledger.count_call("poststop", 0.001)
        call_metrics.fold(ledger)
        assert call_metrics.read(ledger).stage("poststop").runs == number
    with Path(ledger.folder, "calls.old").open("a") as late:  # a hook that opened it before the rename
        late.write("1700000000 poststop 10 - -\n")
    ledger.count_call("poststop", 0.001)
    call_metrics.fold(ledger)
    assert call_metrics.read(ledger).stage("poststop").runs == 9


def test_fold_killed_before_removal_counts_nothing_twice(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_metrics, "_FOLD_FROM", 1)
    ledger.count_call("poststop", 0.001)
    call_metrics.fold(ledger)
    ledger.count_call("poststop", 0.001)
    with failing(call_metrics, "remove_file", KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        call_metrics.fold(ledger)
    assert call_metrics.read(ledger).stage("poststop").runs == 2
    call_metrics.fold(ledger)
    assert call_metrics.read(ledger).stage("poststop").runs == 2


def test_reconcile_folds(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_metrics, "_FOLD_FROM", 1)
    used = host.context().ledger
    used.prepare()
    used.count_call("poststop", 0.001)
    reconcile(host.context())
    assert not Path(used.folder, "calls").exists()
    assert call_metrics.read(used).stage("poststop").runs == 1


def test_successful_and_failed_hook_leave_a_line_each(tmp_path: Path) -> None:
    host = Host(tmp_path)
    state = {"ociVersion": "1.2.1", "id": ID, "status": "created", "pid": host.process(100), "bundle": host.bundle()}
    host.call(state)
    host.call({**state, "bundle": "/nowhere"})
    host.call(b"nonsense")
    found = call_metrics.read(host.context().ledger)
    assert found.stage("createRuntime").runs == 2
    assert found.stage("createRuntime").failures == {"bad-input": 1}
    assert found.stage("hook").failures == {"bad-input": 1}


def test_ignored_failure_of_step_is_counted(tmp_path: Path) -> None:
    host = Host(tmp_path)
    bundle = host.bundle({"ociVersion": "1.2.1", "linux": {"intelRdt": {"closID": "missing"}}})
    state = {"ociVersion": "1.2.1", "id": ID, "status": "created", "pid": host.process(100), "bundle": bundle}
    assert host.call(state).code == 0
    assert call_metrics.read(host.context().ledger).stage("createRuntime").failures == {"bad-class": 1}


def test_unused_stage_has_all_buckets() -> None:
    never = call_metrics.Stage()
    assert (never.runs, never.seconds, never.last, never.failures) == (0, 0.0, 0, {})
    assert never.buckets == [0] * 14
    kept: Any = {"buckets": [1] * 14}
    assert call_metrics.Stage(kept).buckets == [1] * 14
    for bounds in (12, 13, 15):  # of another version
        kept = {"runs": 3, "buckets": [1] * bounds}
        assert call_metrics.Stage(kept).buckets == [0] * 14


@pytest.mark.parametrize("seconds, bucket", [(0.001, 0), (0.0010001, 1), (10.0, 12), (10.1, 13)])
def test_bound_belongs_to_its_bucket(seconds: float, bucket: int) -> None:
    stage = call_metrics.Stage()
    stage.add(1, seconds, [])
    assert [place for place, count in enumerate(stage.buckets) if count] == [bucket]


def test_invalid_lines_hide_no_others(ledger: Ledger) -> None:
    lines = ["junk", "x poststop 10 - -", "17 poststop x - -", "17 poststop 10 - - -", "17 poststop 10 no-rmids -"]
    Path(ledger.folder, "calls").write_text("\n".join(lines) + "\n17000 posts")
    found = call_metrics.read(ledger)
    assert (list(found.stages), found.stage("poststop").runs) == (["poststop"], 1)
    assert found.failures == [(17, "poststop", "no-rmids", "")]


def test_last_200_failures_are_kept(ledger: Ledger) -> None:
    for number in range(201):
        ledger.count_call("poststop", 0.001, ["ledger"], f"k{number}")
    found = call_metrics.read(ledger)
    assert [key for *_, key in found.failures] == [f"k{number}" for number in range(1, 201)]
    assert found.stage("poststop").failures == {"ledger": 201}


def test_lines_are_folded_from_64_kib_on(ledger: Ledger) -> None:
    calls = Path(ledger.folder, "calls")
    line = "1700000000 poststop 10 - -\n"
    calls.write_text(line.ljust((1 << 16) - 1, "\n"))
    call_metrics.fold(ledger)
    assert calls.exists()
    calls.write_text(line.ljust(1 << 16, "\n"))
    call_metrics.fold(ledger)
    assert not calls.exists()
    assert call_metrics.read(ledger).stage("poststop").runs == 1


FIGURES: Any = {"stages": {"poststop": {"runs": 7}}, "last": [], "folded": ""}


@pytest.mark.parametrize(
    "kept, runs",
    [({"format": 1, **FIGURES}, 7), ({"format": 2, **FIGURES}, 0), (FIGURES, 0), ([], 0), ("format", 0), (None, 0)],
)
def test_file_of_another_format_is_ignored(ledger: Ledger, kept: Any, runs: int) -> None:
    Path(ledger.folder, "tally").write_text(json.dumps(kept))
    assert call_metrics.read(ledger).stage("poststop").runs == runs


def test_file_above_4_mib_is_ignored(ledger: Ledger) -> None:
    path = Path(ledger.folder, "tally")
    path.write_text(json.dumps({"format": 1, **FIGURES}).ljust(4 << 20))
    assert call_metrics.read(ledger).stage("poststop").runs == 7
    path.write_text(json.dumps({"format": 1, **FIGURES}).ljust((4 << 20) + 1))
    with pytest.raises(LedgerError) as raised:
        call_metrics.read(ledger)
    assert raised.value.errno == errno.EFBIG
