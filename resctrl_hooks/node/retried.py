"""Writes that may fail for a while, as on a full or read-only disk: what they save stays in memory until they succeed.

One rule for baselines, history, status files and totals: a failure is said once and so is its end, the next try waits
longer each time, and the program goes on.
"""

import time

from .errors import HookError
from .log import NOTICE, WARNING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 600.0
"""Seconds until a failed write is tried again; doubled after each failure, so a full disk costs little."""


class Retried:
    """The writes of one file.

    Args:
        what: the content in words, for log lines, such as "baselines".
        say: logs a line with its priority.
        consequence: what a failure means, for the log line.
        pause: seconds until the first new try; 0 tries each time.

    Attributes:
        failing: the error of the last try; empty if it succeeded.
        failures: the number of failed tries.
    """

    def __init__(
        self,
        what: str,
        say: "Callable[[int, str], None]",
        consequence: str = "kept in memory until a later try succeeds",
        *,
        pause: float = FIRST_PAUSE,
    ) -> None:
        self._what = what
        self._say = say
        self._consequence = consequence
        self._first = self._pause = pause
        self._due = 0.0
        self.failing = ""
        self.failures = 0

    @property
    def is_due(self) -> bool:
        """Whether a write is tried now."""
        return not self.failing or time.monotonic() >= self._due

    def attempt(self, write: "Callable[[], object]") -> bool:
        """Write unless the pause after a failure lasts; return whether it was written."""
        if not self.is_due:
            return False
        try:
            write()
        except HookError as error:
            self.failed(str(error))
        except OSError as error:
            self.failed(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))
        else:
            self.succeeded()
            return True
        return False

    def failed(self, why: str) -> None:
        """Note a failure; the first of a row is said."""
        if not self.failing:
            self._pause = self._first
            self._say(WARNING, f"{self._what} not saved: {why}; {self._consequence}")
        self.failing = why
        self.failures += 1
        self._due = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def succeeded(self) -> None:
        """Note a success; the first after a failure is said."""
        if self.failing:
            self._say(NOTICE, f"{self._what} saved again")
        self.failing = ""
