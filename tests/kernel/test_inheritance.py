"""Inheritance of groups: children and new threads follow the starting thread, existing ones stay."""

import os
import subprocess
import threading
from collections.abc import Iterator

import pytest

from kernel.groups import Place, Resctrl, place_of

ROOT = Place("", "")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


class Worker:
    """A thread with a known id that waits, and can start another thread from itself."""

    def __init__(self) -> None:
        self.task = 0
        self._ready, self._go, self._done = threading.Event(), threading.Event(), threading.Event()
        self.child: Worker | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(60)

    def _run(self) -> None:
        self.task = threading.get_native_id()
        self._ready.set()
        self._go.wait()
        if not self._done.is_set():
            self.child = Worker()
        self._ready.set()
        self._done.wait()

    def start_child(self) -> "Worker":
        self._ready.clear()
        self._go.set()
        assert self._ready.wait(60)
        assert self.child
        return self.child

    def stop(self) -> None:
        self._done.set()
        self._go.set()
        self._thread.join(60)
        if self.child:
            self.child.stop()


@pytest.fixture
def worker() -> Iterator[Worker]:
    thread = Worker()
    yield thread
    thread.stop()


def test_proc_shows_class_and_group(resctrl: Resctrl, sleeper: subprocess.Popen[bytes]) -> None:
    resctrl.make("gold")
    resctrl.make("gold", "pod")
    assert place_of(sleeper.pid) == ROOT
    resctrl.join(sleeper.pid, "gold")
    assert place_of(sleeper.pid) == Place("gold", "")
    resctrl.join(sleeper.pid, "gold", "pod")
    assert place_of(sleeper.pid) == Place("gold", "pod")
    assert resctrl.tasks("gold", "pod") == {sleeper.pid}


def test_child_inherits_group_of_parent(resctrl: Resctrl) -> None:
    resctrl.make(group="pod")
    shell = subprocess.Popen(["sh", "-c", "read line; sleep 1000 & echo $!; wait"], stdin=-1, stdout=-1, text=True)
    assert shell.stdin
    assert shell.stdout
    resctrl.join(shell.pid, group="pod")
    shell.stdin.write("go\n")
    shell.stdin.flush()
    child = int(shell.stdout.readline())
    try:
        assert place_of(child) == Place("", "pod")
        assert resctrl.tasks(group="pod") == {shell.pid, child}
    finally:
        os.kill(child, 9)
        shell.communicate()


def test_existing_child_stays(resctrl: Resctrl) -> None:
    resctrl.make(group="pod")
    shell = subprocess.Popen(["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=-1, text=True)
    assert shell.stdout
    child = int(shell.stdout.readline())
    try:
        resctrl.join(shell.pid, group="pod")
        assert place_of(shell.pid) == Place("", "pod")
        assert place_of(child) == ROOT
    finally:
        os.kill(child, 9)
        shell.communicate()


def test_existing_thread_stays(resctrl: Resctrl, worker: Worker) -> None:
    resctrl.make(group="pod")
    main = threading.main_thread().native_id
    assert main == os.getpid()
    resctrl.join(main, group="pod")
    try:
        assert place_of(main) == Place("", "pod")
        assert place_of(worker.task) == ROOT
        assert resctrl.tasks(group="pod") == {main}
    finally:
        resctrl.join(main)


def test_new_thread_inherits_group_of_starter(resctrl: Resctrl, worker: Worker) -> None:
    resctrl.make(group="pod")
    resctrl.join(worker.task, group="pod")
    assert place_of(os.getpid()) == ROOT
    assert place_of(worker.start_child().task) == Place("", "pod")


def test_tasks_move_to_parent_when_group_is_removed(resctrl: Resctrl, sleeper: subprocess.Popen[bytes]) -> None:
    resctrl.make("gold")
    resctrl.join(sleeper.pid, "gold")
    os.rmdir(_joined(resctrl, sleeper.pid, "gold", "pod"))
    assert place_of(sleeper.pid) == Place("gold", "")
    _joined(resctrl, sleeper.pid, "gold", "pod")
    os.rmdir(resctrl.path("gold"))
    assert place_of(sleeper.pid) == ROOT


def _joined(resctrl: Resctrl, task: int, rdt_class: str, group: str) -> str:
    path = resctrl.make(rdt_class, group)
    resctrl.join(task, rdt_class, group)
    return path
