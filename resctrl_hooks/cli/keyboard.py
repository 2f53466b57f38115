"""Single keys from a terminal, without Enter, for as long as a ``with`` lasts; nothing where there is no terminal."""

import os
import select
import sys
import termios
import tty
from types import TracebackType
from typing import Any, Self


class Keys:
    """The keyboard of this terminal. Whatever ends the ``with``, the terminal is as it was."""

    def __init__(self) -> None:
        self._fd = -1
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        if sys.stdin.isatty():
            self._fd = sys.stdin.fileno()
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def pressed(self, seconds: float) -> str:
        """The key that is pressed within so many seconds, or an empty string."""
        waiting = [self._fd] if self._fd >= 0 else []
        if not select.select(waiting, [], [], max(seconds, 0))[0]:
            return ""
        data = os.read(self._fd, 1)
        if not data:
            self._fd = -1  # the terminal is gone
            raise EOFError
        return data.decode("ascii", "replace")
