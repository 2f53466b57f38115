"""Processes that serve events: jobs and answers, their states and their end; the exec watcher beside them."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Host
from hosts.processes import children, is_alive, wait_until

from resctrl_hooks.nri.node import worker as module
from resctrl_hooks.nri.node.worker import AFTERWARDS, FREE, NEVER, SERVING, STANDING_BY, WORN, Worker
from resctrl_hooks.nri.node.workers import Workers

JOB = module.pack_job("StartContainer", b"payload", answered=False)
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """The resident's end of a socket and the process's end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("size", [0, 1, 4, 5, len(JOB) - 1, len(JOB)])
def test_job_in_parts_is_read_whole_or_not_at_all(pair: Pair, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    ours, theirs = pair
    ours.sendall(JOB[:size])
    ours.close()
    monkeypatch.setattr(module, "AT_ONCE", 3)
    assert module.read_job(theirs.fileno()) == (JOB[4:] if size == len(JOB) else b"")


def test_worker_goes_through_its_states(pair: Pair) -> None:
    ours, theirs = pair
    answers: list[tuple[int | None, bytes]] = []
    worker = Worker(1, ours.fileno(), 1)
    reply = module.reply_on(theirs.fileno())
    assert (worker.state, worker.limit, worker.is_asked) == (STANDING_BY, NEVER, False)
    assert worker.send(JOB)
    worker.take(lambda *answer: answers.append(answer), 60)
    assert (worker.state, worker.is_asked, worker.limit < NEVER) == (SERVING, True, True)
    reply(0, b"done")
    assert list(worker.take_answers(worker.read())) == []
    assert (worker.state, worker.is_asked, answers) == (AFTERWARDS, False, [(0, b"done")])
    reply(WORN, b"")
    reply(FREE, b"")
    assert list(worker.take_answers(worker.read())) == [WORN, FREE]
    worker.stand_by()
    assert (worker.state, worker.limit, worker.jobs) == (STANDING_BY, NEVER, 1)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    """Processes whose jobs say what becomes of them; they wait for a file."""
    go = tmp_path / "go"

    def serve(event: str, payload: bytes, reply: "module.Reply") -> bool:
        with (tmp_path / "served").open("a") as served:
            served.write(f"{event}\n")
        if payload == b"crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if payload == b"hang":
            time.sleep(600)
        while payload == b"wait" and not go.exists():
            time.sleep(0.01)
        if payload == b"leave" and not os.fork():  # a process that outlives the event, and keeps inherited descriptors
            time.sleep(2)
            os._exit(0)
        policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
        reply(2 if payload == b"refuse" else 0, str(policy).encode() if payload[:6] == b"policy" else payload)
        return payload != b"unfit"

    before = signal.getsignal(signal.SIGCHLD)
    found = Workers(lambda: None, serve)
    yield found
    for one in found._living.values():
        os.kill(one.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(one.pid, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, before)


def answer(workers: Workers, event: str, payload: bytes, seconds: float = 60, **more: bool) -> tuple[int | None, bytes]:
    answers: list[tuple[int | None, bytes]] = []
    workers.ask(event, payload, 1, seconds, lambda *found: answers.append(found), **more)
    while not answers:
        workers.wait(30)
    (found,) = answers
    return found


def standing_by(workers: Workers) -> Worker:
    """Return the only process that lives, once nothing is served and all others are reaped."""
    for _ in range(2):
        while workers._ending or any(one.state != STANDING_BY for one in workers._living.values()):
            workers.wait(0.1)
        workers.prepare(1)
    (found,) = workers._living.values()
    return found


PAYLOADS = [b"web", b"x" * 70_000, b"crash", b"unfit", b"hang", b"leave", b"refuse", b"kill", b"stop"]


@pytest.mark.parametrize("seed", [1, 2])
def test_each_event_has_one_answer_in_time_whatever_becomes_of_its_process(workers: Workers, seed: int) -> None:
    """Processes crash, hang, end, leave children, or are killed and stopped."""
    draw = random.Random(seed)
    for number in range(40):
        payload = draw.choice(PAYLOADS)
        workers.prepare(1)
        if payload in (b"kill", b"stop"):
            first = standing_by(workers)
            os.kill(first.pid, signal.SIGKILL if payload == b"kill" else signal.SIGSTOP)
            while payload == b"kill" and first in workers._living.values():
                workers.wait(0.1)
        seconds = 0.3 if payload in (b"hang", b"stop") else 60
        found = answer(workers, "Event", payload, seconds, answered=number % 2 == 1)
        dies = payload in (b"crash", b"hang", b"stop")
        assert found == ((None, b"") if dies else (2 if payload == b"refuse" else 0, payload)), number
    first = standing_by(workers)
    for _ in range(3):
        assert answer(workers, "Event", b"web") == (0, b"web")
        assert standing_by(workers) is first, "one process serves consecutive events"


def test_event_waits_for_an_end_before_it_and_both_have_priority_until_their_answer(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resctrl_hooks.nri.node.workers.PATIENCE", 30.0)
    workers.prepare(1)
    answers: list[bytes] = []
    workers.ask("Stop", b"wait", 1, 60, lambda _, answer: answers.append(answer), answered=True)
    threading.Timer(0.2, (tmp_path / "go").touch).start()
    late = b"policy" + b"x" * (1 << 16)  # too large for the one that stands by
    policies = [os.SCHED_RR] * 2 if os.geteuid() == 0 else [os.SCHED_OTHER] * 2  # realtime priorities need root
    assert [int(answer(workers, "Start", one)[1]) for one in (b"policy", late)] == policies
    assert answers == [b"wait"]
    assert (tmp_path / "served").read_text().split() == ["Stop", "Start", "Start"]
    assert int(answer(workers, "Stop", b"policy", answered=True)[1]) == os.SCHED_OTHER


def test_process_is_replaced_after_a_part_of_a_job_and_its_largest_number_of_jobs(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers.prepare(1)
    pid = standing_by(workers).pid

    def send(worker: Worker, job: bytes) -> bool:
        os.write(worker.fd, job[: len(job) // 2])
        return False

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "send", send)
        assert answer(workers, "StartContainer", b"payload") == (0, b"payload")
    wait_until(lambda: not is_alive(pid))
    monkeypatch.setattr("resctrl_hooks.nri.node.workers._MOST_JOBS", 2)
    served = [pid]
    for _ in range(3):
        served.append(standing_by(workers).pid)
        assert answer(workers, "StartContainer", b"payload") == (0, b"payload")
    assert len({*served}) == 3
    assert served[1] == served[2] != served[3]


class Service(Host):
    """A service without a runtime, with an exec watcher in a process of its own."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, real_proc=True, monitoring={"exec": "watch"}, log={"target": "none"})
        self.program = subprocess.Popen(self.command("nri", "--socket", str(root / "nri.sock")))

    def watcher(self, *before: int) -> int:
        """Return the service's only process that lives, once it watches, and after another one."""
        found: list[int] = []

        def watches() -> bool:
            found[:] = [pid for pid in children(self.program.pid) if is_alive(pid) and pid not in before]
            with contextlib.suppress(FileNotFoundError):
                told = json.loads((self.state / "exec.json").read_text())
                return [told["pid"]] == found and told["mode"] in ("events", "sampling")
            return False

        wait_until(watches, "it watches")
        return found[0]


@pytest.mark.parametrize("end", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.ci)])
def test_separate_exec_watcher_is_replaced_and_ends_with_its_service(tmp_path: Path, end: signal.Signals) -> None:
    service = Service(tmp_path)
    try:
        last = service.watcher()
        if end == signal.SIGTERM:
            os.kill(last, signal.SIGKILL)
            last = service.watcher(last)
        service.program.send_signal(end)
        assert service.program.wait(60) == (0 if end == signal.SIGTERM else -end)
        wait_until(lambda: not is_alive(last), "it ends with the service")
    finally:
        service.program.kill()
        service.program.wait(60)
