"""One process that serves events: its state, and the jobs and answers on its socket, each after its length.

A process may go on after its answer, again until a limit, and reports when it is free.
"""

import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Reply = Callable[[int, bytes], None]
    """Sends the answer, a code and a payload, which must be done once."""
    Done = Callable[[int | None, bytes], None]
    """Takes an answer, or None as the code if the process died or took too long."""

STANDING_BY, SERVING, AFTERWARDS = "standing by", "serving", "after its answer"
LENGTH = 4
_HEAD = LENGTH + 1  # the length of the payload and the code
AT_ONCE = 1 << 16
MOST_IN_JOB = 1 << 16
"""Bytes that a socket takes at once; a larger job is inherited by a process of its own."""
FREE, WORN = 255, 254
"""The codes of a process that has nothing left to do after its answer, and can serve another event or not."""
NOT_YET = 1
"""The code of an answer without a process that could be served: the container's next event is waited for."""
NEVER = float("inf")


class Worker:
    """One process.

    ``state`` is STANDING_BY until it gets a job, SERVING until the runtime has its answer, and AFTERWARDS until the
    process reports that it is free. ``limit`` is when it is killed, by the monotonic clock.
    """

    def __init__(self, pid: int, fd: int, generation: int) -> None:
        self.pid = pid
        self.fd = fd
        self.generation = generation
        self.jobs = 0
        self.state = STANDING_BY
        self.limit = NEVER
        self._seconds = 0.0
        self._done: "Done | None" = None
        self._answer = bytearray()

    @property
    def is_asked(self) -> bool:
        """Whether somebody waits for its answer."""
        return self._done is not None

    def send(self, job: bytes) -> bool:
        """Return whether the process has the whole job; one that died or does not read any more has not."""
        try:
            return posix.write(self.fd, job) == len(job)
        except OSError:
            return False

    def take(self, done: "Done", seconds: float, *, answered: bool = False) -> None:
        """Note the job that it has got, whether the runtime has its answer already, and the seconds for it."""
        self.jobs += 1
        self.state = AFTERWARDS if answered else SERVING
        self.limit, self._seconds, self._done = time.monotonic() + seconds, seconds, done

    def stand_by(self) -> None:
        """Note that it has nothing left to do."""
        self.state, self.limit = STANDING_BY, NEVER

    def fail(self) -> None:
        """Note its end, which is the answer if none has come."""
        self.stand_by()
        done, self._done = self._done, None
        if done is not None:
            done(None, b"")

    def read(self) -> bytes:
        """Return what has arrived; empty at its end."""
        try:
            return posix.read(self.fd, AT_ONCE)
        except OSError:
            return b""  # it died with a job unread

    def take_answers(self, data: bytes) -> "Iterator[int]":
        """Pass a complete answer on; yield FREE or WORN where the process reports it.

        The socket may stay open after its end: in what the process has started.
        """
        self._answer += data
        while len(self._answer) >= _HEAD and len(self._answer) >= (
            end := _HEAD + int.from_bytes(self._answer[:LENGTH], "big")
        ):
            code, payload = self._answer[LENGTH], bytes(self._answer[_HEAD:end])
            del self._answer[:end]
            if code in (FREE, WORN):
                yield code
            elif self._done is not None:
                done, self._done = self._done, None
                self.state, self.limit = AFTERWARDS, time.monotonic() + self._seconds
                done(code, payload)


def pack_job(event: str, payload: bytes, *, answered: bool) -> bytes:
    """Return a job for `read_job`; ``answered``: the runtime has its answer already."""
    job = bytes((answered,)) + event.encode() + b"\0" + payload
    return len(job).to_bytes(LENGTH, "big") + job


def read_job(fd: int) -> bytes:
    """Return the next job without its length; empty at the end of the socket, also after a part of a job."""
    data, size = b"", LENGTH
    while len(data) < size:
        part = posix.read(fd, AT_ONCE)
        if not part:
            return b""
        data += part
        if len(data) >= LENGTH:
            size = LENGTH + int.from_bytes(data[:LENGTH], "big")
    return data[LENGTH:]


def reply_on(fd: int) -> "Reply":
    """Return the function that a process answers with."""

    def reply(code: int, payload: bytes) -> None:
        answer = len(payload).to_bytes(LENGTH, "big") + bytes((code,)) + payload
        while answer:
            answer = answer[posix.write(fd, answer) :]

    return reply


def pack(payload: bytes, others: bytes) -> bytes:
    """Return an answer: the event's payload or why it is refused, and an UpdateContainers for afterwards."""
    return len(payload).to_bytes(LENGTH, "big") + payload + others


def unpack(answer: bytes) -> "tuple[bytes, bytes]":
    """Return the two parts of an answer; both are empty in that of a process that has failed."""
    end = LENGTH + int.from_bytes(answer[:LENGTH], "big")
    return answer[LENGTH:end], answer[end:]
