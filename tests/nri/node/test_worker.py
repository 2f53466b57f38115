"""A process that serves events: jobs and answers on its socket, its states, and its end."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator

import pytest
from hosts.processes import is_alive, wait_until

from resctrl_hooks.nri.node import worker as module
from resctrl_hooks.nri.node.worker import (
    AFTERWARDS,
    FREE,
    NEVER,
    SERVING,
    STANDING_BY,
    WORN,
    Worker,
    pack_job,
    read_job,
    reply_on,
)
from resctrl_hooks.nri.node.workers import Workers

JOB = pack_job("StartContainer", b"payload", answered=False)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The resident's end of a socket and the process's end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("size", [0, 1, 4, 5, len(JOB) - 1])
def test_part_of_a_job_is_no_job(pair: tuple[socket.socket, socket.socket], size: int) -> None:
    ours, theirs = pair
    ours.sendall(JOB[:size])
    ours.close()
    assert read_job(theirs.fileno()) == b""


def test_job_in_parts_is_read_whole(pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pair
    ours.sendall(JOB)
    monkeypatch.setattr(module, "AT_ONCE", 3)
    assert read_job(theirs.fileno()) == JOB[4:]


def test_worker_goes_through_its_states(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    answers: list[tuple[int | None, bytes]] = []
    worker = Worker(1, ours.fileno(), 1)
    reply = reply_on(theirs.fileno())
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


def test_worker_that_fails_answers_once(pair: tuple[socket.socket, socket.socket]) -> None:
    answers: list[tuple[int | None, bytes]] = []
    worker = Worker(1, pair[0].fileno(), 1)
    worker.take(lambda *answer: answers.append(answer), 60, answered=True)
    assert worker.state == AFTERWARDS
    worker.fail()
    worker.fail()
    assert (worker.state, answers) == (STANDING_BY, [(None, b"")])


@pytest.fixture
def workers() -> Iterator[Workers]:
    """Processes that answer with the payload."""

    def serve(_event: str, payload: bytes, reply: "module.Reply") -> bool:
        reply(0, payload)
        return True

    before = signal.getsignal(signal.SIGCHLD)
    found = Workers(lambda: None, serve)
    yield found
    for one in found._living.values():
        os.kill(one.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(one.pid, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, before)


def test_process_with_a_part_of_a_job_is_killed_and_another_one_serves(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers.prepare(1)
    (standing,) = workers._living.values()

    def send(worker: Worker, job: bytes) -> bool:
        os.write(worker.fd, job[: len(job) // 2])
        return False

    monkeypatch.setattr(Worker, "send", send)
    answers: list[tuple[int | None, bytes]] = []
    workers.ask("StartContainer", b"payload", 1, 60, lambda *answer: answers.append(answer))
    while not answers:
        workers.wait(60)
    assert answers == [(0, b"payload")]
    pid = standing.pid
    wait_until(lambda: not is_alive(pid))
    while workers._ending:
        workers.wait(0)
    assert pid not in [one.pid for one in workers._living.values()]


def test_process_is_replaced_after_its_largest_number_of_jobs(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resctrl_hooks.nri.node.workers._MOST_JOBS", 2)
    served: list[int] = []
    for _ in range(3):
        workers.prepare(1)
        answers: list[tuple[int | None, bytes]] = []
        workers.ask("StartContainer", b"payload", 1, 60, lambda *answer, into=answers: into.append(answer))
        served += [one.pid for one in workers._living.values() if one.is_asked]
        while not answers or any(one.state != STANDING_BY for one in workers._living.values()):
            workers.wait(60)
        assert answers == [(0, b"payload")]
    first, second, third = served
    assert first == second != third


def test_process_is_killed_at_its_limit(workers: Workers) -> None:
    answers: list[tuple[int | None, bytes]] = []
    begun = time.monotonic()
    workers.start(lambda _: time.sleep(60), 0.05, lambda *answer: answers.append(answer))
    while not answers:
        workers.wait(30)
    assert answers == [(None, b"")]
    assert 0.05 <= time.monotonic() - begun < 30
