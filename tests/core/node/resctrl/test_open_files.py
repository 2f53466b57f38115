"""Counter files that stay open: current values with any number of descriptors, whatever becomes of groups."""

import contextlib
import errno
import os
import posix
import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from hosts.counter_tree import say
from hosts.faults import failing
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.host.descriptors import Descriptors
from resctrl_hooks.core.node.resctrl.counter_files import read_group
from resctrl_hooks.core.node.resctrl.counters import slot_at
from resctrl_hooks.core.node.resctrl.open_files import OpenFiles

SLOTS = [slot_at(f"mon_L3_00/{name}") for name in ("llc_occupancy", "mbm_local_bytes", "mbm_total_bytes")]
TOTAL = "mon_data/mon_L3_00/mbm_total_bytes"


def descriptors(below: Path) -> list[str]:
    """Return the counter files below a folder that this process has open."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [path for path in found if path.startswith(f"{below}/")]


def limit(patch: pytest.MonkeyPatch, number: int) -> list[tuple[int, int]]:
    """Let the process have so many descriptors, as the budget sees it, whose soft limit has to grow; return limits."""
    limits = [(number // 2, number)]
    patch.setattr(resource, "getrlimit", lambda _: limits[-1])
    patch.setattr(resource, "setrlimit", lambda _, given: limits.append(given))
    return limits


def write(folder: Path, names: str, first: int = 0) -> None:
    for number, name in enumerate(names, first):
        say(folder / name, llc_occupancy=number, mbm_local_bytes=number + 10, mbm_total_bytes=number + 20)


def check(files: OpenFiles, folder: Path, names: str, slots: Sequence[Any] = SLOTS) -> None:
    """Compare a read of all groups with one whose files do not stay open."""
    for name in names:
        assert files.read_group(f"{folder}/{name}", slots) == read_group(f"{folder}/{name}", slots)
    files.forget_unseen()
    assert files.held == len(descriptors(folder))


class World:
    """Four groups, files of them that stay open, and other users of the budget."""

    def __init__(self, tree: Path, reserve: int) -> None:
        self.tree = tree
        self.budget = Descriptors(reserve)
        self.files = OpenFiles(self.budget)
        self.taken: list[int] = []
        self.set = self.steps = 0
        write(tree, "abcd")

    def take(self, number: int, *, first: bool = False) -> None:
        if self.budget.take(number, first=first):
            self.taken.append(number)

    def first(self, number: int) -> None:
        self.take(number, first=True)

    def give(self, _: int) -> None:
        if self.taken:
            self.budget.give(self.taken.pop())

    def refused(self, _: int) -> None:
        self.budget.refused()

    def aside(self, number: int) -> None:
        self.budget.set_aside(number - self.set)
        self.set = number

    def count(self, number: int) -> None:
        write(self.tree, "abcd"[number % 4], number + self.steps)

    def swap(self, number: int) -> None:
        group, other, between = self.tree / "bcd"[number % 3], self.tree / "a", self.tree / "x"
        for old, new in ((group, between), (other, group), (between, other)):
            old.rename(new)

    def remake(self, number: int) -> None:
        (self.tree / "abcd"[number % 4]).rename(self.tree / f"gone{self.steps}")
        write(self.tree, "abcd"[number % 4], 100)

    def lose(self, number: int) -> None:
        (self.tree / "abcd"[number % 4] / TOTAL).unlink(missing_ok=True)
        self.files.close()  # a plain file that is gone can be read still

    def read(self, number: int) -> None:
        check(self.files, self.tree, "abcd", SLOTS[: 1 if number == 12 else 3])


MOVES = st.sampled_from(
    ["take", "first", "give", "read", "read", "refused", "aside", "count", "swap", "remake", "lose"]
)


@settings(max_examples=examples(60))
@given(st.integers(0, 40), st.integers(0, 12), st.lists(st.tuples(MOVES, st.integers(0, 12)), max_size=30))
def test_any_sequence_stays_below_the_limit_and_reads_current_values(hard: int, reserve: int, moves: Any) -> None:
    root = os.environ.get("PYTEST_DEBUG_TEMPROOT")
    with tempfile.TemporaryDirectory(dir=root) as name, pytest.MonkeyPatch.context() as patch:
        limits = limit(patch, hard)
        world = World(Path(os.path.realpath(name)), reserve)
        files, budget = world.files, world.budget
        for move, number in moves:
            world.steps += 1
            getattr(world, move)(number)
            assert budget.held == sum(world.taken) + files.held
            assert not files.held or budget.held <= limits[-1][0] - reserve - world.set
        files.close()
        assert budget.held == sum(world.taken)
        assert not descriptors(world.tree)


def test_files_stay_open_up_to_the_limit_and_give_way_to_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    write(tmp_path, "abc")
    limit(monkeypatch, 107)
    budget = Descriptors(reserve=100)
    files = OpenFiles(budget, lines.append)
    for _ in range(3):
        check(files, tmp_path, "abc")
        assert files.held == 6
    assert not budget.take(8, first=True), "more than all files can free"
    assert files.held == 6
    assert budget.take(3, first=True)
    assert (files.held, budget.held) == (3, 6)
    budget.give(3)
    (line,) = lines
    assert "the counter files of 1 of 3 groups do not stay open" in line
    assert "all need 9 file descriptors" in line
    limit(monkeypatch, 109)
    check(files, tmp_path, "abc")
    assert files.held == 9
    files.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EACCES])
def test_refused_file_is_never_kept_as_absent(tmp_path: Path, number: int) -> None:
    write(tmp_path, "a")
    files, first = OpenFiles(Descriptors()), iter([True])
    error = OSError(number, "refused")
    with failing(posix, "open", error, when=lambda path, *_, **__: path.endswith(TOTAL) and next(first, False)):
        assert files.read_group(f"{tmp_path}/a", SLOTS)[1] == [0, 10, 20]
    files.forget_unseen()
    assert not descriptors(tmp_path), "the part of a group that could be opened is closed again"
    check(files, tmp_path, "a")
    assert files.held == 3
    (tmp_path / "a" / TOTAL).rename(tmp_path / "aside")
    files.close()
    check(files, tmp_path, "a")
    (tmp_path / "aside").rename(tmp_path / "a" / TOTAL)
    check(files, tmp_path, "a")
    assert files.held == 3, "a file that returns is read again"
    files.close()
