"""Signals during an experiment: it ends, and restores all values, before a signal ends or stops the process."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from .class_trial import TrialError

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_STOPPING = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_ALL = (signal.SIGINT, *_ENDING, *_STOPPING)


class _StopRequest(BaseException):
    """A signal that stops processes has arrived, such as that of Ctrl-Z."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does."""
    with _handled(_ENDING, _end):
        yield


@contextmanager
def stopped_after_its_end() -> Iterator[None]:
    """Let Ctrl-Z end an experiment first, and stop the process then.

    Raises:
        TrialError: the process was stopped, and continues.
    """
    try:
        with _handled(_STOPPING, _stop):
            yield
    except _StopRequest as stop:
        os.kill(os.getpid(), stop.number)  # with its former action; returns after SIGCONT
        raise TrialError(
            f"{signal.Signals(stop.number).name} ended the experiment: all values are restored", hint="start it again"
        ) from None


def uninterrupted(action: Callable[[], None]) -> None:
    """Call a function; signals that arrive meanwhile act after it."""
    arrived: list[int] = []
    done = False
    try:
        with _handled(_ALL, lambda number, _: arrived.append(number)):
            done = True
            action()
    except BaseException:
        if not done:  # the handler of an earlier signal has raised
            action()
        raise
    finally:
        for number in arrived:
            signal.raise_signal(number)


@contextmanager
def _handled(numbers: tuple[signal.Signals, ...], handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    numbers = tuple(one for one in numbers if signal.getsignal(one) != signal.SIG_IGN)
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _end(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


def _stop(number: int, _: object) -> NoReturn:
    raise _StopRequest(number)
