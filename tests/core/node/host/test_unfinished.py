"""Unfinished files of killed writers are old by the clock, whichever way it was set since."""

import os
import time
from pathlib import Path

import pytest

from resctrl_hooks.core.node.host.unfinished import remove_unfinished


@pytest.mark.parametrize("age, removed", [(0, 0), (30, 0), (90, 1), (-90, 1), (-86400 * 40, 1)])
def test_unfinished_file_of_an_ended_writer_is_removed_once_it_is_old_or_of_a_later_clock(
    tmp_path: Path, age: float, removed: int
) -> None:
    file = tmp_path / "counters~4194304"
    file.write_text("")
    os.utime(file, (time.time() - age,) * 2)
    assert remove_unfinished(str(tmp_path), "/proc") == removed


def test_foreign_folder_with_such_a_name_stays_and_keeps_no_file(tmp_path: Path) -> None:
    folder, file = tmp_path / "a~4194304", tmp_path / "b~4194304"
    folder.mkdir()
    file.write_text("")
    for one in (folder, file):
        os.utime(one, (time.time() - 90,) * 2)
    assert remove_unfinished(str(tmp_path), "/proc") == 1
    assert folder.is_dir()
