"""Writes that may fail for a while, as on a full or read-only disk: what they save stays in memory until they succeed.

One rule for baselines, history, status files and totals: a failure is logged once and so is its end, the next try waits
longer each time, and the program goes on.
"""

import time

from .errors import HookError
from .host.files import format_json, write_file
from .log import NOTICE, WARNING, silent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .log import LogCallable

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 600.0
"""Seconds until a failed write is tried again; doubled after each failure, so a full disk costs little."""


class Retried:
    """The writes of one content.

    Args:
        log: logs a line with its priority.
        failing: what a failure means, such as "baselines are only in memory".
        again: the message that writes succeed again.
        pause: seconds until the first new try; 0 to try each time.

    Attributes:
        why: the error of the last try; empty if it succeeded.
    """

    def __init__(
        self, log: "Callable[[int, str], None]", failing: str, again: str, *, pause: float = FIRST_PAUSE
    ) -> None:
        self._log = log
        self._failing = failing
        self._again = again
        self._first = self._pause = pause
        self._due = 0.0
        self.why = ""

    @property
    def is_due(self) -> bool:
        """Whether a write is tried now."""
        return not self.why or time.monotonic() >= self._due

    def attempt(self, write: "Callable[[], object]") -> bool:
        """Write unless the pause after a failure lasts; return whether it was written."""
        if not self.is_due:
            return False
        try:
            write()
        except (HookError, OSError) as error:
            self.failed(reason_of(error))
        else:
            self.succeeded()
            return True
        return False

    def failed(self, why: str) -> None:
        """Note a failure; the first one in a row is logged."""
        if not self.why:
            self._pause = self._first
            self._log(WARNING, f"{self._failing}: {why}")
        self.why = why
        self._due = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def succeeded(self) -> None:
        """Note a success; the first one after a failure is logged."""
        if self.why:
            self._log(NOTICE, self._again)
        self.why = ""


class StatusFile:
    """The file of a program, by its name in the log; ``values`` is its content.

    It is replaced as a whole. An error is logged once, and the program continues without the file.
    """

    values: "Any"

    def __init__(self, path: str, program: str, log: "LogCallable" = silent) -> None:
        self._path = path
        self._writes = Retried(
            lambda priority, text: log(priority, f"{program}: {text}", stage=program),
            f"{path} is not current",
            f"{path} is current again",
            pause=0.0,
        )
        self._written = 0.0
        self._was = b""

    def write(self) -> None:
        """Write the file if anything has changed."""
        self._written = time.monotonic()
        data = format_json(self.values)
        if data != self._was and self._writes.attempt(lambda: write_file(self._path, data, 0o600)):
            self._was = data

    def write_sometimes(self, seconds: float) -> None:
        """Write the file unless that was less than so many seconds ago."""
        if time.monotonic() - self._written > seconds:
            self.write()


def reason_of(error: "HookError | OSError") -> str:
    """Return an error in words, with the file and the kernel's words."""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    return str(error)
