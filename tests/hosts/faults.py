"""Operations that fail: the one way in which tests inject errors and kills into code of their own process.

Whole processes get their faults from strace instead: `traced_hook`.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from pkgutil import resolve_name
from typing import Any, Protocol

import pytest

Error = BaseException | Callable[..., BaseException]


@contextmanager
def failing(owner: Any, name: str, error: Error, *, when: Callable[..., bool] | None = None) -> Iterator[None]:
    """Let an operation of a module (or its name), class or object fail inside the context.

    Each call that ``when`` accepts by its arguments raises a copy of the error, or what a function returns for them.
    """
    if isinstance(owner, str):
        owner = resolve_name(owner)
    real = getattr(owner, name)

    def called(*given: Any, **named: Any) -> Any:
        if when and not when(*given, **named):
            return real(*given, **named)
        raise copy(error) if isinstance(error, BaseException) else error(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, called)
        yield


def hanging(seconds: float) -> Callable[..., BaseException]:
    """Return an error for `failing` that comes after so many seconds, if nothing interrupts the call before."""

    def error(*_given: Any, **_named: Any) -> BaseException:
        time.sleep(seconds)
        return AssertionError("the call was not interrupted")

    return error


class Fail(Protocol):
    """The fixture `fail`: `failing` until the end of the test."""

    def __call__(self, owner: Any, name: str, error: Error, *, when: Callable[..., bool] | None = ...) -> None:
        """Let an operation fail."""
