"""resctrl by its interface on a plain tree: answers, moves of processes, and counter files that stay open."""

import contextlib
import errno
import os
import posix
import resource
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, always, examples
from hosts.counter_tree import say
from hosts.faults import Fail, failing
from hosts.shared_node import SharedNode
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node import errors
from resctrl_hooks.core.node.host.descriptors import Descriptors
from resctrl_hooks.core.node.resctrl.counter_files import read_group
from resctrl_hooks.core.node.resctrl.counters import slot_at
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem, Resctrl
from resctrl_hooks.core.node.resctrl.open_files import OpenFiles
from resctrl_hooks.core.node.resctrl.renaming import can_rename, rename

LOST = "the kernel takes thread ids and does nothing with them"
NAMED = (
    *(
        (errno.ENOSPC, errors.NoRMIDsError),
        (errno.EBUSY, errors.RMIDsBusyError),
        (errno.EINVAL, errors.ClassMismatchError),
    ),
    *((errno.EEXIST, errors.GroupExistsError), (errno.EROFS, errors.ReadOnlyError)),
    *((number, errors.NotPermittedError) for number in (errno.EACCES, errno.EPERM)),
    *((number, errors.ResctrlError) for number in (errno.EIO, errno.ENOENT)),
)


class Kernel(Filesystem):
    """A file system that acts before a write, which may lose it."""

    def __init__(self, before_write: Callable[[int], object]) -> None:
        self.before_write = before_write

    def write(self, path: str, value: bytes) -> None:
        if self.before_write(int(value)) is not LOST:
            super().write(path, value)


def refusing(call: str, number: int) -> Any:
    """Let one call of the file system fail; only a look at group k, of those at folders."""

    def concerns(_fs: Filesystem, path: str, *_: object) -> bool:
        return call != "is_folder" or path.endswith("/k")

    return failing(Filesystem, call, lambda _, path, *_more: OSError(number, os.strerror(number), path), when=concerns)


def on(host: Host, fs: Filesystem | None = None) -> Resctrl:
    return Resctrl(str(host.resctrl), fs, str(host.proc))


# The kernel's answers


@pytest.mark.parametrize("number, kind", NAMED)
def test_each_errno_has_its_type(host: Host, number: int, kind: type[errors.ResctrlError]) -> None:
    (host.resctrl / "info/last_cmd_status").write_text("its words\n")
    uses: dict[str, Callable[[Resctrl], object]] = {
        "mkdir": lambda resctrl: resctrl.create("", "k"),
        "rmdir": lambda resctrl: resctrl.remove("", "k"),
        "write": lambda resctrl: resctrl.add_tasks("", "k", [7]),
        "is_folder": lambda resctrl: resctrl.exists("", "k"),
    }
    for call, use in uses.items():
        with refusing(call, number):
            if (call, number) == ("rmdir", errno.ENOENT):
                assert use(on(host)) is False
                continue
            with pytest.raises(errors.ResctrlError) as caught:
                use(on(host))
        assert (type(caught.value), caught.value.errno, caught.value.kernel) == (kind, number, "its words")
        assert errno.errorcode[number] in str(caught.value)


def test_missing_mount_or_monitoring_is_reported(host: Host) -> None:
    other = Resctrl(str(host.root / "other"), proc=str(host.proc))
    with pytest.raises(errors.NotMountedError):
        other.classes()
    for error, words in ((errors.NotMountedError, "not mounted at"), (errors.NoMonitoringError, "has no monitoring")):
        with pytest.raises(error, match=words):
            other.create("", "k")
        assert (other.groups(""), other.tasks("", "k"), other.remove("", "k")) == ([], set(), False)
        (host.root / "other/info/L3").mkdir(parents=True, exist_ok=True)


@pytest.mark.parametrize("name", ["..", "a/b", "info", "mon_groups", "mon_data", "\n", "\0"])
def test_invalid_class_is_refused(host: Host, name: str) -> None:
    for use in (on(host).create, on(host).remove, on(host).exists, on(host).tasks):
        with pytest.raises(errors.BadClassError, match="invalid RDT class name"):
            use(name, "k")


@pytest.mark.houses("lab")
@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV, errno.EROFS])
@pytest.mark.parametrize("all_refused", [True, False])
def test_only_a_kernel_that_renames_nothing_is_remembered(
    tmp_path: Path, fail: Fail, number: int, all_refused: bool
) -> None:
    node = SharedNode(tmp_path, rmids=8)
    one, other = node.start(), node.start()
    refused = OSError(number, "Cannot move a MON group that monitors CPUs")
    fail(node.kernel, "rename", refused, when=lambda old, _: all_refused or old.endswith(one.key))
    of = node.context().monitor
    assert can_rename(of)
    if number == errno.EROFS:
        with pytest.raises(errors.ReadOnlyError):
            rename(of, "", one.key, "", "one")
        return
    assert not rename(of, "", one.key, "", "one")
    assert can_rename(of) is not all_refused
    if not all_refused:
        assert rename(of, "", other.key, "", "other")
        assert node.kernel.groups() == {("", one.key), ("", "other")}
    of.boot = "another boot"
    assert can_rename(of)


# Moves of processes


@pytest.fixture
def process(host: Host) -> Host:
    """Return a host with process 7 of three threads, and group k in the root class."""
    host.process(7, threads=(8, 9))
    on(host).create("", "k")
    return host


@pytest.mark.parametrize("last, least, most", [(9, 4, 4), (1000, 20, 60)], ids=["one thread", "endlessly"])
def test_threads_that_start_meanwhile_are_found_without_blocking(
    process: Host, last: int, least: int, most: int
) -> None:
    def breed(tid: int) -> None:
        if tid <= last:
            process.process(7, threads=tuple(range(8, tid + 4 if last > 9 else 11)))

    assert least <= on(process, Kernel(breed)).assign("", "k", 7) <= most


def test_ended_thread_is_skipped_and_an_ended_process_reported(process: Host) -> None:
    def end(tid: int) -> None:
        if tid == 8:
            (process.proc / "7/task/8").rmdir()
            raise OSError(errno.ESRCH, "No such process")

    assert on(process, Kernel(end)).assign("", "k", 7)
    assert process.tasks("mon_groups/k") == [7, 9]
    for number in (7, 77):
        with pytest.raises(errors.TaskGoneError, match=f"process {number} has ended"), refusing("write", errno.ESRCH):
            on(process).assign("", "k", number)


@pytest.mark.parametrize("where", ["res:/\nmon:other\n", "res:gold\nmon:k\n", "res:/\nmon:\n", None])
def test_threads_that_did_not_arrive_are_reported(process: Host, where: str | None) -> None:
    if where:
        (process.proc / "7/task/7/cpu_resctrl_groups").write_text(where)
    with pytest.raises(errors.NotArrivedError, match="of process 7 was moved"):
        on(process, Kernel(always(LOST))).assign("", "k", 7)


# Counter files that stay open: current values with any number of descriptors, and whatever becomes of groups


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
def test_any_sequence_stays_below_the_limit_and_reads_current_values(
    hard: int, reserve: int, moves: list[tuple[str, int]]
) -> None:
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


def test_groups_above_the_limit_are_read_without_staying_open_and_files_give_way_to_events(
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
