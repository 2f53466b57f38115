from pathlib import Path

import pytest

from resctrl_hooks.node.watch.status import EVENTS, NAME, Status, read_status


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
