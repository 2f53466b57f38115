"""Arguments of the library: a wrong type is a TypeError, an invalid value a documented error, and nothing is left."""

import enum
import errno
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import Host

from resctrl_hooks import Filesystem, Monitor
from resctrl_hooks.errors import BadClassError, BadKeyError, BadPidError, HookError, NotTrackedError

WRONG = (None, 5, b"k", ["k"], 1.5, True, {"k": 1}, ...)
NAN = float("nan")


def monitor(host: Host, **options: Any) -> Monitor:
    return Monitor(host.resctrl, **({"state_dir": host.state, "proc": host.proc} | options))


def methods(on: Monitor) -> dict[str, Callable[..., object]]:
    """Return each public method that takes a key, as a function of a key and another argument."""
    return {
        "canonical_key": lambda key, _: on.canonical_key(key),
        "hold": lambda key, _: on.hold(key).unlock(),
        "ensure_group": on.ensure_group,
        "assign_pid": on.assign_pid,
        "remove": lambda key, _: on.remove(key),
        "add_member": on.add_member,
        "remove_member": on.remove_member,
        "member_is_dead": on.member_is_dead,
        "member_count": lambda key, _: on.member_count(key),
        "members": lambda key, _: on.members(key),
        "read": lambda key, _: on.read(key),
        "totals": lambda key, _: on.totals(key),
        "reconcile": lambda key, _: on.reconcile([key]),
    }


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_key_of_another_type_is_a_type_error_everywhere(host: Host, value: object) -> None:
    for name, method in methods(monitor(host)).items():
        with pytest.raises(TypeError, match="key must be a str"):
            method(value, "m")
        assert host.records() == [], name


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_member_class_and_path_of_another_type_are_type_errors(host: Host, value: Any) -> None:
    on = monitor(host)
    on.ensure_group("k")
    before = host.records(), host.groups()
    uses: list[Callable[[], object]] = [
        lambda: on.ensure_group("k", value),
        lambda: on.add_member("k", value),
        lambda: on.remove_member("k", value),
        lambda: on.member_is_dead("k", value),
        lambda: on.start("k", ["true"], rdt_class=value),
        lambda: Monitor(value, state_dir=host.state),
        lambda: Monitor(host.resctrl, state_dir=value),
        lambda: Monitor(host.resctrl, state_dir=host.state, proc=value),
        lambda: Monitor(host.resctrl, state_dir=host.state, group_prefix=value),
    ]
    for use in uses:
        with pytest.raises(TypeError, match="must be a str, not"):
            use()
    assert (host.records(), host.groups()) == before


@pytest.mark.parametrize("value", [True, 1.0, "7", None, b"7", [7]], ids=repr)
def test_pid_that_is_no_integer_is_a_type_error(host: Host, value: Any) -> None:
    on = monitor(host)
    on.ensure_group("k")
    with on.hold("k") as held, pytest.raises(TypeError, match="pid must be an int"):
        held.assign_pid(value)
    with on.hold("k") as held, pytest.raises(TypeError, match="pid must be an int"):
        held.add_member("m", pid=value)
    for use in (lambda: on.assign_pid("k", value), lambda: on.add_member("k", "m", value)):
        with pytest.raises(TypeError, match="pid must be an int"):
            use()
    assert on.members("k") == []


@pytest.mark.parametrize("value", [-1, 1 << 22 | 1, 1 << 64, 10**5000], ids=int.bit_length)
def test_pid_out_of_range_is_a_bad_pid(host: Host, value: int) -> None:
    on = monitor(host)
    on.ensure_group("k")
    for use in (lambda: on.assign_pid("k", value), lambda: on.add_member("k", "m", value)):
        with pytest.raises(BadPidError, match="it is"):
            use()
    assert on.members("k") == []


