"""Single keys from a terminal, read without Enter inside a ``with`` block; empty where there is no terminal."""

import contextlib
import os
import re
import select
import sys
import termios
import tty
from types import TracebackType
from typing import Any, Self

# Source: ECMA-48 5.4 for the form of a sequence, and xterm's and VT220's for what these keys send.
_SEQUENCE = re.compile("\x1b(?:\\[[0-9;]*[A-Za-z~]|O[A-Z])")
_NAMES = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x1b[D": "left",
    "\x1bOD": "left",
    "\x1b[C": "right",
    "\x1bOC": "right",
    "\x1b[1;2D": "shift-left",
    "\x1b[1;2C": "shift-right",
    "\x1b[5~": "pageup",
    "\x1b[6~": "pagedown",
    "\x1b[H": "home",
    "\x1bOH": "home",
    "\x1b[1~": "home",
    "\x1b[F": "end",
    "\x1bOF": "end",
    "\x1b[4~": "end",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
}
_READ = 256


class Keys:
    """The keyboard of this terminal. Leaving the ``with`` block always restores the terminal's mode."""

    def __init__(self) -> None:
        self._terminal: list[int] = []  # its descriptor
        self._before: list[Any] = []
        self._typed = ""

    def __enter__(self) -> Self:
        if sys.stdin.isatty():
            self._terminal = [sys.stdin.fileno()]
            self._before = termios.tcgetattr(self._terminal[0])
            tty.setcbreak(self._terminal[0])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before:
            with contextlib.suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(self._terminal[0], termios.TCSADRAIN, self._before)

    def pressed(self, seconds: float) -> str:
        """Return the key pressed within ``seconds``: a character, a name such as ``up``, or an empty string."""
        if not self._typed:
            readable, _, _ = select.select(self._terminal, [], [], max(seconds, 0))
            if not readable:
                return ""
            data = os.read(readable[0], _READ)
            if not data:
                raise EOFError  # the terminal is gone
            self._typed = data.decode("utf-8", "replace")
        key, self._typed = first_key(self._typed)
        return key


def first_key(typed: str) -> tuple[str, str]:
    """Return the first key of a terminal's input, and the rest; keys without a name here are empty."""
    found = _SEQUENCE.match(typed)
    if found:
        return _NAMES.get(found[0], ""), typed[found.end() :]
    return _NAMES.get(typed[0], typed[0]), typed[1:]
