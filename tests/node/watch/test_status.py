import os
import time
from pathlib import Path

import pytest

from resctrl_hooks.node.watch.status import EVENTS, NAME, OFF, Status, read_status


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
