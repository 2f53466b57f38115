"""Counter files that stay open: current values with any number of descriptors, and files that return."""

import contextlib
import errno
import json
import os
import posix
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hosts.counter_tree import remake, say
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.host.descriptors import Descriptors
from resctrl_hooks.core.node.resctrl.counter_files import layout, read_group
from resctrl_hooks.core.node.resctrl.counters import Slot, slot_at
from resctrl_hooks.core.node.resctrl.open_files import OpenFiles

SLOTS = [slot_at(f"mon_L3_00/{name}") for name in ("llc_occupancy", "mbm_local_bytes", "mbm_total_bytes")]


def descriptors(below: Path) -> list[str]:
    """Return the counter files below a folder that this process has open."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [path for path in found if path.startswith(f"{below}/")]


def limit(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let the process have so many descriptors, as the budget sees it."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (number, number))


def three(tmp_path: Path, *names: str) -> None:
    for number, name in enumerate(names):
        say(tmp_path / name, llc_occupancy=number, mbm_local_bytes=number + 10, mbm_total_bytes=number + 20)


def values(files: OpenFiles, tmp_path: Path, *names: str) -> "list[list[Any]]":
    found = [files.read_group(f"{tmp_path}/{name}", SLOTS)[1] for name in names]
    files.forget_unseen()
    return found


def right(*names: str) -> "list[list[Any]]":
    return [[number, number + 10, number + 20] for number in range(len(names))]


def test_open_files_give_current_values(tmp_path: Path) -> None:
    group = tmp_path / "a"
    say(group, llc_occupancy=1, mbm_total_bytes=2)
    slots, files = layout(f"{group}/mon_data"), OpenFiles()
    assert files.read_group(str(group), slots) == read_group(str(group), slots)
    say(group, llc_occupancy="Unavailable", mbm_total_bytes=30)
    assert files.read_group(str(group), slots) == read_group(str(group), slots)
    group.rename(tmp_path / "b")
    assert files.read_group(str(tmp_path / "b"), slots) == read_group(str(tmp_path / "b"), slots)
    with pytest.raises(FileNotFoundError):
        files.read_group(str(group), slots)
    assert len(descriptors(tmp_path)) == 2
    files.close()
    assert not descriptors(tmp_path)


def test_open_files_of_recreated_group_are_its_own(tmp_path: Path) -> None:
    group = tmp_path / "a"
    say(group, mbm_total_bytes=1)
    slots, files = layout(f"{group}/mon_data"), OpenFiles()
    before = files.read_group(str(group), slots)
    files.forget_unseen()
    remake(group, tmp_path / "aside")
    say(group, mbm_total_bytes=7)
    after = files.read_group(str(group), slots)
    assert (after[1], after[0] != before[0]) == ([7], True)
    files.forget_unseen()
    assert descriptors(tmp_path) == [f"{group}/mon_data/mon_L3_00/mbm_total_bytes"]
    files.close()


def test_groups_above_the_limit_are_read_without_staying_open_and_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("a", "b", "c")
    lines: list[str] = []
    three(tmp_path, *names)
    limit(monkeypatch, 107)
    files = OpenFiles(Descriptors(reserve=100), lines.append)
    for _ in range(3):
        assert values(files, tmp_path, *names) == right(*names)
        assert (len(descriptors(tmp_path)), files.held) == (6, 6)
    assert len(lines) == 1
    assert "the counter files of 1 of 3 groups do not stay open" in lines[0]
    assert "all need 9 file descriptors" in lines[0]
    limit(monkeypatch, 109)
    assert values(files, tmp_path, *names) == right(*names)
    assert len(descriptors(tmp_path)) == 9
    files.close()


def test_files_give_way_to_events_and_come_back_at_the_next_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(tmp_path, "a", "b")
    limit(monkeypatch, 106)
    budget = Descriptors(reserve=100)
    files = OpenFiles(budget)
    values(files, tmp_path, "a", "b")
    assert not budget.take(7, first=True), "more than all files can free"
    assert files.held == 6
    assert budget.take(2, first=True)
    assert (files.held, budget.held) == (3, 5)
    assert values(files, tmp_path, "a", "b") == right("a", "b")
    budget.give(2)
    assert values(files, tmp_path, "a", "b") == right("a", "b")
    assert files.held == 6
    files.close()
    assert budget.held == 0


def test_file_that_returns_is_read_again(tmp_path: Path) -> None:
    three(tmp_path, "a")
    file = tmp_path / "a/mon_data/mon_L3_00/mbm_total_bytes"
    file.rename(tmp_path / "aside")
    files = OpenFiles()
    assert values(files, tmp_path, "a") == [[0, 10, None]]
    (tmp_path / "aside").rename(file)
    assert values(files, tmp_path, "a") == right("a")
    assert len(descriptors(tmp_path)) == 3
    files.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EACCES])
def test_refused_file_is_never_kept_as_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    three(tmp_path, "a")
    files, open_, refusals = OpenFiles(Descriptors()), posix.open, [number]

    def refuse(path: str, *arguments: Any, **more: Any) -> int:
        if path.endswith("mbm_total_bytes") and refusals:
            raise OSError(refusals.pop(), "refused")
        return open_(path, *arguments, **more)

    monkeypatch.setattr(posix, "open", refuse)
    assert values(files, tmp_path, "a") == right("a")
    assert not descriptors(tmp_path), "the part of a group that could be opened is closed again"
    assert values(files, tmp_path, "a") == right("a")
    assert len(descriptors(tmp_path)) == 3
    files.close()


CHILD = """
import contextlib, json, os, resource, sys
from resctrl_hooks.core.node.host.descriptors import of_process
from resctrl_hooks.core.node.resctrl.counters import slot_at
from resctrl_hooks.core.node.resctrl.open_files import OpenFiles

