"""Refusals are remembered, within bounds, and nothing about remembering them can go wrong."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from conftest import BOTH_POLICIES, ID, UID, Host, state
from hosts.faults import Fail

from resctrl_hooks.core.node import refusals
from resctrl_hooks.core.node.call_metrics import read
from resctrl_hooks.core.node.errors import DeadlineError
from resctrl_hooks.core.node.hook import call
from resctrl_hooks.core.node.refusals import FILE, OLD, RefusedError, reasons_of, recent_refusals, record_refusal

NAMES = {"namespace": "shop", "pod": "web-0", "container": "c0", "id": ID, "key": UID}


@BOTH_POLICIES
def test_refused_container_is_recorded_and_an_accepted_one_is_not(
    host: Host, pod: dict[str, Any], policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy)
    host.context().ledger.prepare()
    host.bundle({"linux": {"intelRdt": {"closID": "platinum"}}})
    assert host.call(pod).code == code
    found = recent_refusals(str(host.state))
    assert len(found) == read(host.context().ledger).stage("createRuntime").failures.get("refused", 0) == bool(code)
    for one in found:
        assert one.items() >= NAMES.items()
        assert "RDT class 'platinum' does not exist" in one["why"]


@pytest.mark.parametrize(
    "failures, error, refused, reasons",
    [
        ([], DeadlineError("late"), False, ["deadline"]),
        (["memory"], DeadlineError("late"), False, ["memory", "deadline"]),
        (["deadline"], DeadlineError("late"), True, ["deadline", "refused"]),
        (["memory"], RefusedError("no"), True, ["memory", "refused"]),
        ([], RefusedError("no"), True, ["refused"]),
    ],
)
def test_failed_call_counts_each_reason_once(
    failures: list[str], error: DeadlineError | RefusedError, reasons: list[str], *, refused: bool
) -> None:
    assert reasons_of(failures, error, refused=refused) == reasons


def test_refusal_before_state_directory_exists_is_recorded(host: Host, pod: dict[str, Any]) -> None:
    host.configure(failurePolicy="fail")
    pod["annotations"]["io.kubernetes.pod.uid"] = "../../../etc"
    assert not host.state.exists()
    assert host.call(pod).code == 79
    assert [one["id"] for one in recent_refusals(str(host.state))] == [ID]
    assert host.state.stat().st_mode & 0o777 == 0o700


@BOTH_POLICIES
def test_refusal_by_internal_error_is_recorded(
    host: Host, pod: dict[str, Any], fail: Fail, policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy)
    fail("resctrl_hooks.core.node.hook.create_runtime", "create_runtime", ZeroDivisionError("a bug"))
    assert host.call(pod).code == code
    found = recent_refusals(str(host.state))
    assert [one["key"] for one in found] == ([UID] if code else [])
    assert all("internal error in resctrl-hook: ZeroDivisionError: a bug" in one["why"] for one in found)
    assert read(host.context().ledger).stage("createRuntime").failures.get("refused", 0) == len(found)


def test_poststop_with_internal_error_refuses_nothing(host: Host, fail: Fail) -> None:
    host.configure(failurePolicy="fail")
    fail(call, "parse_state", ZeroDivisionError("a bug"))
    assert host.call(state(status="stopped", pid=0)).code == 0
    assert recent_refusals(str(host.state)) == []


def test_refusal_with_known_id_only_is_recorded(host: Host) -> None:
    host.configure(failurePolicy="fail")
    assert host.call(state(bundle="/nonexistent")).code == 79
    (found,) = recent_refusals(str(host.state))
    assert (found["id"], found.get("pod")) == (ID, None)


def test_refusal_of_container_without_names_has_empty_names(host: Host) -> None:
    host.configure(failurePolicy="fail")
    host.process(100, "/podman")
    assert host.call(state(bundle=host.bundle({"linux": {"intelRdt": {"closID": "platinum"}}}))).code == 79
    (found,) = recent_refusals(str(host.state))
    assert (found["key"], found["namespace"], found["pod"], found["container"]) == (ID, "", "", "")


def test_number_of_refusals_is_limited(tmp_path: Path) -> None:
    for number in range(1000):
        record_refusal(str(tmp_path), NAMES | {"id": str(number)}, "x" * 10_000)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2 * refusals._LARGEST
    found = recent_refusals(str(tmp_path))
    assert [int(one["id"]) for one in found] == list(range(1000 - len(found), 1000))
    assert len(found) > 20
    assert {path.name for path in tmp_path.iterdir()} == {FILE, OLD}


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"7", b'{"time": "x"}', b"\xff\n\0", b"[" * 5000])
def test_invalid_line_is_skipped(tmp_path: Path, line: bytes) -> None:
    good = json.dumps({"time": 5, "why": "x"}).encode()
    (tmp_path / FILE).write_bytes(line + b"\n" + good + b"\n" + line)
    assert [one["time"] for one in recent_refusals(str(tmp_path))] == [5]


def test_unwritable_folder_is_not_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    record_refusal(str(tmp_path / "file" / "nothing"), NAMES, "why")
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    record_refusal(str(tmp_path), NAMES, "why")
    assert not (tmp_path / "elsewhere").exists()
    assert recent_refusals(str(tmp_path)) == []


def test_file_is_rotated_before_32_kib(tmp_path: Path) -> None:
    record_refusal(str(tmp_path), NAMES, "why")
    size = (tmp_path / FILE).stat().st_size
    (tmp_path / FILE).write_bytes(b"\n" * ((32 << 10) - size))
    record_refusal(str(tmp_path), NAMES, "why")
    assert (tmp_path / FILE).stat().st_size == 32 << 10, "it just fits"
    assert not (tmp_path / OLD).exists()
    record_refusal(str(tmp_path), NAMES, "why")
    assert (tmp_path / OLD).stat().st_size == 32 << 10
    assert (tmp_path / FILE).stat().st_size == size


@pytest.mark.usefixtures("open_umask")
def test_refusals_are_private_to_root_and_no_file_stays_open(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(200):  # the file is turned over meanwhile
        record_refusal(str(tmp_path / "state"), NAMES, "x" * 500)
    assert os.listdir("/proc/self/fd") == before
    assert {path.name for path in (tmp_path / "state").iterdir()} == {FILE, OLD}
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "state").iterdir()} == {0o600}


def test_long_reason_is_truncated(tmp_path: Path) -> None:
    record_refusal(str(tmp_path), NAMES, "x" * 501)
    assert [len(one["why"]) for one in recent_refusals(str(tmp_path))] == [500]


def test_file_above_1_mib_is_ignored(tmp_path: Path) -> None:
    record_refusal(str(tmp_path), NAMES, "why")
    line = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(line.ljust(1 << 20))
    assert len(recent_refusals(str(tmp_path))) == 1
    (tmp_path / FILE).write_bytes(line.ljust((1 << 20) + 1))
    assert recent_refusals(str(tmp_path)) == []


def test_refusal_is_shown_without_escape_sequences(tmp_path: Path) -> None:
    record_refusal(str(tmp_path), {"pod": "\x1b[2Jgone", "namespace": "\ud800"}, "no\tway")
    (found,) = recent_refusals(str(tmp_path))
    assert (found["pod"], found["namespace"], found["why"]) == ("?[2Jgone", "?", "no?way")
