"""The processes that serve events: one stands by, forked from the warmed resident; others are forked when it is busy.

An event thus has the node half's own deadline, which is an alarm of the whole process. A process that crashes or hangs
blocks no other event: it is killed at a limit, and another one takes its place. Jobs and answers travel over a socket,
each after its length. A process may go on after its answer, again until a limit, and reports when it is free.
"""

import _socket
import posix
import select
import time
from _signal import SIG_DFL, SIGCHLD, SIGINT, SIGKILL, SIGTERM, set_wakeup_fd, signal

from ..node.watch.priority import become_ordinary, become_urgent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Reply = Callable[[int, bytes], None]
    """Sends the answer, a code and a payload, which must be done once."""
    Done = Callable[[int | None, bytes], None]
    """Takes an answer, or None as the code if the process died or took too long."""
    Serve = Callable[[str, bytes, Reply], bool]
    """Serves an event of a name; returns whether the process is fit to serve another one."""

_HEAD = 5
_LENGTH = 4
_AT_ONCE = 1 << 16
_MOST_IN_JOB = 1 << 16  # bytes that a socket takes at once; a larger job is inherited by a process of its own
_MOST_JOBS = 5000  # then another process takes over, so that no leak grows
COMPANION_PAUSE = 5.0  # seconds between two starts of a companion
_FAULT = 70  # sysexits.h's EX_SOFTWARE
_NEVER = float("inf")
_FREE, _WORN = 255, 254
"""The codes that a process sends when it has nothing left to do after its answer, and can serve another event or not.
"""
PATIENCE = 0.1  # seconds for which an event waits for the previous one's work; a fork takes some milliseconds


class Worker:
    """One process: when it will be killed, and the part of its answer that has arrived."""

    def __init__(self, pid: int, fd: int, generation: int) -> None:
        self.pid = pid
        self.fd = fd
        self.generation = generation
        self.jobs = 0
        self.limit = _NEVER
        self.seconds = 0.0
        self.done: "Done | None" = None
        self.answered = False
        self.answer = bytearray()

    def take(self, done: "Done", seconds: float) -> None:
        """Remember the job that it has got."""
        self.limit, self.seconds, self.done = time.monotonic() + seconds, seconds, done

    def is_complete(self) -> bool:
        """Return whether the whole answer is there. The socket may stay open: in what the process has started."""
        return len(self.answer) >= _HEAD and len(self.answer) >= _HEAD + int.from_bytes(self.answer[:_LENGTH], "big")


class Companion:
    """A process that runs next to this one: the exec watcher.

    Args:
        run: what it does; it returns when this process has ended.
        wanted: whether it is to run; asked before each start.
    """

    def __init__(self, run: "Callable[[], None]", wanted: "Callable[[], bool]") -> None:
        self.run = run
        self.wanted = wanted
        self.worker: "Worker | None" = None
        self.start_at = 0.0


