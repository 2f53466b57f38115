import errno
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hosts.faults import failing

from resctrl_hooks.core.node.watch.status import EVENTS, NAME, OFF, Status, read_status
from resctrl_hooks.nri.node import status as nri_status
from resctrl_hooks.observe.node.guard.status import Status as GuardStatus
from resctrl_hooks.observe.node.slowdown.status import Status as SlowdownStatus


def test_status_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_status(str(tmp_path)) is None
    status = Status(str(tmp_path))
    status.become(EVENTS, "because")
    assert read_status(str(tmp_path)) == status.values
    assert (status.values["mode"], status.values["why"]) == (EVENTS, "because")


@pytest.mark.parametrize("text", ["", "[]", "7", "{"])
def test_damaged_status_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    assert read_status(str(tmp_path)) is None


def _nri(folder: str) -> dict[str, Any]:
    found = nri_status.Status(folder, "/run/nri.sock")
    found.connected("containerd", "2.0")
    found.served("StartContainer", 0.1, failed=False)
    found.dropped("end of file")
    return dict(found.values)


READERS = {NAME: read_status, nri_status.NAME: nri_status.read_status}


@pytest.mark.parametrize("name", READERS)
def test_status_with_a_wrong_field_is_none(tmp_path: Path, name: str) -> None:
    good = _nri(str(tmp_path)) if name == nri_status.NAME else dict(Status(str(tmp_path)).values)
    path = tmp_path / name
    path.write_text(json.dumps(good))
    assert READERS[name](str(tmp_path)) == good
    for field in good:
        wrong = [
            value
            for value in (None, True, -1, 1 << 70, "x", "\ud800", [], [None], {"a": 1})
            if not fits(good, field, value)
        ]
        assert len(wrong) >= 5
        for value in wrong:
            path.write_text(json.dumps({**good, field: value}))
            assert READERS[name](str(tmp_path)) is None, (field, value)


def fits(good: dict[str, Any], field: str, value: Any) -> bool:
    """Return whether a value is of the type of a good one, and can be."""
    sound = value not in ("\ud800", {"a": 1}, 1 << 70, -1)
    number = type(good[field]) is float and type(value) is int and value == -1
    return number or (type(value) is type(good[field]) and sound)


def test_unchanged_status_is_not_written_again(tmp_path: Path) -> None:
    status = Status(str(tmp_path))
    status.write()
    (tmp_path / NAME).unlink()
    status.write()
    assert read_status(str(tmp_path)) is None
    status.values["events"] += 1
    status.write()
    assert read_status(str(tmp_path)) == status.values


def test_new_status_counts_from_zero(tmp_path: Path) -> None:
    status = Status(str(tmp_path))
    status.write()
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    figures = {name: value for name, value in status.values.items() if name not in ("pid", "started", "mode", "why")}
    assert set(figures.values()) == {0}
    assert (status.values["pid"], status.values["mode"]) == (os.getpid(), OFF)


def test_figures_are_written_only_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    status = Status(str(tmp_path))
    status.write()
    written = []
    for later in (1004.0, 1005.0, 1005.5):
        now = later
        status.values["events"] += 1
        status.write_sometimes()
        written.append((read_status(str(tmp_path)) or {})["events"])
    assert written == [0, 0, 3]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT, errno.EACCES])
@pytest.mark.parametrize("name", ["exec", "nri", "guard", "slowdown"])
def test_status_that_cannot_be_written_is_said_once_and_so_is_its_end(tmp_path: Path, name: str, number: int) -> None:
    lines: list[str] = []

    def log(priority: int, message: str, **_fields: str | int) -> None:
        lines.append(message)

    folder = str(tmp_path)
    exec_status = Status(folder, log)
    guard, slowdown = GuardStatus(folder, 1, 1, "act", "%", log), SlowdownStatus(f"{folder}/slowdown.json", log)
    nri = nri_status.Status(folder, "/run/nri.sock", log)

    def write() -> None:
        exec_status.values["events"] += 1
        if name == "slowdown":
            slowdown.write({}, {})
        else:
            (exec_status if name == "exec" else nri if name == "nri" else guard).write()

    places = {"exec": "core.node.watch", "nri": "nri.node"}
    module = f"resctrl_hooks.{places.get(name, f'observe.node.{name}')}.status"
    with failing(module, "write_file", OSError(number, os.strerror(number), f"/run/{name}.json")):
        for _ in range(5):
            write()
    (line,) = lines
    assert line == f"{name}: {folder}/{name}.json is not current: /run/{name}.json: {os.strerror(number)}"
    for _ in range(2):
        write()
    assert lines[1:] == [f"{name}: {folder}/{name}.json is current again"]
    assert (tmp_path / f"{name}.json").exists()
