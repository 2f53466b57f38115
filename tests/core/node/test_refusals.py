"""Errors, internal faults and refusals: their words, their one line, and their bounded memory."""

import errno
import json
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import ID, UID, Host, always, raising, standard_streams
from hosts.faults import failing
from hypothesis import given, settings
from hypothesis import strategies as st

import resctrl_hooks.errors
from resctrl_hooks.core.node import call_metrics, error_types, errors, fault_report, refusals
from resctrl_hooks.core.node.errors import HookError, LedgerError, NoRMIDsError, NotTrackedError, ResctrlError
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.settings import DEFAULTS

NAMES = {"namespace": "shop", "pod": "web-0", "container": "c0", "id": ID, "key": UID}
ALL = [kind for kind in vars(error_types).values() if isinstance(kind, type) and issubclass(kind, HookError)]


def test_error_message_is_for_operator() -> None:
    error = NoRMIDsError("cannot create mon_group /x", errno=errno.ENOSPC, kernel="Out of RMIDs", hint="free some")
    assert str(error) == "cannot create mon_group /x (ENOSPC); kernel: Out of RMIDs; free some"
    assert (str(HookError("plain")), str(HookError("odd", errno=9999))) == ("plain", "odd (9999)")
    assert str(NotTrackedError("no group for key x")) == "no group for key x", "a KeyError would quote it"
    gone = LedgerError.of_file(OSError(errno.ENOSPC, "No space left on device", "/elsewhere"), "/run/x")
    assert (type(gone), gone.errno) == (LedgerError, errno.ENOSPC)
    assert gone.message == "cannot use /run/x: No space left on device"
    assert str(HookError.of_file(OSError(errno.ENOENT, "gone"), "/x", "read")) == "cannot read /x: gone (ENOENT)"
    assert fault_report.as_hook_error(gone) is gone
    of_a_file = fault_report.as_hook_error(OSError(errno.ENOSPC, "No space left on device", "/run/x"))
    assert (of_a_file.message, of_a_file.errno) == ("cannot use /run/x: No space left on device", errno.ENOSPC)
    assert fault_report.as_hook_error(OSError(errno.EIO, "Input/output error")).message.startswith("cannot use a file")
    fault = fault_report.as_hook_error(KeyError("x"))
    assert (fault.reason, "KeyError: 'x'" in str(fault)) == ("fault", True)
    absent = fault_report.as_hook_error(ModuleNotFoundError("no", name="resctrl_hooks.observe.node.guard"))
    assert str(absent).startswith("the modules of observe are not installed here; run `resctrl-hook install`")


def test_each_type_is_public_has_its_own_reason_and_its_builtin_type() -> None:
    assert len({kind.reason for kind in ALL}) == len(ALL)
    for kind in ALL:
        assert kind.reason.replace("-", "").isalpha()
        assert kind.__name__ in resctrl_hooks.errors.__all__
        assert getattr(resctrl_hooks.errors, kind.__name__) is kind
    types = {name for name, kind in vars(error_types).items() if isinstance(kind, type)}
    assert all(getattr(errors, name) is getattr(error_types, name) for name in types)
    assert not hasattr(errors, "NoSuchError")
    assert not hasattr(errors, "_errno")
    assert issubclass(errors.RMIDsBusyError, NoRMIDsError)
    assert issubclass(NotTrackedError, KeyError)
    assert all(issubclass(kind, ValueError) for kind in (errors.BadKeyError, errors.BadClassError))
    for kind in errors.BY_ERRNO.values():
        assert issubclass(kind, ResctrlError)
        assert kind.reason != ResctrlError.reason


def test_missing_root_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for uid, error, said in (
        (1000, PermissionError(errno.EACCES, "Permission denied", "/run/x"), "root is required: cannot use /run/x"),
        (1000, PermissionError(errno.EPERM, "Operation not permitted"), "root is required: cannot use a file"),
        (1000, LedgerError("the ledger", errno=errno.EACCES), "root is required: the ledger"),
        (1000, OSError(errno.ENOENT, "No such file"), ""), (0, PermissionError(errno.EACCES, "Permission denied"), ""),
        (1000, ValueError("no"), ""),
    ):  # fmt: skip
        monkeypatch.setattr("posix.geteuid", always(uid))
        assert fault_report.lacks_root(error) == said


