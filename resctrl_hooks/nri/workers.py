"""Children that serve one event each, forked from the warmed process.

So an event has the node half's own deadline, which is an alarm of the whole process, and one that crashes, hangs or
leaks hurts nobody. A child's answer comes through a pipe: its length, a code, and what it says.
"""

import posix
import time
from _signal import SIG_DFL, SIGCHLD, SIGINT, SIGKILL, SIGTERM, set_wakeup_fd, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD = 5
_AT_ONCE = 1 << 16
_FAULT = 70  # sysexits.h's EX_SOFTWARE


class Worker:
    """One child: when it began, when it will be killed, and as much of its answer as there is."""

    def __init__(self, pid: int, fd: int, limit: float, done: "Callable[[int | None, bytes], None]") -> None:
        self.pid = pid
        self.fd = fd
        self.limit = limit
        self.done = done
        self.answer = bytearray()

    def is_complete(self) -> bool:
        """Whether the whole answer is there. The pipe may stay open: in what the child has started."""
        return len(self.answer) >= _HEAD and len(self.answer) >= _HEAD + int.from_bytes(self.answer[:4], "big")


class Workers:
    """The children of this process. ``forget`` is called in each of them first, to close what is not theirs.

    Signals wake whoever polls `descriptors`: a child's end, and what the process has handlers for.
    """

    def __init__(self, forget: "Callable[[], None]") -> None:
        self._forget = forget
        self._awake, self._waker = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
        set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        signal(SIGCHLD, lambda *_: None)
        self._living: "dict[int, Worker]" = {}
        self._ending: "list[int]" = []

    def start(
        self,
        serve: "Callable[[], tuple[int, bytes]]",
        seconds: float,
        done: "Callable[[int | None, bytes], None]",
    ) -> None:
        """Has a child call ``serve``, and calls ``done`` with what that returned, or with None if it came to nothing.

        It is killed after so many seconds.

        Raises:
            OSError: no process can be made.
        """
        reader, writer = posix.pipe2(posix.O_CLOEXEC)
        try:
            pid = posix.fork()
        except OSError:
            posix.close(reader)
            posix.close(writer)
            raise
        if not pid:
            self._serve(serve, reader, writer)
        posix.close(writer)
        self._living[reader] = Worker(pid, reader, time.monotonic() + seconds, done)

    def _serve(self, serve: "Callable[[], tuple[int, bytes]]", reader: int, writer: int) -> None:
        """The child's life. It never returns."""
        code = _FAULT
        try:
            set_wakeup_fd(-1)
            for number in (SIGTERM, SIGINT, SIGCHLD):
                signal(number, SIG_DFL)
            for fd in (self._awake, self._waker, reader, *self._living):
                posix.close(fd)
            self._forget()
            status, payload = serve()
            answer = len(payload).to_bytes(4, "big") + bytes((status,)) + payload
            while answer:
                answer = answer[posix.write(writer, answer) :]
            code = 0
        finally:
            posix._exit(code)  # noqa: SLF001  # it is public in os, which costs too much to import

    def descriptors(self) -> "list[int]":
        """The pipes on which answers come, and one on which signals do, for poll."""
        return [self._awake, *self._living]

    def next_limit(self) -> float:
        """When the first child is to be killed, by the monotonic clock; infinite for none."""
        return min((worker.limit for worker in self._living.values()), default=float("inf"))

    def collect(self, ready: "list[int]") -> None:
        """Takes what children have said; kills those that are late; and buries the dead."""
        for fd in ready:
            worker = self._living.get(fd)
            if fd == self._awake:
                posix.read(fd, _AT_ONCE)
            if worker is not None:
                data = posix.read(fd, _AT_ONCE)
                worker.answer += data
                if worker.is_complete() or not data:
                    self._end(worker)
        now = time.monotonic()
        for worker in [worker for worker in self._living.values() if worker.limit <= now]:
            posix.kill(worker.pid, SIGKILL)
            self._end(worker)
        self._ending = [pid for pid in self._ending if posix.waitpid(pid, posix.WNOHANG)[0] != pid]

    def _end(self, worker: Worker) -> None:
        del self._living[worker.fd]
        posix.close(worker.fd)
        self._ending.append(worker.pid)
        if worker.is_complete():
            size = int.from_bytes(worker.answer[:4], "big")
            worker.done(worker.answer[4], bytes(worker.answer[_HEAD : _HEAD + size]))
        else:
            worker.done(None, b"")