@pytest.mark.parametrize(
    "name", ["..", ".", "info", "mon_groups", "mon_data", "x" * 256, "a/b", "gold\n", "\0", "\ud800"]
)
def test_invalid_class_is_a_bad_class_everywhere(host: Host, name: str) -> None:
    on = monitor(host)
    on.ensure_group("k")
    for use in (on.ensure_group, lambda key, value: on.start(key, ["true"], rdt_class=value)):
        with pytest.raises(BadClassError, match="invalid RDT class name"):
            use("k", name)
    with on.hold("k") as held:
        for act in (held.ensure_group, held.group, held.remove_unused, lambda value: held.release_but({value})):
            with pytest.raises(BadClassError):
                act(name)
    assert [group.rdt_class for group in on.list()] == [""]


def test_group_name_that_the_kernel_reserves_or_finds_too_long_is_a_bad_key(host: Host) -> None:
    with pytest.raises(BadKeyError, match="the kernel reserves this name"):
        monitor(host).ensure_group("mon_groups")
    with pytest.raises(BadKeyError, match="the kernel reserves this name"):
        monitor(host, group_prefix="mon_").ensure_group("groups")
    long = monitor(host, group_prefix="p" * 200)
    with pytest.raises(BadKeyError, match="the kernel accepts 255 bytes"):
        long.ensure_group("k" * 56)
    with long.hold("k" * 56) as held, pytest.raises(BadKeyError, match="255"):
        held.ensure_group()
    assert long.ensure_group("k" * 55).path.endswith("p" + "k" * 55)
    assert len(host.records()) == 1


class Text(str, enum.Enum):  # noqa: UP042  # whose f-string is not its value, unlike StrEnum's
    """A text whose format is not its value."""

    KEY = "job-17"


def test_text_of_a_subclass_is_taken_as_its_value(host: Host) -> None:
    on = monitor(host)
    assert type(on.ensure_group(Text.KEY).key) is str
    assert host.groups() == ["mon_groups/job-17"]


def test_canonicalizer_that_changes_a_canonical_key_is_refused(host: Host) -> None:
    on = monitor(host, key_canonicalizer=lambda key: f"{key}x")
    with pytest.raises(BadKeyError, match="the key_canonicalizer changes a canonical key"):
        on.ensure_group("k")


@pytest.mark.parametrize(
    "details, error",
    [
        ({"x": NAN}, ValueError),
        ({"x": {1, 2}}, TypeError),
        ({"x": b"y"}, TypeError),
        ({1: 2}, TypeError),
        (["x"], TypeError),
        ({"boot": "another"}, ValueError),
        ({"steps": 5}, ValueError),
        ({"x": 10**40}, ValueError),
    ],
    ids=repr,
)
def test_details_that_cannot_be_read_again_are_refused(host: Host, details: Any, error: type[Exception]) -> None:
    on = monitor(host)
    on.ensure_group("k")
    before = host.records()
    with on.hold("k") as held:
        with pytest.raises(error, match="details"):
            held.add_member("m", details)
        endless: dict[str, object] = {}
        endless["x"] = endless
        with pytest.raises(ValueError, match="nested too deeply"):
            held.add_member("m", endless)
        with pytest.raises(HookError, match="too large"):
            held.add_member("m", {"x": "y" * (1 << 20)})
        assert host.records() == before
        held.add_member("m", {"note": [1, {"a": None}]})
        assert (held.member("m") or {})["note"] == [1, {"a": None}]  # type: ignore[typeddict-item]


def test_held_key_takes_the_names_that_its_monitor_takes(host: Host) -> None:
    on = monitor(host)
    on.ensure_group("k")
    with on.hold("k") as held:
        for name in ("../../evil", "a/b", "", ".", "~x", "x\n", "é"):
            for use in (held.add_member, held.remove_member, held.member, held.member_is_dead):
                with pytest.raises(BadKeyError, match="invalid name of a member"):
                    use(name)
        assert held.members() == []
        with pytest.raises(NotTrackedError, match="no group for key k in gold"):
            held.group("gold")
        with pytest.raises(NotTrackedError, match="no member m of key k"):
            held.member_is_dead("m")
    with on.hold("other") as held, pytest.raises(NotTrackedError):
        held.add_member("m")
    assert [name for name in host.records() if "evil" in name or "c-" in name] == []


