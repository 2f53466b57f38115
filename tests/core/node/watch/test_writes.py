"""What inotify reports of a folder's files, and how often."""

import errno
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from resctrl_hooks.core.node.watch.writes import Writes


@pytest.fixture
def writes(tmp_path: Path) -> Writes:
    found = Writes()
    found.watch([str(tmp_path)])
    return found


def test_limit_written_by_another_program_is_reported_once(writes: Writes, tmp_path: Path) -> None:
    assert not writes.happened()
    subprocess.run(["/bin/sh", "-c", f"echo 0 >{tmp_path}/memory.max"], check=True)
    assert writes.happened()
    assert not writes.happened()
    assert writes.take()


def test_reading_reports_nothing(writes: Writes, tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("0")
    writes.take()
    (tmp_path / "memory.max").read_text()
    assert not writes.happened()


def test_list_of_processes_is_no_limit(writes: Writes, tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").write_text("1")
    assert writes.happened()
    assert not writes.take()


def test_writes_until_take_make_the_descriptor_readable_once(writes: Writes, tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("0")
    assert writes.happened()
    for number in range(100):
        (tmp_path / f"memory.{number}").write_text("0")
    assert not writes.happened()
    assert writes.take()
    assert not writes.happened()
    (tmp_path / "cpu.max").write_text("0")
    assert writes.happened()


def test_lost_events_count_as_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = Writes()
    writes.watch([str(tmp_path)])
    (tmp_path / "cgroup.procs").write_text("0")
    lost = (-1).to_bytes(4, "little", signed=True) + (0x4000).to_bytes(4, "little") + bytes(8)  # IN_Q_OVERFLOW
    heads = iter([lost])
    monkeypatch.setattr("posix.read", lambda *of: next(heads, None) or os.read(*of))
    assert writes.happened()
    assert writes.take()


def test_removed_folder_is_watched_again_when_it_is_back(writes: Writes, tmp_path: Path) -> None:
    folder = tmp_path / "crio-1"
    folder.mkdir()
    writes.watch([str(folder)])
    folder.rmdir()
    writes.take()
    folder.mkdir()
    writes.watch([str(folder)])
    (folder / "memory.max").write_text("0")
    assert writes.take()


def test_missing_folder_is_left_out(writes: Writes, tmp_path: Path) -> None:
    writes.watch([str(tmp_path / "gone")])
    assert writes.works


def test_nothing_is_opened_before_a_folder_needs_it() -> None:
    before = len(os.listdir("/proc/self/fd"))
    writes = Writes()
    writes.watch([])
    assert len(os.listdir("/proc/self/fd")) == before + 1  # the descriptor for polls
    assert not writes.happened()


def test_lack_of_descriptors_is_not_fatal(tmp_path: Path) -> None:
    def refused() -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    writes = Writes(refused)
    writes.watch([str(tmp_path)])
    assert not writes.works
    assert not writes.happened()
