"""Parts of the guest: built once, complete, and never removed while in use."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import cache
import pytest

DIE = """
import cache, os
def die(target):
    open(target + '/half', 'w').close()
    os.kill(os.getpid(), 9)
with cache.part('guest', '1', die): pass
"""


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Return the names of the parts in the cache."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    return lambda: sorted(path.name for path in tmp_path.iterdir() if path.is_dir())


def write_mark(target: str) -> None:
    Path(target, "mark").write_text("made")


def broken(target: str) -> None:
    write_mark(target)
    raise cache.VmError("no network")


def test_part_is_made_once_per_stamp_and_a_failed_or_killed_build_leaves_nothing(
    parts: Callable[[], list[str]],
) -> None:
    with pytest.raises(cache.VmError, match="no network"), cache.part("guest", "1", broken):
        raise AssertionError
    assert parts() == []
    here = os.path.dirname(os.path.abspath(__file__))
    assert subprocess.run([sys.executable, "-c", DIE], cwd=here, check=False).returncode == -9
    assert len(parts()) == 1
    with cache.part("guest", "1", write_mark) as made:
        assert os.listdir(made) == ["mark"]
    with cache.part("guest", "1", broken) as again, cache.part("guest", "2", write_mark) as other:
        assert again == made != other
    assert parts() == ["guest-1", "guest-2"]


def test_unused_old_parts_are_removed(parts: Callable[[], list[str]]) -> None:
    with cache.part("guest", "used", write_mark) as used:
        os.utime(used, (1, 1))
        for number in range(cache.KEEP_PARTS + 1):
            with cache.part("guest", str(number), write_mark) as made:
                os.utime(made, (number + 2, number + 2))
        assert "guest-used" in parts()
    assert "guest-0" not in parts()
    assert f"guest-{cache.KEEP_PARTS}" in parts()
    with cache.part("guest", "last", write_mark):
        assert "guest-used" not in parts()
