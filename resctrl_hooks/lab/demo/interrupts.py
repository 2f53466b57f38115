"""Ctrl-C, SIGTERM and SIGHUP during the demo: they end it only where it waits for something.

All other steps, also those that remove what the demo has created, are complete once they have begun: nothing is left
half created or half removed, however often Ctrl-C is pressed.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Interrupts:
    """The first signal that came, and whether the demo waits now."""

    def __init__(self) -> None:
        self.number = 0
        self.waits = False

    def note(self, number: int, _: Any) -> None:
        """Handle a signal."""
        self.number = self.number or number
        if self.waits:
            self.end()

    def end(self) -> None:
        """End the demo."""
        self.waits = False
        raise SystemExit(128 + self.number)


_now = _Interrupts()


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Let signals end the demo only in `waiting`, and at the end of this block."""
    before = {number: signal.signal(number, _now.note) for number in _NUMBERS}
    try:
        yield
        if _now.number:  # it came after the last one
            _now.end()
    finally:
        if not _now.number:  # else this process ends, and further signals change nothing of that
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def waiting() -> Iterator[None]:
    """Wait in this block; a signal ends the demo there, also one that came before."""
    if _now.number:
        _now.end()
    _now.waits = True
    try:
        yield
    finally:
        _now.waits = False
