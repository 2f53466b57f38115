"""Errors, internal faults and refusals: their words, their one line, and their bounded memory."""

import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import BOTH_POLICIES, ID, UID, Host, standard_streams, state
from hosts.faults import Fail
from hypothesis import given
from hypothesis import strategies as st

import resctrl_hooks.errors
from resctrl_hooks.core.node import error_types, errors, refusals
from resctrl_hooks.core.node.call_metrics import read
from resctrl_hooks.core.node.errors import (
    BY_ERRNO,
    BadClassError,
    BadKeyError,
    HookError,
    LedgerError,
    NoRMIDsError,
    NotTrackedError,
    ResctrlError,
    RMIDsBusyError,
)
from resctrl_hooks.core.node.fault_report import as_hook_error, lacks_root, report
from resctrl_hooks.core.node.refusals import FILE, OLD, recent_refusals, record_refusal
from resctrl_hooks.core.node.settings import DEFAULTS

NAMES = {"namespace": "shop", "pod": "web-0", "container": "c0", "id": ID, "key": UID}
ALL = [kind for kind in vars(error_types).values() if isinstance(kind, type) and issubclass(kind, HookError)]


# Errors


def test_error_message_is_for_operator() -> None:
    error = NoRMIDsError("cannot create mon_group /x", errno=errno.ENOSPC, kernel="Out of RMIDs", hint="free some")
    assert str(error) == "cannot create mon_group /x (ENOSPC); kernel: Out of RMIDs; free some"
    assert (str(HookError("plain")), str(HookError("odd", errno=9999))) == ("plain", "odd (9999)")
    assert str(NotTrackedError("no group for key x")) == "no group for key x", "a KeyError would quote it"
    gone = LedgerError.of_file(OSError(errno.ENOSPC, "No space left on device", "/elsewhere"), "/run/x")
    assert (type(gone), gone.errno, gone.message) == (
        *(LedgerError, errno.ENOSPC, "cannot use /run/x: No space left on device"),
    )
    assert str(HookError.of_file(OSError(errno.ENOENT, "gone"), "/x", "read")) == "cannot read /x: gone (ENOENT)"


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
    assert issubclass(RMIDsBusyError, NoRMIDsError)
    assert issubclass(NotTrackedError, KeyError)
    assert all(issubclass(kind, ValueError) for kind in (BadKeyError, BadClassError))
    assert all(issubclass(kind, ResctrlError) for kind in BY_ERRNO.values())
    assert all(kind.reason != ResctrlError.reason for kind in BY_ERRNO.values())


def test_any_error_is_in_words_for_operator() -> None:
    known = LedgerError("the disk is full")
    assert as_hook_error(known) is known
    of_a_file = as_hook_error(OSError(errno.ENOSPC, "No space left on device", "/run/x"))
    assert (of_a_file.message, of_a_file.errno) == ("cannot use /run/x: No space left on device", errno.ENOSPC)
    assert as_hook_error(OSError(errno.EIO, "Input/output error")).message.startswith("cannot use a file")
    fault = as_hook_error(KeyError("x"))
    assert (fault.reason, "KeyError: 'x'" in str(fault)) == ("fault", True)
    absent = as_hook_error(ModuleNotFoundError("no", name="resctrl_hooks.observe.node.guard"))
    assert str(absent).startswith("the modules of observe are not installed here; run `resctrl-hook install`")


@pytest.mark.parametrize("uid, error, said", [
    (1000, PermissionError(errno.EACCES, "Permission denied", "/run/x"), "root is required: cannot use /run/x"),
    (1000, PermissionError(errno.EPERM, "Operation not permitted"), "root is required: cannot use a file"),
    (1000, LedgerError("the ledger", errno=errno.EACCES), "root is required: the ledger"), (1000, ValueError("no"), ""),
    (1000, OSError(errno.ENOENT, "No such file"), ""), (0, PermissionError(errno.EACCES, "Permission denied"), ""),
])  # fmt: skip
def test_missing_root_is_reported(monkeypatch: pytest.MonkeyPatch, uid: int, error: Exception, said: str) -> None:
    monkeypatch.setattr("posix.geteuid", lambda: uid)
    assert lacks_root(error) == said


# Internal faults