@pytest.mark.parametrize("broken", ["", "{", '{"format":1,"log":{"level":[]}}', '{"format":1,"log":7}', "log", None])
def test_fault_is_one_line_with_its_place_and_follows_the_policy(host: Host, monkeypatch: Any, broken: Any) -> None:
    monkeypatch.setitem(DEFAULTS, "stateDir", str(host.state))  # with faulty settings, the defaults apply
    host.configure(failurePolicy="fail")
    if broken == "log":
        faults: Any = sys.modules[fault_report.report.__module__]
        real = faults.Log
        silent = {"target": "none"}
        monkeypatch.setattr(faults, "Log", lambda *given: real(silent) if not given else raising(TypeError("too"))())
    elif broken is not None:
        host.config.write_text(broken)

    def reported(error: BaseException, names: dict[str, str] | None) -> tuple[bool, str]:
        with pytest.raises(type(error)) as caught:
            raise error
        with standard_streams(b"") as written:
            refuses = fault_report.report(str(host.config), "createRuntime", caught.value, names=names)
        return refuses, written()

    refuses, line = reported(ValueError("a\nb"), {"id": "c1"})
    assert refuses == (broken in ("log", None))
    assert line.startswith("resctrl-hook: internal error in resctrl-hook: ValueError: a\\nb in test_refusals.py:")
    assert line.count("\n") == 1
    assert not reported(ValueError("second"), None)[0], "there is no container to reject"
    if broken is None:
        assert "reason=fault" in host.log.read_text()
        assert [one["id"] for one in refusals.recent_refusals(str(host.state))] == ["c1"]


@pytest.mark.usefixtures("open_umask")
def test_number_and_size_of_refusals_are_limited_and_an_unwritable_folder_is_not_a_failure(tmp_path: Path) -> None:
    refusals.record_refusal("/dev/null/nothing", NAMES, "why")
    (tmp_path / refusals.FILE).symlink_to(tmp_path / "elsewhere")
    refusals.record_refusal(str(tmp_path), NAMES, "why")
    assert not (tmp_path / "elsewhere").exists()
    assert refusals.recent_refusals(str(tmp_path)) == []
    before, folder = os.listdir("/proc/self/fd"), tmp_path / "state"
    for number in range(300):
        refusals.record_refusal(str(folder), NAMES | {"id": str(number)}, "x" * 10_000)
    assert os.listdir("/proc/self/fd") == before
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 2 * refusals._LARGEST
    found = refusals.recent_refusals(str(folder))
    assert [int(one["id"]) for one in found] == list(range(300 - len(found), 300))
    assert (len(found) > 20, {len(one["why"]) for one in found}) == (True, {500})
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        refusals.FILE: 0o600,
        refusals.OLD: 0o600,
    }


@given(st.lists(st.sampled_from((b"{", b"[]", b"7", b'{"time": "x"}', b"\xff", b"\0", b"[" * 5000, b"")), max_size=4))
def test_invalid_lines_are_skipped(junk: list[bytes]) -> None:
    good = json.dumps({"time": 5, "why": "x"}).encode()
    data = b"\n".join([*junk, good, *junk])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refusals, "read_file", lambda path, *_, **__: data if path.endswith(refusals.FILE) else b"")
        assert [one["time"] for one in refusals.recent_refusals("/x")] == [5]


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


def test_last_200_failures_are_kept_and_other_formats_sizes_and_unfinished_lines_ignored(ledger: Ledger) -> None:
    for number in range(201):
        ledger.count_call("poststop", 0.001, ["ledger"], f"k{number}")
    with Path(ledger.folder, "calls").open("a") as file:
        file.write("17000 posts")
    found = call_metrics.read(ledger)
    assert [one[1:] for one in found.failures] == [("poststop", "ledger", f"k{number}") for number in range(1, 201)]
    assert found.stage("poststop").failures == {"ledger": 201}
    Path(ledger.folder, "calls").unlink()
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
