"""`Monitor.start`: a program runs in its group from its first instruction, and a failure leaves nothing."""

import contextlib
import errno
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from resctrl_hooks import Filesystem, Monitor
from resctrl_hooks.errors import BadClassError, ClassMismatchError, NoRMIDsError
from resctrl_hooks.lab.simulation import mounted

HOUSES = ("lab",)
pytestmark = pytest.mark.fuse
FORKS = ["sh", "-c", "sleep 60 & echo $!; wait"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with mounted(tmp_path_factory.mktemp("simulated") / "resctrl", rmids=8, limbo=0) as found:
        os.mkdir(f"{found}/gold")
        yield found


@pytest.fixture
def on(root: str, tmp_path: Path) -> Iterator[Monitor]:
    monitor = Monitor(root, state_dir=tmp_path / "state")
    yield monitor
    monitor.reconcile(live=[])
    nothing_is_left(monitor)


def nothing_is_left(on: Monitor) -> None:
    assert (groups(on), on.list(), on.ledger.keys(), on.ledger.containers()) == ([], [], [], [])
    assert on.resctrl.tasks("gold", "") == set()


def groups(on: Monitor) -> list[str]:
    return sorted(f"{name}/{one}" for name in ("", "gold") for one in on.resctrl.groups(name))


def end(*programs: "subprocess.Popen[Any]") -> None:
    for program in programs:
        program.kill()
        program.communicate()


def descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


def children() -> set[str]:
    found = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text(encoding="ascii")
    return set(found.split())


@pytest.mark.parametrize("rdt_class", ["", "gold"])
def test_program_and_its_children_are_in_the_group(on: Monitor, rdt_class: str) -> None:
    with on.start("job-17", FORKS, rdt_class=rdt_class, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        child = int(job.stdout.readline())
        assert on.resctrl.tasks(rdt_class, "job-17") == {job.pid, child}
        assert [(group.rdt_class, group.origin) for group in on.list()] == [(rdt_class, "created")]
        os.kill(child, 9)
        assert job.wait(10) is not None
    # A second program of the key joins it.
    job = on.start("job-17", ["sleep", "60"], rdt_class=rdt_class)
    assert on.resctrl.tasks(rdt_class, "job-17") == {job.pid}
    end(job)


@pytest.mark.parametrize("ends", [False, True])
def test_caller_returns_to_its_own_group_or_to_its_class_if_that_has_ended(on: Monitor, ends: bool) -> None:
    heard: list[str] = []
    on.log = lambda priority, message, **fields: heard.append(message)
    on.ensure_group("mine", "gold")
    tid = threading.get_native_id()
    for name in ("", "mine"):
        on.resctrl.add_tasks("gold", name, [tid])
    options: Any = {"preexec_fn": lambda: os.rmdir(f"{on.resctrl.root}/gold/mon_groups/mine")} if ends else {}
    try:
        for rdt_class in ("",) if ends else ("", "gold"):
            job = on.start("job-17", ["sleep", "60"], rdt_class=rdt_class, **options)
            assert on.resctrl.tasks(rdt_class, "job-17") == {job.pid}
            assert tid in on.resctrl.tasks("gold", "" if ends else "mine")
            assert any("cannot move a thread back" in line for line in heard) is ends
            end(job)
    finally:
        on.resctrl.add_tasks("", "", [tid])


def test_threads_start_programs_of_several_keys_at_once(on: Monitor) -> None:
    found: dict[str, subprocess.Popen[Any]] = {}
    begin = threading.Barrier(4)

    def work(key: str) -> None:
        begin.wait()
        found[key] = on.start(key, ["sleep", "60"])

    threads = [threading.Thread(target=work, args=(f"job-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for key, job in found.items():
        assert on.resctrl.tasks("", key) == {job.pid}
    end(*found.values())


def test_program_survives_the_end_of_the_call_with_a_parent_death_signal(on: Monitor) -> None:
    job = on.start("job-17", ["setpriv", "--pdeathsig", "KILL", "sleep", "60"])
    time.sleep(0.2)
    assert job.poll() is None
    end(job)


class Refusing(Filesystem):
    """A kernel that refuses writes to a group's tasks."""

    def write(self, path: str, value: bytes) -> None:
        if path.endswith("/job-17/tasks"):
            raise OSError(errno.EINVAL, "Invalid argument", path)
        super().write(path, value)


def failing_hook() -> None:
    raise OSError(errno.EIO, "Input/output error")


FAILURES: list[tuple[Any, dict[str, Any], type[Exception]]] = [
    (["/no/such/program"], {}, FileNotFoundError),
    (["/etc/passwd"], {}, PermissionError),
    (["true"], {"cwd": "/no/such/folder"}, FileNotFoundError),
    (["true"], {"colour": "red"}, TypeError),
    ([], {}, ValueError),
    (["a\0b"], {}, ValueError),
    (5, {}, TypeError),
    (["true"], {"rdt_class": "silver"}, BadClassError),
    (["refused"], {}, ClassMismatchError),
    (["true"], {"preexec_fn": failing_hook}, subprocess.SubprocessError),
]


@pytest.mark.parametrize("argv, options, error", FAILURES)
@pytest.mark.parametrize("before", ["untracked", "tracked", "in another class", "member", "shared"])
def test_failure_leaves_no_process_descriptor_group_or_record(
    on: Monitor, argv: Any, options: dict[str, Any], error: type[Exception], before: str
) -> None:
    if before == "shared":
        os.mkdir(f"{on.resctrl.root}/mon_groups/job-17")
    elif before == "in another class":
        on.ensure_group("job-17", "gold")
    elif before != "untracked":
        on.ensure_group("job-17")
        if before == "member":
            on.add_member("job-17", "step-1")
    state = groups(on), on.list(), on.members("job-17"), descriptors(), children(), on.ledger.keys()
    on.resctrl.fs = Refusing() if argv == ["refused"] else on.resctrl.fs
    with pytest.raises(error):
        on.start("job-17", argv, **options)
    assert (groups(on), on.list(), on.members("job-17"), descriptors(), children(), on.ledger.keys()) == state
    assert all(on.resctrl.tasks(*where) == set() for where in (("", "job-17"), ("gold", "job-17")))
    on.hold("job-17", 0).unlock()
    if before == "shared":
        os.rmdir(f"{on.resctrl.root}/mon_groups/job-17")


def test_start_without_a_free_rmid_leaves_nothing(on: Monitor) -> None:
    with contextlib.suppress(NoRMIDsError):
        for number in range(20):
            on.ensure_group(f"other-{number}")
    before = groups(on), descriptors(), children()
    with pytest.raises(NoRMIDsError, match="remove the group of a key that has ended"):
        on.start("job-17", ["sleep", "60"])
    assert (groups(on), descriptors(), children()) == before
    assert on.ledger.read_pod("job-17") is None


class Interrupted(Filesystem):
    """A user who interrupts the program while the thread moves back."""

    def write(self, path: str, value: bytes) -> None:
        super().write(path, value)
        if not path.endswith("/job-17/tasks"):
            raise KeyboardInterrupt


def test_interrupt_after_the_start_ends_the_program(on: Monitor) -> None:
    on.resctrl.fs = Interrupted()
    before = descriptors(), children()
    with pytest.raises(KeyboardInterrupt) as raised:
        on.start("job-17", ["sleep", "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    on.resctrl.fs = Filesystem()
    assert (groups(on), on.ledger.keys(), descriptors(), children()) == ([], [], *before)
    del raised  # until here, its traceback keeps the program's object, which would close the pipes at its end
