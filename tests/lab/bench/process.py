"""Measurement of one whole process."""

import os
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

# A process starts with the peak memory of its predecessor before exec. Forked from a bare interpreter, that is less
# than any interpreter's own; this process's own, with all its imports, would hide the result.
_PEAK = """
import posix, sys
stdin = posix.open(sys.argv[1], posix.O_RDONLY)
posix.dup2(stdin, 0)
child = posix.fork()
if not child:
    posix.execve(sys.argv[2], sys.argv[2:], {"PATH": "/usr/bin:/bin"})
_, status, usage = posix.wait4(child, 0)
print(status, usage.ru_maxrss)
"""
_ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


class FailedError(Exception):
    """A process that did not end as it should; its time would be no measurement."""


class Call(NamedTuple):
    """A command, and the file that it reads."""

    command: list[str]
    stdin: Path

    def seconds(self) -> tuple[float, float]:
        """Run it and return its duration, and its processor time including children."""
        stderr = self.stdin.with_suffix(".stderr")
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, str(self.stdin), os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, str(stderr), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        ]
        begin = time.perf_counter()
        child = os.posix_spawn(self.command[0], self.command, _ENVIRONMENT, file_actions=actions)
        _, status, usage = os.wait4(child, 0)
        took = time.perf_counter() - begin
        self._check(status, stderr.read_text())
        return took, usage.ru_utime + usage.ru_stime

    def peak(self, python: str) -> int:
        """Run it and return the kilobytes of memory of the largest process in it."""
        told = subprocess.run(
            [python, "-I", "-S", "-c", _PEAK, str(self.stdin), *self.command],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        status, kilobytes = told.stdout.split()
        self._check(int(status), told.stderr)
        return int(kilobytes)

    def instructions(self) -> int:
        """Run it in valgrind and return how many instructions it executes outside the kernel, children included."""
        log = self.stdin.with_suffix(".valgrind")
        for old in log.parent.glob(f"{log.name}.*"):
            old.unlink()
        options = ["--tool=callgrind", "--callgrind-out-file=/dev/null", "--trace-children=yes", f"--log-file={log}.%p"]
        with self.stdin.open("rb") as stdin:
            done = subprocess.run(
                ["valgrind", *options, *self.command],
                stdin=stdin, capture_output=True, text=True, env=_ENVIRONMENT, check=False,
            )  # fmt: skip
        self._check(done.returncode, done.stderr)
        found = 0
        for file in log.parent.glob(f"{log.name}.*"):
            for line in file.read_text().splitlines():
                if "Collected :" in line:
                    found += int(line.rpartition(":")[2])
        return found

    def _check(self, status: int, stderr: str) -> None:
        if status or stderr:
            raise FailedError(f"status {status} of {' '.join(self.command)}: {stderr}")
