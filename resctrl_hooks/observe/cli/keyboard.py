"""Single keys from a terminal, read without Enter inside a ``with`` block; empty where there is no terminal.

Clicks of the mouse are keys, and so are signals that concern the terminal.
"""

import contextlib
import os
import re
import select
import signal
import sys
import termios
import tty
from types import TracebackType
from typing import IO, Any, Final, Self

from resctrl_hooks.observe.cli.top_state import CLICK

# Source: ECMA-48 5.4 for the form of a sequence, and xterm's and VT220's for what these keys send. A terminal that
# does not know the form `<` of the mouse's events sends M and three characters.
_SEQUENCE = re.compile("\x1b(?:\\[M.{3}|\\[[0-9;<]*[A-Za-z~]|O[A-Z])", re.DOTALL)
_PARTIAL = re.compile("\x1b(\\[(M.{0,2}|[0-9;<]*)|O)?$", re.DOTALL)
_REST = 0.05  # seconds in which the rest of a sequence arrives, as of a fast mouse wheel
_MOUSE = re.compile("\x1b\\[<([0-9]+);[0-9]+;([0-9]+)M")
_LEFT, _WHEEL = 0, {64: "up", 65: "down"}
_MOUSE_ON, _MOUSE_OFF = "\x1b[?1000h\x1b[?1006h", "\x1b[?1006l\x1b[?1000l"
SUSPEND, CONTINUE, RESIZE = "suspend", "continue", "resize"
_SIGNALS: Final = {signal.SIGTSTP: SUSPEND, signal.SIGCONT: CONTINUE, signal.SIGWINCH: RESIZE}
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
    """The keyboard of this terminal. Leaving the ``with`` block always restores the terminal's mode and the signals.

    Args:
        out: the terminal's output, where the mouse is wanted.
    """

    def __init__(self, out: IO[str] | None = None) -> None:
        self._out = out
        self._terminal: list[int] = []  # its descriptor
        self._before: list[Any] = []
        self._handlers: dict[int, Any] = {}
        self._wake: list[int] = []
        """Both ends of a pipe with the numbers of signals."""
        self._typed = ""

    def __enter__(self) -> Self:
        if sys.stdin.isatty():
            self._terminal = [sys.stdin.fileno()]
            self._before = termios.tcgetattr(self._terminal[0])
            self._wake = [*os.pipe()]
            os.set_blocking(self._wake[1], False)  # as `set_wakeup_fd` requires
            self._handlers = {number: signal.signal(number, _noted) for number in _SIGNALS}
            signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
            tty.setcbreak(self._terminal[0])
            self._write(_MOUSE_ON)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._before:
            return
        # A process in the background that sets the mode is stopped otherwise, and so would not end.
        stops = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            self._write(_MOUSE_OFF)
            with contextlib.suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(self._terminal[0], termios.TCSADRAIN, self._before)
        finally:
            signal.signal(signal.SIGTTOU, stops)
            signal.set_wakeup_fd(-1)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            for end in self._wake:
                os.close(end)

    def _write(self, text: str) -> None:
        if self._out is not None:
            with contextlib.suppress(OSError):  # the terminal is gone
                self._out.write(text)
                self._out.flush()

    def pressed(self, seconds: float) -> str:
        """Return the key pressed within ``seconds``: a character, a name such as ``up``, or an empty string."""
        if not self._typed:
            readable, _, _ = select.select([*self._terminal, *self._wake[:1]], [], [], max(seconds, 0))
            if not readable:
                return ""
            data = os.read(readable[0], _READ)
            if readable[0] in self._wake:
                return next((_SIGNALS[one] for one in _SIGNALS if one in data), "")
            if not data:
                raise EOFError  # the terminal is gone
            self._typed = data.decode("utf-8", "replace")
            while data and _PARTIAL.search(self._typed) and select.select(self._terminal, [], [], _REST)[0]:
                data = os.read(self._terminal[0], _READ)
                self._typed += data.decode("utf-8", "replace")
        key, self._typed = first_key(self._typed)
        return key


def _noted(number: int, frame: object) -> None:
    """Handle a signal that `Keys.pressed` returns as a key."""


def first_key(typed: str) -> tuple[str, str]:
    """Return the first key of a terminal's input, and the rest; keys without a name here are empty."""
    found = _SEQUENCE.match(typed)
    if found is None:
        return _NAMES.get(typed[0], typed[0]), typed[1:]
    rest = typed[found.end() :]
    if mouse := _MOUSE.fullmatch(found[0]):
        button, line = int(mouse[1]), int(mouse[2]) - 1
        return f"{CLICK}{line}" if button == _LEFT else _WHEEL.get(button, ""), rest
    return _NAMES.get(found[0], ""), rest
