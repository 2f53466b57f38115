"""One instance per node."""

import os
from pathlib import Path

import pytest

from resctrl_hooks.core.node.host.instance import RunningError, only_instance


def test_second_instance_names_the_first(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("12345678901234567890")  # of an earlier, longer process id
    fd = only_instance(str(path))
    assert path.read_text() == str(os.getpid())
    with pytest.raises(RunningError, match=f"another instance is running, process {os.getpid()}") as caught:
        only_instance(str(path))
    assert caught.value.pid == os.getpid()
    open_before = len(os.listdir("/proc/self/fd"))
    path.write_text("")
    with pytest.raises(RunningError, match=r"another instance is running$") as caught:
        only_instance(str(path))
    assert caught.value.pid == 0
    assert len(os.listdir("/proc/self/fd")) == open_before
    os.close(fd)
    os.close(only_instance(str(path)))


def test_lock_file_is_created_for_root_only(tmp_path: Path) -> None:
    os.close(only_instance(str(tmp_path / "lock")))
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="link"):
        only_instance(str(tmp_path / "link"))
    assert not (tmp_path / "elsewhere").exists()
