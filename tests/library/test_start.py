"""`Monitor.start`: a program runs in its group from its first instruction, and a failure leaves nothing."""

import contextlib
import errno
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

import pytest
from conftest import not_none, raising
from hosts.faults import Fail

from resctrl_hooks import Filesystem, Monitor
from resctrl_hooks.errors import BadClassError, ClassMismatchError, NoRMIDsError
from resctrl_hooks.lab.simulation import mounted

HOUSES = ("lab",)
pytestmark = pytest.mark.fuse


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
    assert (groups(monitor), monitor.list()) == ([], [])
    assert (monitor.ledger.keys(), monitor.ledger.containers()) == ([], [])
    assert monitor.resctrl.tasks("gold", "") == set()


def groups(on: Monitor) -> list[str]:
    return sorted(f"{name}/{one}" for name in ("", "gold") for one in on.resctrl.groups(name))


def state(on: Monitor) -> tuple[Any, ...]:
    """Return what a failed start leaves as it was: groups, records, descriptors and child processes."""
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text(encoding="ascii").split()
    open_files = sorted(os.listdir("/proc/self/fd"))
    return groups(on), on.list(), on.members("job-17"), on.ledger.keys(), open_files, set(children)


def end(*programs: "subprocess.Popen[Any]") -> None:
    for program in programs:
        program.kill()
        program.communicate()


@pytest.mark.parametrize("rdt_class", ["", "gold"])
def test_program_and_its_children_are_in_the_group(on: Monitor, rdt_class: str) -> None:
    forks = ["sh", "-c", "sleep 60 & echo $!; wait"]
    with on.start("job-17", forks, rdt_class=rdt_class, stdout=subprocess.PIPE, text=True) as job:
        child = int(not_none(job.stdout).readline())
        assert on.resctrl.tasks(rdt_class, "job-17") == {job.pid, child}
        assert [(group.rdt_class, group.origin) for group in on.list()] == [(rdt_class, "created")]
        os.kill(child, 9)
        assert job.wait(10) is not None
    # A second program of the key joins it, and survives the end of the call with a parent death signal.
    job = on.start("job-17", ["setpriv", "--pdeathsig", "KILL", "sleep", "60"], rdt_class=rdt_class)
    assert on.resctrl.tasks(rdt_class, "job-17") == {job.pid}
    time.sleep(0.2)
    assert job.poll() is None
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
    begin = threading.Barrier(4)

    def start(key: str) -> "subprocess.Popen[Any]":
        begin.wait()
        return on.start(key, ["sleep", "60"])

    keys = [f"job-{number}" for number in range(4)]
    with ThreadPoolExecutor(4) as threads:
        jobs = [*threads.map(start, keys)]
    assert [on.resctrl.tasks("", key) for key in keys] == [{job.pid} for job in jobs]
    end(*jobs)


FAILURES: list[tuple[Any, dict[str, Any], type[Exception]]] = [
    (["/no/such/program"], {}, FileNotFoundError), (["/etc/passwd"], {}, PermissionError), ([], {}, ValueError),
    (["true"], {"cwd": "/no/such/folder"}, FileNotFoundError), (["true"], {"colour": "red"}, TypeError),
    (["a\0b"], {}, ValueError), (5, {}, TypeError), (["true"], {"rdt_class": "silver"}, BadClassError),
    (["refused"], {}, ClassMismatchError), (["true"], {"preexec_fn": raising(OSError(5, "EIO"))}, SubprocessError),
]  # fmt: skip


@pytest.mark.parametrize("argv, options, error", FAILURES)
@pytest.mark.parametrize("before", ["untracked", "tracked", "in another class", "member", "shared"])
def test_failed_start_leaves_nothing(on: Monitor, fail: Fail, argv: Any, options: Any, error: Any, before: str) -> None:
    if before == "shared":
        os.mkdir(f"{on.resctrl.root}/mon_groups/job-17")
    elif before != "untracked":
        on.ensure_group("job-17", "gold" if before == "in another class" else "")
    if before == "member":
        on.add_member("job-17", "step-1")
    found = state(on)
    refused = OSError(errno.EINVAL, "Invalid argument")
    fail(
        Filesystem,
        "write",
        refused,
        when=lambda _, path, _value: argv == ["refused"] and path.endswith("/job-17/tasks"),
    )
    with pytest.raises(error):
        on.start("job-17", argv, **options)
    assert state(on) == found
    assert all(on.resctrl.tasks(*where) == set() for where in (("", "job-17"), ("gold", "job-17")))
    on.hold("job-17", 0).unlock()
    if before == "shared":
        os.rmdir(f"{on.resctrl.root}/mon_groups/job-17")


def test_start_without_a_free_rmid_leaves_nothing(on: Monitor) -> None:
    with contextlib.suppress(NoRMIDsError):
        for number in range(20):
            on.ensure_group(f"other-{number}")
    before = state(on)
    with pytest.raises(NoRMIDsError, match="remove the group of a key that has ended"):
        on.start("job-17", ["sleep", "60"])
    assert state(on) == before


def test_interrupt_after_the_start_ends_the_program(on: Monitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user interrupts the program while the thread moves back."""
    before, write = state(on), Filesystem.write

    def interrupted(kernel: Filesystem, path: str, value: bytes) -> None:
        write(kernel, path, value)
        if not path.endswith("/job-17/tasks"):
            raise KeyboardInterrupt

    monkeypatch.setattr(Filesystem, "write", interrupted)
    with pytest.raises(KeyboardInterrupt) as raised:
        on.start("job-17", ["sleep", "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    monkeypatch.undo()
    assert state(on) == before
    del raised  # until here, its traceback keeps the program's object, which would close the pipes at its end
