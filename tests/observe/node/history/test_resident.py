"""The history in the resident process: where it writes, what happened to its file before, kills and a full disk."""

import os
import posix
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import raising
from hosts.counter_tree import say
from hosts.faults import failing
from hosts.monitored import KEYS, MonitoredHost, plain_host
from hosts.past import T0
from hosts.processes import wait_until

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host.instance import RunningError, only_instance
from resctrl_hooks.core.node.log import Log
from resctrl_hooks.observe.node.history import ages, disk
from resctrl_hooks.observe.node.history.resident import start
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.history.store import Store
from resctrl_hooks.observe.node.history.tables import HistoryError, number
from resctrl_hooks.observe.node.history.writer import HistoryResident
from resctrl_hooks.observe.node.resident import Moment
from resctrl_hooks.observe.node.snapshot.snapshot import take


class Past:
    """A node with a history: a pod, and the part that writes its samples."""

    def __init__(self, host: MonitoredHost, file: Path) -> None:
        self.host = host
        self.file = file
        self.log = file.parent.parent / "log"
        host.context.settings.sections["history"] = {"enabled": True, "file": str(file)}
        host.context.log = Log({"target": "file", "file": str(self.log)})

    def part(self) -> HistoryResident:
        found = start(self.host.context)
        assert found is not None
        return found

    def hand(self, part: HistoryResident) -> None:
        part.sample(Moment(0.0, lambda: take(self.host.context)))

    def sample(self, part: HistoryResident) -> None:
        """Make a sample, and wait until the disk has it."""
        self.hand(part)
        wait_until(lambda: not part.disk.waiting or part.disk.failure is not None)

    def rows(self) -> list[list[Any]]:
        with closing(Store(str(self.file))) as store:
            return [[*one.rows] for one in store.between(0, 1 << 60)]

    @property
    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def past(tmp_path: Path) -> Iterator[Past]:
    with plain_host(tmp_path, "mon_groups/theirs", "info") as host:
        say(host.resctrl, llc_occupancy=900, mbm_total_bytes=10_000)
        say(host.resctrl / "mon_groups/theirs", llc_occupancy=100, mbm_total_bytes=2_000)
        host.group(0, "web-0", llc_occupancy=300, mbm_total_bytes=1_000)
        yield Past(host, tmp_path / "var/history.sqlite")


