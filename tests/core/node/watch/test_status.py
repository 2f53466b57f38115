import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hosts.faults import failing

from resctrl_hooks.core.node.watch.status import EVENTS, NAME, OFTEN, Status, read_status


def test_status_is_read_as_it_was_written_and_written_only_after_a_change(tmp_path: Path) -> None:
    assert read_status(str(tmp_path)) is None
    status = Status(str(tmp_path))
    status.become(EVENTS, "because")
    assert read_status(str(tmp_path)) == status.values
    assert (status.values["mode"], status.values["why"]) == (EVENTS, "because")
    (tmp_path / NAME).unlink()
    status.write()
    assert read_status(str(tmp_path)) is None
    status.values["events"] += 1
    status.write()
    assert read_status(str(tmp_path)) == status.values


def check_each_field(path: Path, good: dict[str, Any], read: Callable[[str], object]) -> None:
    """Check that a reader of a status file ignores it if a field has a value of another type or size."""
    path.write_text(json.dumps(good))
    assert read(str(path.parent)) == good
    for field in good:
        wrong = [
            value
            for value in (None, True, -1, 1 << 70, "x", "\ud800", [], [None], {"a": 1})
            if not fits(good, field, value)
        ]
        assert len(wrong) >= 5
        for value in wrong:
            path.write_text(json.dumps({**good, field: value}))
            assert read(str(path.parent)) is None, (field, value)


def fits(good: dict[str, Any], field: str, value: Any) -> bool:
    """Return whether a value is of the type of a good one, and can be."""
    sound = value not in ("\ud800", {"a": 1}, 1 << 70, -1)
    number = type(good[field]) is float and type(value) is int and value == -1
    return number or (type(value) is type(good[field]) and sound)


def test_figures_are_written_only_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    status = Status(str(tmp_path))
    status.write()
    written = []
    for later in (1004.0, 1005.0, 1005.5):
        now = later
        status.values["events"] += 1
        status.write_sometimes(OFTEN)
        written.append((read_status(str(tmp_path)) or {})["events"])
    assert written == [0, 0, 3]


NO_WRITES = pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT, errno.EACCES])


@NO_WRITES
def test_status_that_cannot_be_written_is_logged_once_and_so_is_its_end(tmp_path: Path, number: int) -> None:
    lines = Lines()
    status = Status(str(tmp_path), lines.log)

    def write() -> None:
        status.values["events"] += 1
        status.write()

    check_messages(lines, tmp_path / NAME, write, number)


class Lines(list[str]):
    """The messages of a log."""

    def log(self, priority: int, message: str, **_fields: str | int) -> None:
        self.append(message)


def check_messages(lines: Lines, path: Path, write: Callable[[], None], number: int) -> None:
    """Check that one message is about a status file that cannot be written, and one about its end."""
    name = path.stem
    error = OSError(number, os.strerror(number), f"/run/{path.name}")
    with failing("resctrl_hooks.core.node.retried", "write_file", error):
        for _ in range(5):
            write()
    (line,) = lines
    assert line == f"{name}: {path} is not current: /run/{path.name}: {os.strerror(number)}"
    for _ in range(2):
        write()
    assert lines[1:] == [f"{name}: {path} is current again"]
    assert path.exists()
