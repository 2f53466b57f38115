"""Parts of the guest: built once, complete, and never removed while in use."""

import os
import subprocess
import sys
from pathlib import Path

import cache
import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    return tmp_path


def write_mark(target: str) -> None:
    Path(target, "mark").write_text("made")


def never(target: str) -> None:
    raise AssertionError(target)


def parts(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def test_part_is_made_once_per_stamp(folder: Path) -> None:
    with cache.part("guest", "1", write_mark) as made:
        assert Path(made, "mark").read_text() == "made"
    with cache.part("guest", "1", never) as again:
        assert again == made
    with cache.part("guest", "2", write_mark) as other:
        assert other != made
    assert parts(folder) == ["guest-1", "guest-2"]


def test_failed_build_leaves_nothing(folder: Path) -> None:
    def fail(target: str) -> None:
        write_mark(target)
        raise cache.VmError("no network")

    with pytest.raises(cache.VmError, match="no network"), cache.part("guest", "1", fail):
        raise AssertionError
    assert parts(folder) == []


def test_killed_build_is_cleaned_up_by_next(folder: Path) -> None:
    program = (
        "import cache, os\n"
        "def die(target):\n"
        "    open(target + '/half', 'w').close()\n"
        "    os.kill(os.getpid(), 9)\n"
        "with cache.part('guest', '1', die): pass\n"
    )
    here = os.path.dirname(os.path.abspath(__file__))
    killed = subprocess.run([sys.executable, "-c", program], cwd=here, check=False)
    assert killed.returncode == -9
    assert len(parts(folder)) == 1
    with cache.part("guest", "1", write_mark) as made:
        assert os.listdir(made) == ["mark"]
    assert parts(folder) == ["guest-1"]


def test_unused_old_parts_are_removed(folder: Path) -> None:
    with cache.part("guest", "used", write_mark):
        os.utime(folder / "guest-used", (1, 1))
        for number in range(cache.KEEP_PARTS + 1):
            with cache.part("guest", str(number), write_mark) as made:
                os.utime(made, (number + 2, number + 2))
        assert "guest-used" in parts(folder)
    assert "guest-0" not in parts(folder)
    assert f"guest-{cache.KEEP_PARTS}" in parts(folder)
    with cache.part("guest", "last", write_mark):
        assert "guest-used" not in parts(folder)