def test_history_is_off_by_default_and_needs_sqlite(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resctrl_hooks.observe.node.history.writer", None)
    with pytest.raises(HookError, match=r"the history needs SQLite: .*; install the whole standard library"):
        start(past.host.context)
    past.host.context.settings.sections["history"] = {}
    assert start(past.host.context) is None


def test_process_without_a_history_does_not_import_sqlite() -> None:
    modules = "resctrl_hooks.observe.node.history.resident, resctrl_hooks.observe.node.sampler.command"
    script = f"import sys, {modules}; print('sqlite3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_file_and_folder_are_roots_alone_also_after_the_folder_was_deleted(past: Past) -> None:
    before = os.umask(0)
    try:
        part = past.part()
        for _ in range(2):
            past.sample(part)
            assert past.file.parent.stat().st_mode & 0o777 == 0o700
            assert {one.stat().st_mode & 0o777 for one in past.file.parent.iterdir()} == {0o600}
            assert len(past.rows()) == 1
            shutil.rmtree(past.file.parent)
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", ["history.sqlite", "history.sqlite-wal", "history.sqlite-shm"])
def test_symbolic_link_and_a_folder_that_others_can_write_are_refused(past: Past, tmp_path: Path, name: str) -> None:
    target, link = tmp_path / "target", past.file.parent / name
    target.write_bytes(b"precious")
    past.file.parent.mkdir()
    link.symlink_to(target)
    with pytest.raises(OSError, match="not a regular file"):
        start(past.host.context)
    assert target.read_bytes() == b"precious"
    link.unlink()
    past.file.parent.chmod(0o777)
    with pytest.raises(OSError, match="writable by a user other than root"):
        start(past.host.context)


def change(path: Path, *queries: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        for query in queries:
            file.execute(query)


def damage_pages(path: Path) -> None:
    change(path, "UPDATE sample SET time = 1000", "PRAGMA wal_checkpoint(TRUNCATE)")
    path.write_bytes(path.read_bytes()[:1024] + b"\xff" * (path.stat().st_size - 1024))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "garbage": lambda path: path.write_bytes(b"garbage" * 1000),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "newer version": lambda path: change(path, "PRAGMA user_version = 9"),
    "damaged while it is written": damage_pages,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_unusable_file_is_set_aside_with_its_name_in_one_line_and_the_sample_is_kept(past: Past, damage: str) -> None:
    part, is_open = past.part(), damage == "damaged while it is written"
    for _ in range(3):
        past.sample(part)
    if not is_open:
        part.close()
    DAMAGE[damage](past.file)
    before = past.file.read_bytes()
    part = part if is_open else past.part()
    past.sample(part)
    assert len(past.rows()) == 1
    past.sample(part)
    (aside,) = past.file.parent.glob("history.sqlite.damaged-*Z")
    assert is_open or aside.read_bytes() == before
    (line,) = [line for line in past.lines if "set aside as" in line]
    assert str(aside) in line


def others_log(path: Path) -> None:
    """Write a database whose tables are only in its log, as another program's that runs."""
    beside = path.with_name("copied")
    with closing(sqlite3.connect(beside)) as file:
        file.executescript(f"PRAGMA journal_mode = WAL; {';'.join(THEIRS)}")
        for ending in ("", "-wal"):
            path.with_name(path.name + ending).write_bytes(beside.with_name(beside.name + ending).read_bytes())


THEIRS = ("CREATE TABLE theirs (x)", "INSERT INTO theirs VALUES (1)")
OTHERS = ("PRAGMA application_id = 9", "PRAGMA user_version = 1", "CREATE TABLE sample (id)")
FOREIGN: dict[str, Callable[[Path], object]] = {
    "database": lambda path: change(path, *THEIRS),
    "database in its log": others_log,
    "application": lambda path: change(path, *OTHERS),
    "text": lambda path: path.write_text("root:x:0:0\n" * 50),
    "short text": lambda path: path.write_text("x"),
    "key": lambda path: path.write_bytes(os.urandom(32)),
}


def contents(folder: Path, *without: str) -> dict[str, tuple[bytes, int, int]]:
    found = {one.name: (one.read_bytes(), one.stat().st_mode, one.stat().st_ino) for one in folder.iterdir()}
    return {name: one for name, one in found.items() if not name.endswith(without)}


@pytest.mark.parametrize("kind", FOREIGN)
def test_file_of_another_program_is_refused_and_unchanged(past: Past, kind: str) -> None:
    past.file.parent.mkdir(mode=0o755)
    FOREIGN[kind](past.file)
    past.file.chmod(0o644)
    own = ("-shm", ".lock")  # a log that must be read needs an index
    before = contents(past.file.parent, *own)
    for _ in range(2):
        with pytest.raises(HistoryError, match=r"is of another program; history\.file must name a file of its own"):
            start(past.host.context)
        assert contents(past.file.parent, *own) == before
    assert not past.lines


@pytest.mark.parametrize("kind", sorted(FOREIGN.keys() - {"database in its log"}))
def test_foreign_file_in_the_place_of_the_open_history_is_unchanged_and_said_once(past: Past, kind: str) -> None:
    part = past.part()
    past.sample(part)
    moved = past.file.rename(past.file.with_name("moved"))
    other = past.file.with_name("other")
    FOREIGN[kind](other)
    other.rename(past.file)
    before = past.file.read_bytes()
    past.sample(part)
    past.sample(part)
    if kind in ("text", "short text", "key"):  # the lock file tells that this place had a history
        assert len(past.rows()) == 2
        assert any(one.read_bytes() == before for one in past.file.parent.glob("history.sqlite.damaged-*Z"))
        return
    assert past.file.read_bytes() == before
    assert len([line for line in past.lines if "is of another program" in line]) == 1
    assert "is of another program" in part.unsaved["history"]
    past.file.unlink()
    moved.rename(past.file)
    past.sample(part)
    assert part.unsaved == {}
    assert len(past.rows()) >= 1


@pytest.mark.parametrize("gone", [["", "-wal", "-shm"], [""], ["-wal"], ["", "-shm"], ["-wal", "-shm"]])
def test_deleted_file_is_reported_once_and_later_samples_are_written(past: Past, gone: list[str]) -> None:
    part = past.part()
    past.sample(part)
    for ending in gone:
        past.file.with_name(past.file.name + ending).unlink()
    past.sample(part)
    past.sample(part)
    assert len([line for line in past.lines if "was deleted or replaced" in line]) == 1
    assert len(past.rows()) == (2 if "" in gone else 3)
    part.close()
    assert len(past.rows()) == (2 if "" in gone else 3)
    past.part().close()
    assert not [line for line in past.lines if "cannot" in line or "lost" in line]


@pytest.mark.parametrize("table", ["sample", "layout"])
def test_undecodable_samples_are_deleted_with_one_line(past: Past, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ages, "_STEP", 0)
    past.host.context.settings.sections["history"]["keep"] = {"samples": 0.0}
    part = past.part()
    for _ in range(3):
        past.sample(part)
    old = "UPDATE sample SET time = (time / 60000 - 2880) * 60000 + id WHERE id < 3"
    change(past.file, old, f"UPDATE {table} SET data = x'00' WHERE id = 1")
    past.sample(part)
    past.sample(part)
    deleted = 2 if table == "layout" else 1
    reason = f"samples deleted that cannot be decoded: {deleted}; the first: {past.file}: invalid sample at "
    (line,) = [line for line in past.lines if "history: " in line]
    assert reason in line
    assert not [*past.file.parent.glob("history.sqlite.damaged-*Z")]
    with sqlite3.connect(past.file) as file:
        ids = [id_ for (id_,) in file.execute("SELECT id FROM sample ORDER BY id")]
    assert ids == [2, 3, 4, 5][deleted - 1 :]


def test_unreadable_counters_and_an_error_of_the_disks_thread_are_the_parts_failure(past: Past) -> None:
    part = past.part()
    with pytest.raises(HookError):
        part.sample(Moment(0.0, raising(HookError("resctrl is not mounted"))))
    with failing(Store, "add", RuntimeError("unforeseen")):
        past.sample(part)
    with pytest.raises(RuntimeError, match="unforeseen"):
        past.hand(part)
    part.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        posix.fstat(part.disk._lock)
    past.part().close()


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A disk on which a write ends only when it is told to."""
    disk, add = SimpleNamespace(began=threading.Event(), goes_on=threading.Event()), Store.add

    def slow(store: Store, sample: Sample) -> None:
        disk.began.set()
        assert disk.goes_on.wait(60)
        add(store, sample)

    monkeypatch.setattr(Store, "add", slow)
    yield disk
    disk.goes_on.set()


def test_hanging_disk_delays_no_sample_and_the_loss_is_reported_once(past: Past, slow_disk: SimpleNamespace) -> None:
    part = past.part()
    for _ in range(3):
        past.hand(part)
    (past.host.resctrl / "mon_groups" / KEYS[0] / "mon_data/mon_L3_00/mbm_total_bytes").write_text("7000")
    for _ in range(2):
        past.hand(part)
    assert part.disk.waiting == 3
    (line,) = past.lines
    assert f"history: samples are lost: the disk of {past.file} has not taken the last 3" in line
    slow_disk.goes_on.set()
    wait_until(lambda: not part.disk.waiting)
    past.sample(part)
    assert len([line for line in past.lines if "samples are written again" in line]) == 1
    part.close()
    assert len(past.rows()) == 4
    event = next(row for row in past.rows()[-1] if row["kind"] == "pod")
    assert event["mbm_total_bytes"] == 7000, "of a moment without a sample"


def test_part_of_a_hanging_disk_ends_and_keeps_its_lock(
    past: Past, slow_disk: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_LONGEST_CLOSE", 0.05)
    part = past.part()
    past.hand(part)
    assert slow_disk.began.wait(60)
    part.close()
    assert f"history: the disk of {past.file} hangs; samples that may be lost: 1" in past.lines[-1]
    with pytest.raises(HistoryError, match="another instance is running"):
        past.part()
    slow_disk.goes_on.set()
    wait_until(lambda: not part.disk.waiting)
    assert len(past.rows()) == 1
    wait_until(lambda: is_free(past.file))
    past.part().close()


def is_free(path: Path) -> bool:
    try:
        posix.close(only_instance(f"{path}.lock"))
    except RunningError:
        return False
    return True


WRITER = Path(__file__).parents[3] / "hosts" / "history_writer.py"
EFFECTS = ("pwrite64", "fdatasync", "fsync", "ftruncate", "unlink", "fchmod", "fallocate")
SOME = pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.ci)])


def command(path: Path, count: int) -> list[str]:
    return [sys.executable, "-I", "-B", str(WRITER), str(path), str(count)]


def written(lines: list[str]) -> list[int]:
    """Return the numbers of the samples that the writer reported as written."""
    return [int(line) for line in lines if line.strip().isdigit()]


UNSOUND = "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"


def seconds_of(found: list[Sample], *, merged: bool = False) -> list[int]:
    """Return the numbers of samples, or those at the ends of minutes."""
    return [(one.time - T0) // 10_000 for one in found if bool(one.span) is merged]


def check(path: Path, known: list[int]) -> None:
    """Check that the file is whole, and has every reported sample, of which old ones are in a minute."""
    with closing(Store(str(path), write=True)) as store:
        assert number(store._file, UNSOUND) == 0
        assert number(store._file, "SELECT count(*) FROM sample WHERE layout NOT IN (SELECT id FROM layout)") == 0
        found = [*store.between(0, 1 << 60)]
    fine = seconds_of(found)
    assert fine == [*range(fine[0], fine[-1] + 1)] if fine else not known
    if known:
        assert fine[-1] - known[-1] in (0, 1), "at most the sample that was being written is unreported"
        assert (found[0].time - T0) // 10_000 <= 5, "the first minute is there"
    assert seconds_of(found, merged=True) == ([*range(5, fine[0], 6)] if fine else [])


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
    with closing(Store(str(path), write=True)) as store:
        assert {*numbers[-10:]} <= {*seconds_of([*store.between(0, 1 << 60)])}
        assert number(store._file, UNSOUND) == 0
