"""Processes of this machine: whether they live, their children, and waiting for a change of them or of files."""

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 120
"""Seconds: only so that a hang ends with a message."""


def is_alive(pid: int) -> bool:
    """Return whether a process has not ended; one that its parent has not waited for has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
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
