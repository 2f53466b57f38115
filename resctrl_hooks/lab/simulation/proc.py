"""The thread data that a simulation reads from /proc."""

import os
from typing import NamedTuple

_ROOT = "/proc"


class Life(NamedTuple):
    """One thread's life: a thread id can be reused, but not together with its start time."""

    start: int
    """Clock ticks after the boot."""
    zombie: bool


class Proc:
    """Queries on a mounted /proc. For a thread that is gone, the result is empty or None, never an exception."""

    def _read(self, path: str) -> bytes:
        try:
            descriptor = os.open(f"{_ROOT}/{path}", os.O_RDONLY)
        except OSError:
            return b""
        try:
            return os.read(descriptor, 65536)
        except OSError:
            return b""
        finally:
            os.close(descriptor)

    def life(self, tid: int) -> Life | None:
        """Return the thread's life; None if it does not exist."""
        fields = self._read(f"{tid}/stat").rpartition(b")")[2].split()
        return Life(int(fields[19]), fields[0] == b"Z") if len(fields) > 19 else None  # noqa: PLR2004

    def _status(self, tid: int) -> dict[bytes, list[bytes]]:
        lines = (line.partition(b":") for line in self._read(f"{tid}/status").splitlines())
        return {name: value.split() for name, _, value in lines}

    def lineage(self, tid: int) -> tuple[int, int] | None:
        """Return the thread's process and that process's parent."""
        status = self._status(tid)
        return (int(status[b"Tgid"][0]), int(status[b"PPid"][0])) if status else None

    def owners(self, tid: int) -> tuple[int, int] | None:
        """Return its real and its saved user id."""
        status = self._status(tid)
        return (int(status[b"Uid"][0]), int(status[b"Uid"][2])) if status else None

    def children(self, tid: int) -> set[int]:
        """Return the processes that this thread started."""
        return {int(word) for word in self._read(f"{tid}/task/{tid}/children").split()}

    def threads(self, pid: int) -> set[int]:
        """Return all threads of the process that `pid` leads; empty for a thread that leads none."""
        try:
            found = {int(name) for name in os.listdir(f"{_ROOT}/{pid}/task")}
        except OSError:
            return set()
        # The folder of a thread that leads no process lists the whole process too.
        lineage = self.lineage(pid) if len(found) > 1 else None
        return found if lineage is None or lineage[0] == pid else set()

    def cpus(self, tid: int) -> str:
        """Return the CPUs that the thread may run on, such as ``0-3,8``."""
        return b"".join(self._status(tid).get(b"Cpus_allowed_list", [])).decode()

    def everything(self) -> list[int]:
        """Return every thread of the machine."""
        return [tid for name in os.listdir(_ROOT) if name.isdigit() for tid in sorted(self.threads(int(name)))]