@pytest.mark.parametrize("value", [True, "1", None], ids=repr)
def test_patience_that_is_no_number_is_a_type_error(host: Host, value: Any) -> None:
    with pytest.raises(TypeError, match="patience"):
        monitor(host, patience=value)


@pytest.mark.parametrize("value", [-1, NAN, float("inf"), 10**400])
def test_patience_out_of_range_is_a_value_error(host: Host, value: float) -> None:
    with pytest.raises(ValueError, match="patience"):
        monitor(host, patience=value)
    with pytest.raises(ValueError, match="patience"):
        monitor(host).hold("k", value)


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800"])
def test_path_that_no_file_can_have_is_a_value_error(host: Host, path: str) -> None:
    for name in ("resctrl_root", "state_dir", "proc"):
        paths: Any = {"resctrl_root": host.resctrl, "state_dir": host.state, "proc": "/proc"} | {name: path}
        with pytest.raises(ValueError, match=name):
            Monitor(**paths)


def test_relative_paths_are_those_of_the_folder_at_construction(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(host.root)
    on = Monitor("resctrl/", state_dir=Path("run/state"), proc="proc")
    group = on.ensure_group("k")
    monkeypatch.chdir("/")
    assert group.path == f"{host.resctrl}/mon_groups/k"
    assert (on.list(), on.remove("k"), host.groups()) == ([group], [group], [])
    assert repr(on) == f"Monitor({str(host.resctrl)!r}, state_dir={str(host.state)!r})"


class Refusing(Filesystem):
    """A kernel that lists nothing."""

    def listdir(self, path: str) -> list[str]:
        raise OSError(errno.EMFILE, "Too many open files", path)


def test_refusal_of_the_kernel_is_never_a_raw_error(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    on = monitor(host, fs=Refusing())
    with pytest.raises(HookError, match=r"cannot read .*mon_groups \(EMFILE\)"):
        on.resctrl.groups("")
    with pytest.raises(HookError, match="EMFILE"):
        on.read_all()

    def failing(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error", "/proc/7/stat")

    monkeypatch.setattr("resctrl_hooks.core.node.resctrl.locked_key.start_time", failing)
    on = monitor(host)
    on.ensure_group("k")
    with pytest.raises(HookError, match="/proc/7/stat: Input/output error"):
        on.add_member("k", "m", 7)


def test_hint_is_what_a_program_can_do(host: Host) -> None:
    class Full(Filesystem):
        number = errno.EBUSY

        def mkdir(self, path: str) -> None:
            raise OSError(self.number, os.strerror(self.number), path)

    kernel = Full()
    on = monitor(host, fs=kernel, patience=0.01)
    with pytest.raises(HookError, match="in limbo; call again in a second"):
        on.ensure_group("k")
    kernel.number = errno.ENOSPC
    with pytest.raises(HookError, match="remove the group of a key that has ended"):
        on.ensure_group("k")
    with ThreadPoolExecutor(1) as another_thread:
        held = another_thread.submit(monitor(host).hold, "k").result()
        with pytest.raises(HookError, match="call again with more `patience`"):
            on.ensure_group("k")
        another_thread.submit(held.unlock)


def test_logger_receives_events_with_their_fields(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    on = monitor(host, log=logging.getLogger("jobs"))
    on.ensure_group("k")
    on.remove("k")
    created, removed = caplog.records
    assert (created.levelno, created.name, vars(created)["resctrl_key"]) == (logging.DEBUG, "jobs", "k")
    assert (removed.levelno, removed.getMessage()) == (logging.INFO, f"removed group {host.resctrl}/mon_groups/k")
    for wrong in (5, None, "log"):
        with pytest.raises(TypeError, match="log must be a callable"):
            monitor(host, log=wrong)
