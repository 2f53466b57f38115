"""Processes of this machine: whether they live, their children, and waiting for a change of them or of files."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_EXIT = 60 if os.uname().machine == "x86_64" else 93
"""The number of exit(2), which ends one thread only (asm/unistd.h)."""
_HEADLESS = f"""
import ctypes, os, sys, threading, time
threading.Thread(target=lambda: sys.stdin.read() or os._exit(0)).start()
time.sleep(float(sys.argv[1]))
ctypes.CDLL(None).syscall({_EXIT}, 0)
"""
PATIENCE = 120
"""Seconds: only so that a hang ends with a message."""


def is_alive(pid: int) -> bool:
    """Return whether a process has not ended; one that its parent has not waited for has."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0] not in "ZX" or int(fields[17]) > 1  # threads may go on without the main thread
    except (FileNotFoundError, ProcessLookupError):  # the latter if it ends between open and read
        return False


def children(pid: int) -> list[int]:
    """Return the children of a process, also those that ended and it has not waited for."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_until(condition: Callable[[], object], what: object = "") -> None:
    """Wait for a condition; ``what`` is in the message if it never holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@contextmanager
def headless_process(delay: float = 0) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process whose main thread ends after ``delay`` seconds, while another thread goes on.

    The process ends when its standard input is closed.
    """
    process = subprocess.Popen([sys.executable, "-c", _HEADLESS, str(delay)], stdin=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def is_headless(pid: int) -> bool:
    """Return whether the main thread of a process has ended, and another thread goes on."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0] == "Z" and int(fields[17]) > 1
