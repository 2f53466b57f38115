"""The work of a call, as the number of executed lines: the same in each run and on each machine."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Work:
    """The number of lines of the node half that were executed."""

    lines = 0


class TooMuchWorkError(BaseException):
    """The work exceeds what a test permits; no handler in the code under test catches it."""


@contextmanager
def counted(most: int = 20_000_000) -> Iterator[Work]:
    """Count the lines of the node half while the block runs; stop it after so many."""
    work = Work()

    def on_line(_frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            work.lines += 1
            if work.lines > most:
                raise TooMuchWorkError
        return on_line

    def on_call(frame: FrameType, _event: str, _argument: Any) -> Any:
        return on_line if "resctrl_hooks" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        yield work
    finally:
        sys.settrace(before)
