"""Parts of the guest: built once, complete, and never removed while in use."""

import os
import subprocess
import sys
import threading
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


def test_two_parallel_builds_are_one_build(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, waiting, go, results = threading.Event(), threading.Event(), threading.Event(), list[str]()
    monkeypatch.setattr(cache, "say", lambda text: waiting.set() if "waiting for another build" in text else None)

    def slow(target: str) -> None:
        begun.set()
        assert go.wait(60)
        write_mark(target)

    def build(make: object) -> None:
        with cache.part("guest", "1", make) as made:  # type: ignore[arg-type]
            results.append(made)

    first = threading.Thread(target=build, args=(slow,))
    first.start()
    assert begun.wait(60)
    second = threading.Thread(target=build, args=(never,))
    second.start()
    assert waiting.wait(60)
    go.set()
    first.join(60)
    second.join(60)
    assert len(results) == 2
    assert len(set(results)) == 1


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


def test_stamp_follows_contents_and_settings(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("a")
    first = cache.stamp_of([str(source)], ["x"])
    assert cache.stamp_of([str(source)], ["x"]) == first
    assert cache.stamp_of([str(source)], ["y"]) != first
    source.write_text("b")
    assert cache.stamp_of([str(source)], ["x"]) != first


def test_only_the_last_runs_are_kept(folder: Path) -> None:
    for number in range(cache.KEEP_RUNS + 3):
        (folder / "runs" / f"2020-{number:02}").mkdir(parents=True)
    newest = cache.new_run()
    kept = sorted(os.listdir(folder / "runs"))
    assert len(kept) == cache.KEEP_RUNS
    assert kept[0] == "2020-04"
    assert os.path.basename(newest) in kept
