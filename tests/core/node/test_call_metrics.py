"""Figures about the hook itself, from the lines that its calls append: none is lost, and none counts twice."""

import errno
import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import ID, Host
from hosts.faults import failing
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node import call_metrics
from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.reconcile.reconcile import reconcile

STAGES = st.sampled_from(("createRuntime", "poststop", "reconcile"))
REASONS = st.lists(st.sampled_from(("no-rmids", "deadline", "ledger")), unique=True, max_size=2)
EVENTS = st.one_of(
    st.tuples(st.just("call"), STAGES, st.integers(0, 20_000_000), REASONS),
    st.tuples(st.just("late call"), STAGES, st.integers(0, 20_000_000), REASONS),
    st.sampled_from((("fold",), ("killed fold",), ("junk",))),
)


@settings(max_examples=50)
@given(st.lists(EVENTS, max_size=15))
def test_each_call_counts_once_in_any_order_of_calls_and_folds(events: list[Any]) -> None:
    """A hook that opened the file before a fold's rename writes late; a fold can be killed before its last step."""
    expected: dict[str, list[tuple[int, list[str]]]] = {}
    was_killed = False
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(call_metrics, "_FOLD_FROM", 1)
        ledger = Ledger(folder)
        for kind, *call in events:
            if kind in ("call", "late call"):
                stage, usec, reasons = call
                old = Path(folder, "calls.old")
                if kind == "late call" and old.exists() and not was_killed:
                    with old.open("a") as late:
                        late.write(f"1700000000 {stage} {usec} {','.join(reasons) or '-'} -\n")
                else:
                    ledger.count_call(stage, usec / 1e6 + 1e-7, reasons)
                expected.setdefault(stage, []).append((usec, reasons))
            elif kind == "junk":
                with Path(folder, "calls").open("a") as file:
                    file.write("junk\nx poststop 10 - -\n17 poststop x - -\n17 poststop 10 - - -\n")
            elif kind == "fold":
                call_metrics.fold(ledger)
                was_killed = False
            else:
                with failing(call_metrics, "remove_file", KeyboardInterrupt()), suppress(KeyboardInterrupt):
                    call_metrics.fold(ledger)
                was_killed = True
        found = call_metrics.read(ledger)
    for stage, calls in expected.items():
        one = found.stage(stage)
        assert one.runs == len(calls) == sum(one.buckets)
        assert one.seconds == pytest.approx(sum(usec for usec, _ in calls) / 1e6, abs=1e-3)
        for reason in ("no-rmids", "deadline", "ledger"):
            assert one.failures.get(reason, 0) == sum(reason in reasons for _, reasons in calls)
        for bound, bucket in zip(call_metrics.BOUNDS, range(len(one.buckets)), strict=False):
            assert sum(one.buckets[: bucket + 1]) == sum(usec <= bound * 1e6 for usec, _ in calls)


def test_each_call_of_a_hook_leaves_a_line_which_reconcile_folds(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_metrics, "_FOLD_FROM", 1)
    state = {"ociVersion": "1.2.1", "id": ID, "status": "created", "pid": host.process(100), "bundle": host.bundle()}
    host.call(state)
    host.call({**state, "bundle": "/nowhere"})
    host.call(b"nonsense")
    host.bundle({"ociVersion": "1.2.1", "linux": {"intelRdt": {"closID": "missing"}}})
    assert host.call(state).code == 0
    ledger = host.context().ledger
    for _ in range(2):
        found = call_metrics.read(ledger)
        assert found.stage("createRuntime").runs == 3
        assert found.stage("createRuntime").failures == {"bad-input": 1, "bad-class": 1}
        assert found.stage("hook").failures == {"bad-input": 1}
        reconcile(host.context())
    assert not Path(ledger.folder, "calls").exists()


def test_last_200_failures_are_kept_and_unfinished_lines_ignored(ledger: Ledger) -> None:
    for number in range(201):
        ledger.count_call("poststop", 0.001, ["ledger"], f"k{number}")
    with Path(ledger.folder, "calls").open("a") as file:
        file.write("17000 posts")
    found = call_metrics.read(ledger)
    assert [(stage, reasons, key) for _, stage, reasons, key in found.failures] == [
        ("poststop", "ledger", f"k{number}") for number in range(1, 201)
    ]
    assert found.stage("poststop").failures == {"ledger": 201}


def test_file_of_another_format_or_size_is_ignored(ledger: Ledger) -> None:
    path = Path(ledger.folder, "tally")
    figures: Any = {"stages": {"poststop": {"runs": 7}}, "last": [], "folded": ""}
    for kept, runs in (({"format": 1, **figures}, 7), ({"format": 2, **figures}, 0), (figures, 0), ([], 0), (None, 0)):
        path.write_text(json.dumps(kept))
        assert call_metrics.read(ledger).stage("poststop").runs == runs
    path.write_text(json.dumps({"format": 1, **figures}).ljust(4 << 20))
    assert call_metrics.read(ledger).stage("poststop").runs == 7
    path.write_text(json.dumps({"format": 1, **figures}).ljust((4 << 20) + 1))
    with pytest.raises(LedgerError) as raised:
        call_metrics.read(ledger)
    assert raised.value.errno == errno.EFBIG
