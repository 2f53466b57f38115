"""The history's writer killed at each of its system calls with effects and at random moments, and on a full disk."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hosts.past import T0

from resctrl_hooks.observe.node.history.store import Store
from resctrl_hooks.observe.node.history.tables import number

WRITER = Path(__file__).parents[3] / "hosts" / "history_writer.py"
EFFECTS = ("pwrite64", "fdatasync", "fsync", "ftruncate", "unlink", "fchmod", "fallocate")
SOME = pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.ci)])


def command(path: Path, count: int) -> list[str]:
    return [sys.executable, "-I", "-B", str(WRITER), str(path), str(count)]


def written(lines: list[str]) -> list[int]:
    """Return the numbers of the samples that the writer reported as written."""
    return [int(line) for line in lines if line.strip().isdigit()]


def check(path: Path, known: list[int]) -> None:
    """Check that the file is whole, and has every reported sample, of which old ones are in a minute."""
    store = Store(str(path), write=True)
    try:
        assert number(store._file, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'") == 0
        assert number(store._file, "SELECT count(*) FROM sample WHERE layout NOT IN (SELECT id FROM layout)") == 0
        found = [*store.between(0, 1 << 60)]
        fine = [(one.time - T0) // 10_000 for one in found if not one.span]
        assert fine == [*range(fine[0], fine[-1] + 1)] if fine else not known
        if known:
            assert fine[-1] - known[-1] in (0, 1), "at most the sample that was being written is unreported"
            assert (found[0].time - T0) // 10_000 <= 5, "the first minute is there"
        ends = [(one.time - T0) // 10_000 for one in found if one.span]
        assert ends == [*range(5, fine[0], 6)] if fine else not ends
    finally:
        store.close()


@SOME
def test_writer_killed_at_each_effect_loses_at_most_one_sample(tmp_path: Path, kills: int) -> None:
    trace = tmp_path / "trace"
    counting = ["strace", "-o", str(trace), "-e", f"trace={','.join(EFFECTS)}"]
    subprocess.run([*counting, *command(tmp_path / "whole.sqlite", 22)], check=True, capture_output=True)
    calls = re.findall(r"^(\w+)\(", trace.read_text(), re.MULTILINE)
    points = [(name, number) for name in EFFECTS for number in range(1, calls.count(name) + 1)]
    assert len(points) > 40
    chosen = random.Random(43).sample(points, min(len(points), kills))
    for name, nth in chosen:
        path = tmp_path / f"{name}-{nth}.sqlite"
        kill = ["strace", "-o", "/dev/null", "-e", f"trace={name}", f"--inject={name}:signal=KILL:when={nth}"]
        done = subprocess.run([*kill, *command(path, 22)], check=False, capture_output=True, text=True)
        known = written(done.stdout.splitlines())
        more = subprocess.run(command(path, 2), check=True, capture_output=True, text=True).stdout.splitlines()
        check(path, known + written(more))
    print(f"{len(chosen)} of {len(points)} kill points")


@SOME
def test_writer_killed_at_random_moments_loses_at_most_one_sample(tmp_path: Path, kills: int) -> None:
    path = tmp_path / "history.sqlite"
    chance = random.Random(43)
    last = -1
    for _ in range(kills):
        with subprocess.Popen(command(path, 1000), stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            first = int(process.stdout.readline().split()[1])
            assert first - last in (1, 2), "nothing that was reported is lost"
            lines = [process.stdout.readline() for _ in range(chance.randrange(6))]
            process.kill()
            lines += process.stdout.read().splitlines()
        last = max(written(lines), default=first - 1)
    check(path, [last])


def test_full_disk_loses_samples_only_while_it_is_full(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    subprocess.run(command(path, 5), check=True, capture_output=True)
    full = ["strace", "-o", "/dev/null", "-e", "trace=pwrite64", "--inject=pwrite64:error=ENOSPC:when=20..32"]
    done = subprocess.run([*full, *command(path, 20)], check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert any(line.startswith("failed") and "full" in line for line in lines), lines
    numbers = written(lines)
    assert numbers[-1] == 24, "it continues when there is space again"
    store = Store(str(path), write=True)
    fine = [(one.time - T0) // 10_000 for one in store.between(0, 1 << 60) if not one.span]
    assert set(numbers[-10:]) <= set(fine)
    assert number(store._file, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'") == 0
