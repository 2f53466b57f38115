"""Unfinished files of killed writers are old by the clock, whichever way it was set since."""

import os
import time
from pathlib import Path

import pytest

from resctrl_hooks.node.host.unfinished import remove_unfinished


@pytest.mark.parametrize("age, removed", [(0, 0), (30, 0), (90, 1), (-90, 1), (-86400 * 40, 1)])
def test_unfinished_file_of_an_ended_writer_is_removed_once_it_is_old_or_of_a_later_clock(
    tmp_path: Path, age: float, removed: int
) -> None:
    file = tmp_path / "counters~4194304"
    file.write_text("")
    os.utime(file, (time.time() - age,) * 2)
    assert remove_unfinished(str(tmp_path), "/proc") == removed