class Workers:
    """The processes of this one. ``forget`` is called in each of them first, to close what is not theirs.

    Signals wake pollers of `descriptors`: the end of a process, and what the process has handlers for.
    """

    def __init__(self, forget: "Callable[[], None]", serve: "Serve") -> None:
        self._forget = forget
        self._served = serve
        self._awake, self._waker = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
        set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        signal(SIGCHLD, lambda *_: None)
        self._living: "dict[int, Worker]" = {}
        self._ready: "Worker | None" = None
        self._ending: "list[int]" = []
        self._companion: "Companion | None" = None

    def _serve(self, event: str, payload: bytes, reply: "Reply", *, answered: bool) -> bool:
        """Serve an event with priority until the runtime has its answer: on a starved node it drops a late plugin."""

        def reply_first(code: int, answer: bytes) -> None:
            reply(code, answer)
            become_ordinary()

        if answered:
            become_ordinary()
        return self._served(event, payload, reply if answered else reply_first)

    def keep(self, companion: Companion) -> None:
        """Run a process next to this one, and start it again after its end."""
        self._companion = companion
        self._look_after(companion)

    def _look_after(self, companion: Companion) -> None:
        now = time.monotonic()
        if now < companion.start_at or companion.worker in self._living.values():
            return
        companion.start_at = now + COMPANION_PAUSE
        if companion.wanted():
            try:
                companion.worker = self._fork(lambda _: companion.run(), -1)
            except OSError:
                pass  # the next one may succeed

    def end(self) -> None:
        """End the companion."""
        worker = self._companion.worker if self._companion is not None else None
        if worker is not None and worker in self._living.values():
            posix.kill(worker.pid, SIGTERM)

    def prepare(self, generation: int) -> None:
        """Fork the process that stands by, if none of this generation does or is serving; `ask` needs no success."""
        if self._ready is not None and self._ready.generation != generation:
            self._end(self._ready)
        if self._ready is None and all(worker.generation != generation for worker in self._living.values()):
            try:
                self._ready = self._fork(self._stand, generation)
            except OSError:
                pass

    def ask(
        self, event: str, payload: bytes, generation: int, seconds: float, done: "Done", *, answered: bool = False
    ) -> None:
        """Have an event served, and call ``done`` with the answer, or with None after so many seconds.

        A process of another ``generation`` was forked with other settings, and is replaced. If the runtime has its
        answer already, the next event waits a little for the process.

        Raises:
            OSError: no process can be made.
        """
        job = bytes((answered,)) + event.encode() + b"\0" + payload
        job = len(job).to_bytes(_LENGTH, "big") + job
        if self._ready is None:
            self._wait_for_answered(generation)
        worker, self._ready = self._ready, None
        if worker is not None:
            if worker.generation == generation and len(job) <= _MOST_IN_JOB and _is_sent(worker.fd, job):
                worker.jobs += 1
                worker.take(done, seconds)
                worker.answered = answered
                return
            self._end(worker)

        def serve(reply: "Reply") -> None:
            become_urgent()
            self._serve(event, payload, reply, answered=answered)

        self.start(serve, seconds, done)

    def start(self, serve: "Callable[[Reply], object]", seconds: float, done: "Done") -> None:
        """Have a process of its own call ``serve``, and call ``done`` as `ask` does.

        Raises:
            OSError: no process can be made.
        """

        def once(fd: int) -> None:
            reply = _reply_on(fd)
            serve(reply)
            reply(_WORN, b"")

        worker = self._fork(once, -1)
        worker.take(done, seconds)

    def _wait_for_answered(self, generation: int) -> None:
        """Wait a little for a process whose event the runtime sees as served: its end frees what the next one needs."""
        worker = next((one for one in self._living.values() if one.answered and one.generation == generation), None)
        if worker is None:
            return
        waiting, until = select.poll(), min(time.monotonic() + PATIENCE, worker.limit)
        waiting.register(worker.fd, select.POLLIN)
        while worker.answered and (left := until - time.monotonic()) > 0 and waiting.poll(int(left * 1000) + 1):
            self._read(worker)

    def descriptors(self) -> "list[int]":
        """Return the sockets on which answers come, and the pipe on which signals do, for poll."""
        return [self._awake, *self._living]

    def next_limit(self) -> float:
        """When the first process is to be killed, by the monotonic clock; infinite for none."""
        return min((worker.limit for worker in self._living.values()), default=_NEVER)

    def is_busy(self) -> bool:
        """Return whether any event is being served."""
        return any(worker.done is not None for worker in self._living.values())

    def collect(self, ready: "list[int]") -> None:
        """Take the answers that have come; kill the processes that are late; reap those that have ended."""
        for fd in ready:
            worker = self._living.get(fd)
            if fd == self._awake:
                posix.read(fd, _AT_ONCE)
            if worker is not None:
                self._read(worker)
        now = time.monotonic()
        for worker in [worker for worker in self._living.values() if worker.limit <= now]:
            posix.kill(worker.pid, SIGKILL)
            self._end(worker)
        if self._companion is not None:
            self._look_after(self._companion)
        if self._ending:
            self._ending = [pid for pid in self._ending if posix.waitpid(pid, posix.WNOHANG)[0] != pid]

    def _read(self, worker: Worker) -> None:
        try:
            data = posix.read(worker.fd, _AT_ONCE)
        except OSError:
            data = b""  # it died with a job unread
        worker.answer += data
        if not data:
            self._end(worker)
        while worker.is_complete():
            end = _HEAD + int.from_bytes(worker.answer[:_LENGTH], "big")
            code, payload = worker.answer[_LENGTH], bytes(worker.answer[_HEAD:end])
            del worker.answer[:end]
            if code in (_FREE, _WORN):
                self._free(worker, fit=code == _FREE)
            elif worker.done is not None:
                done, worker.done = worker.done, None
                worker.answered, worker.limit = True, time.monotonic() + worker.seconds
                done(code, payload)

    def _free(self, worker: Worker, *, fit: bool) -> None:
        """Let a process stand by that has nothing left to do, unless another one does."""
        worker.answered, worker.limit = False, _NEVER
        if fit and worker.jobs < _MOST_JOBS and self._ready is None:
            self._ready = worker
        else:
            self._end(worker)

    def _end(self, worker: Worker) -> None:
        """Leave a process, which ends when its socket is closed, and was killed if it had not answered in time."""
        if worker is self._ready:
            self._ready = None
        del self._living[worker.fd]
        posix.close(worker.fd)
        self._ending.append(worker.pid)
        worker.answered = False
        if worker.done is not None:
            worker.done(None, b"")

    def _fork(self, live: "Callable[[int], object]", generation: int) -> Worker:
        ours, theirs = _socket.socketpair()
        try:
            pid = posix.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if not pid:
            ours.close()
            self._live(live, theirs.detach())
        theirs.close()
        ours.setblocking(False)  # noqa: FBT003  # the C function takes no names
        worker = Worker(pid, ours.detach(), generation)
        self._living[worker.fd] = worker
        return worker

    def _live(self, live: "Callable[[int], object]", fd: int) -> None:
        """Live as a process of this one. It never returns."""
        code = _FAULT
        try:
            set_wakeup_fd(-1)
            for number in (SIGTERM, SIGINT, SIGCHLD):
                signal(number, SIG_DFL)
            for other in (self._awake, self._waker, *self._living):
                posix.close(other)
            self._forget()
            live(fd)
            code = 0
        finally:
            posix._exit(code)  # noqa: SLF001  # it is public in os, which costs too much to import

    def _stand(self, fd: int) -> None:
        """Serve one job after the other, until there is no more, or the process is not fit for another one."""
        reply = _reply_on(fd)
        fit = True
        while fit:
            become_urgent()  # also to read the job
            data = posix.read(fd, _AT_ONCE)
            if not data:
                return
            size = _LENGTH + int.from_bytes(data[:_LENGTH], "big")
            while len(data) < size:
                data += posix.read(fd, size - len(data))
            event, _, payload = data[_LENGTH + 1 :].partition(b"\0")
            fit = self._serve(event.decode(), payload, reply, answered=bool(data[_LENGTH]))
            reply(_FREE if fit else _WORN, b"")


def _is_sent(fd: int, job: bytes) -> bool:
    """Return whether a process has taken a job; one that died or does not read any more has not."""
    try:
        return posix.write(fd, job) == len(job)
    except OSError:
        return False


def _reply_on(fd: int) -> "Reply":
    def reply(code: int, payload: bytes) -> None:
        answer = len(payload).to_bytes(_LENGTH, "big") + bytes((code,)) + payload
        while answer:
            answer = answer[posix.write(fd, answer) :]

    return reply