folder, (soft, hard, *others) = sys.argv[1], map(int, sys.argv[2:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
slots = [slot_at(f"mon_L3_{number:02}/{name}") for number in range(4) for name in ("llc_occupancy", "mbm_total_bytes")]
files, names = OpenFiles(), os.listdir(folder)

def read():
    wrong = [name for name in names if files.read_group(f"{folder}/{name}", slots)[1] != [int(name)] * 8]
    files.forget_unseen()
    return len(wrong)

result = {"wrong": [], "open": []}
for count in others:
    held = []
    with contextlib.suppress(OSError):  # there may be none left
        held += (os.open("/dev/null", os.O_RDONLY) for _ in range(count))
    result["wrong"].append(read())
    result["open"].append(files.held)
    for fd in held:
        os.close(fd)
result["limit"] = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
print(json.dumps(result))
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with 60 groups of 8 files; each file of a group says the group's number."""
    folder = tmp_path_factory.mktemp("groups")
    for number in range(60):
        for domain in range(4):
            counters = folder / f"{number}/mon_data/mon_L3_{domain:02}"
            counters.mkdir(parents=True)
            for name in ("llc_occupancy", "mbm_total_bytes"):
                (counters / name).write_text(f"{number}\n")
    return folder


def in_child(folder: Path, soft: int, hard: int, *others: int) -> dict[str, Any]:
    command = [sys.executable, "-c", CHILD, str(folder), *map(str, (soft, hard, *others))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_process_with_few_descriptors_reads_all_groups_and_keeps_what_fits(many: Path) -> None:
    found = in_child(many, 256, 256, 0, 0, 0)
    assert (found["wrong"], found["open"]) == ([0] * 3, [128] * 3)


@pytest.mark.parametrize("first", [0, 500])
@pytest.mark.parametrize("others", [150, 250, 340, 500])
def test_descriptors_beyond_the_reserve_cost_time_and_no_value(many: Path, others: int, first: int) -> None:
    found = in_child(many, 512, 512, first, others, others, 0)
    assert found["wrong"] == [0] * 4
    assert found["open"][3] == 384, "files come back"


def test_soft_limit_grows_with_the_need(many: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < 1024:
        pytest.skip("the hard limit is too low")
    found = in_child(many, 200, 1024, 0)
    assert (found["wrong"], found["open"], found["limit"]) == ([0], [480], 1024)


@given(
    hard=st.integers(0, 40),
    reserve=st.integers(0, 12),
    moves=st.lists(
        st.tuples(st.sampled_from(["take", "first", "give", "read", "refused", "aside"]), st.integers(0, 12))
    ),
)
def test_any_sequence_stays_below_the_limit_and_reads_all(
    tmp_path_factory: pytest.TempPathFactory, hard: int, reserve: int, moves: list[tuple[str, int]]
) -> None:
    tree = tmp_path_factory.getbasetemp() / "property"
    names = ("a", "b", "c", "d")
    if not tree.exists():
        three(tree, *names)
    with pytest.MonkeyPatch.context() as patch:
        limit(patch, hard)
        budget = Descriptors(reserve)
        files, taken, aside = OpenFiles(budget), [], 0
        try:
            for move, number in moves:
                if move in ("take", "first"):
                    if budget.take(number, first=move == "first"):
                        taken.append(number)
                elif move == "give" and taken:
                    budget.give(taken.pop())
                elif move == "refused":
                    budget.refused()
                elif move == "aside":
                    budget.set_aside(number - aside)
                    aside = number
                else:
                    assert values(files, tree, *names) == right(*names)
                assert budget.held == sum(taken) + files.held
                assert files.held == len(descriptors(tree))
                if files.held:
                    assert budget.held <= hard - reserve - aside
        finally:
            files.close()
        assert budget.held == sum(taken)


def test_slots_of_another_layout_begin_anew(tmp_path: Path) -> None:
    three(tmp_path, "a")
    files = OpenFiles()
    values(files, tmp_path, "a")
    fewer: list[Slot] = SLOTS[:1]
    assert files.read_group(f"{tmp_path}/a", fewer)[1] == [0]
    assert files.held == 1
    files.close()
