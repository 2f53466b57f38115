"""The processes that serve events: one stands by, forked from the warmed resident; others are forked when it is busy.

An event thus has the node half's own deadline, which is an alarm of the whole process. A process that crashes or hangs
blocks no other event: it is killed at a limit, and another one takes its place.
"""

import _socket
import posix
import select
import time
from _signal import SIG_DFL, SIGCHLD, SIGINT, SIGKILL, SIGTERM, set_wakeup_fd, signal

from ...core.node.watch.priority import become_ordinary, become_urgent
from .worker import AFTERWARDS, AT_ONCE, FREE, LENGTH, MOST_IN_JOB, NEVER, WORN, Worker, pack_job, read_job, reply_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .worker import Done, Reply

    Serve = Callable[[str, bytes, Reply], bool]
    """Serves an event of a name; returns whether the process is fit to serve another one."""

_MOST_JOBS = 5000  # then another process takes over, so that no leak grows
COMPANION_PAUSE = 5.0  # seconds between two starts of a companion
_FAULT = 70  # sysexits.h's EX_SOFTWARE
PATIENCE = 0.1  # seconds for which an event waits for the previous one's work; a fork takes some milliseconds


class Companion:
    """A process that runs next to this one: the exec watcher.

    Args:
        run: what it does; it returns when this process has ended.
        is_useful: whether it is to run; asked before each start.
    """

    def __init__(self, run: "Callable[[], None]", is_useful: "Callable[[], bool]") -> None:
        self.run = run
        self.is_useful = is_useful
        self.worker: "Worker | None" = None
        self.start_at = 0.0


class Workers:
    """The processes of this one. ``forget`` is called in each of them first, to close what is not theirs.

    Signals end a `wait`: the end of a process, and what the process has handlers for.
    """

    def __init__(self, forget: "Callable[[], None]", serve: "Serve") -> None:
        self._forget = forget
        self._served = serve
        self._awake, self._waker = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
        set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        signal(SIGCHLD, lambda *_: None)
        self._living: "dict[int, Worker]" = {}
        self._polled: "list[int]" = []
        self._ready: "Worker | None" = None
        self._ending: "list[int]" = []
        self._companion: "Companion | None" = None

    def _serve(self, job: bytes, reply: "Reply") -> bool:
        """Serve a job with priority until the runtime has its answer: on a starved node it drops a late plugin."""
        event, _, payload = job[1:].partition(b"\0")
        if job[0]:  # the runtime has its answer
            return self._served(event.decode(), payload, reply)

        def reply_first(code: int, answer: bytes) -> None:
            reply(code, answer)
            become_ordinary()

        become_urgent()
        return self._served(event.decode(), payload, reply_first)

    def keep(self, companion: Companion) -> None:
        """Run a process next to this one, and start it again after its end."""
        self._companion = companion
        self._look_after(companion)

    def _look_after(self, companion: Companion) -> None:
        now = time.monotonic()
        if now < companion.start_at or companion.worker in self._living.values():
            return
        companion.start_at = now + COMPANION_PAUSE
        if companion.is_useful():
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
        job = pack_job(event, payload, answered=answered)
        if self._ready is None:
            self._wait_for_answered(generation)
        worker, self._ready = self._ready, None
        if worker is not None:
            if worker.generation == generation and len(job) <= MOST_IN_JOB and worker.send(job):
                worker.take(done, seconds, answered=answered)
                return
            self._kill(worker)  # it may have a part of the job
        self.start(lambda reply: self._serve(job[LENGTH:], reply), seconds, done)

    def start(self, serve: "Callable[[Reply], object]", seconds: float, done: "Done") -> None:
        """Have a process of its own call ``serve``, and call ``done`` as `ask` does.

        Raises:
            OSError: no process can be made.
        """

        def once(fd: int) -> None:
            reply = reply_on(fd)
            serve(reply)
            reply(WORN, b"")

        worker = self._fork(once, -1)
        worker.take(done, seconds)

    def _wait_for_answered(self, generation: int) -> None:
        """Wait a little for a process whose event the runtime sees as served: its end frees what the next one needs."""
        after = (one for one in self._living.values() if one.state == AFTERWARDS and one.generation == generation)
        worker = next(after, None)
        if worker is None:
            return
        waiting, until = select.poll(), min(time.monotonic() + PATIENCE, worker.limit)
        waiting.register(worker.fd, select.POLLIN)
        while (
            worker.state == AFTERWARDS and (left := until - time.monotonic()) > 0 and waiting.poll(int(left * 1000) + 1)
        ):
            self._read(worker)

    def wait(self, seconds: float, *others: int) -> "list[int]":
        """Wait at most so long for answers, for signals, and for other descriptors; return those that are ready.

        Answers are taken, late processes are killed, and those that have ended are reaped.
        """
        descriptors = [*others, self._awake, *self._living]
        if descriptors != self._polled:
            self._polled, self._poll = descriptors, select.poll()
            for fd in descriptors:
                self._poll.register(fd, select.POLLIN)
        limit = min((worker.limit for worker in self._living.values()), default=NEVER)
        seconds = min(seconds, limit - time.monotonic())
        ready = [fd for fd, _ in self._poll.poll(max(0, int(seconds * 1000) + 1))]
        self._collect(ready)
        return ready

    def is_busy(self) -> bool:
        """Return whether any event is being served."""
        return any(worker.is_asked for worker in self._living.values())

    def _collect(self, ready: "list[int]") -> None:
        for fd in ready:
            worker = self._living.get(fd)
            if fd == self._awake:
                posix.read(fd, AT_ONCE)
            if worker is not None:
                self._read(worker)
        now = time.monotonic()
        for worker in [worker for worker in self._living.values() if worker.limit <= now]:
            self._kill(worker)
        if self._companion is not None:
            self._look_after(self._companion)
        if self._ending:
            self._ending = [pid for pid in self._ending if posix.waitpid(pid, posix.WNOHANG)[0] != pid]

    def _read(self, worker: Worker) -> None:
        data = worker.read()
        if not data:
            self._end(worker)
            return
        for code in worker.take_answers(data):
            if code == FREE and worker.jobs < _MOST_JOBS and self._ready is None:
                worker.stand_by()
                self._ready = worker
            else:
                self._end(worker)

    def _kill(self, worker: Worker) -> None:
        posix.kill(worker.pid, SIGKILL)
        self._end(worker)

    def _end(self, worker: Worker) -> None:
        """Leave a process: it ends when its socket is closed, or was killed."""
        if worker is self._ready:
            self._ready = None
        del self._living[worker.fd]
        posix.close(worker.fd)
        self._ending.append(worker.pid)
        worker.fail()

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
        reply = reply_on(fd)
        fit = True
        while fit and (job := read_job(fd)):
            fit = self._serve(job, reply)
            reply(FREE if fit else WORN, b"")