@pytest.fixture
def _not_this_machines_records(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    """Use a separate state directory: with faulty settings, the defaults apply."""
    monkeypatch.setitem(DEFAULTS, "stateDir", str(host.state))


def failing(error: BaseException) -> None:
    raise error


def reported(host: Host, error: BaseException, names: dict[str, str] | None) -> tuple[bool, str]:
    with pytest.raises(type(error)) as caught:
        failing(error)
    with standard_streams(b"") as written:
        refuses = report(str(host.config), "createRuntime", caught.value, names=names)
    return refuses, written()


@pytest.mark.usefixtures("_not_this_machines_records")
@pytest.mark.parametrize("broken", ["", "{", '{"format":1,"log":{"level":[]}}', '{"format":1,"log":7}', "log", None])
def test_fault_is_one_line_with_its_place_and_follows_the_policy(
    host: Host, monkeypatch: pytest.MonkeyPatch, broken: str | None
) -> None:
    host.configure(failurePolicy="fail")
    if broken == "log":
        faults: Any = sys.modules[report.__module__]
        real = faults.Log
        silent = {"target": "none"}
        monkeypatch.setattr(faults, "Log", lambda *given: real(silent) if not given else failing(TypeError("too")))
    elif broken is not None:
        host.config.write_text(broken)
    refuses, line = reported(host, ValueError("a\nb"), {"id": "c1"})
    assert refuses == (broken in ("log", None))
    assert line.startswith("resctrl-hook: internal error in resctrl-hook: ValueError: a\\nb in test_refusals.py:")
    assert line.count("\n") == 1
    assert not reported(host, ValueError("second"), None)[0], "there is no container to reject"
    if broken is None:
        assert "reason=fault" in host.log.read_text()


# Refusals


@BOTH_POLICIES
@pytest.mark.parametrize("case", ["class", "uid", "bundle", "a bug", "without names"])
def test_refused_container_is_recorded_and_an_accepted_one_is_not(
    host: Host, pod: dict[str, Any], fail: Fail, case: str, policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy)
    names: dict[str, Any] = dict(NAMES)
    words = "RDT class 'platinum' does not exist"
    host.bundle({"linux": {"intelRdt": {"closID": "platinum"}}})
    if case == "uid":
        pod["annotations"]["io.kubernetes.pod.uid"] = "../../../etc"
        names, words = {"id": ID}, "has no pod UID"
    elif case == "bundle":
        pod, names, words = state(bundle="/nonexistent"), {"id": ID}, "No such file"
    elif case == "a bug":
        fail("resctrl_hooks.core.node.hook.create_runtime", "create_runtime", ZeroDivisionError("a bug"))
        words = "internal error in resctrl-hook: ZeroDivisionError: a bug"
    elif case == "without names":
        host.process(100, "/podman")
        pod = state(bundle=pod["bundle"])
        names = {"id": ID, "key": ID, "namespace": "", "pod": "", "container": ""}
    assert host.call(pod).code == code
    found = recent_refusals(str(host.state))
    assert len(found) == bool(code)
    for one in found:
        assert one.items() >= names.items()
        assert words in one["why"]
        assert ("pod" in one) == ("pod" in names)
    if code:
        assert host.state.stat().st_mode & 0o777 == 0o700
        assert read(host.context().ledger).stage("createRuntime").failures["refused"] == 1


@pytest.mark.usefixtures("open_umask")
def test_number_and_size_of_refusals_are_limited(tmp_path: Path) -> None:
    before, folder = os.listdir("/proc/self/fd"), tmp_path / "state"
    for number in range(300):
        record_refusal(str(folder), NAMES | {"id": str(number)}, "x" * 10_000)
    assert os.listdir("/proc/self/fd") == before
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 2 * refusals._LARGEST
    found = recent_refusals(str(folder))
    assert [int(one["id"]) for one in found] == list(range(300 - len(found), 300))
    assert (len(found) > 20, {len(one["why"]) for one in found}) == (True, {500})
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {FILE: 0o600, OLD: 0o600}


@given(st.lists(st.sampled_from((b"{", b"[]", b"7", b'{"time": "x"}', b"\xff", b"\0", b"[" * 5000, b"")), max_size=4))
def test_invalid_lines_are_skipped(junk: list[bytes]) -> None:
    good = json.dumps({"time": 5, "why": "x"}).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            refusals,
            "read_file",
            lambda path, *_, **__: b"\n".join([*junk, good, *junk]) if path.endswith(FILE) else b"",
        )
        assert [one["time"] for one in recent_refusals("/x")] == [5]


def test_unwritable_folder_is_not_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    record_refusal(str(tmp_path / "file" / "nothing"), NAMES, "why")
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    record_refusal(str(tmp_path), NAMES, "why")
    assert not (tmp_path / "elsewhere").exists()
    assert recent_refusals(str(tmp_path)) == []
