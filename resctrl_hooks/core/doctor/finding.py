"""The result of a check, and a check."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from .host import Host

_SHOWN: Final = 5
Level = Literal["ok", "warning", "problem"]


class NotFixedError(Exception):
    """A fix did not remove the problem; the message is the reason."""


class Finding(NamedTuple):
    """One line of doctor's output.

    ``fix`` fixes the problem where that is safe, that is, without changing running containers; it returns a description
    of the fix, and raises `NotFixedError` if the problem remains.
    """

    level: Level
    text: str
    remedy: str = ""
    fix: Callable[[], str] | None = None


class Check(NamedTuple):
    """A check of `doctor`, in the ``CHECKS`` of a module, which a house's part names.

    Args:
        find: yields the findings.
        of_files: whether the check also applies to an image, where no process runs.
        after: the check that it follows on the screen; empty for the last check of the parts before.
    """

    find: Callable[[Host], Iterator[Finding]]
    of_files: bool = False
    after: str = ""


def ok(text: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding("ok", text)


def warning(text: str, remedy: str, fix: Callable[[], str] | None = None) -> Finding:
    """Return a finding that limits something, or that may be intended."""
    return Finding("warning", text, remedy, fix)


def problem(text: str, remedy: str, fix: Callable[[], str] | None = None) -> Finding:
    """Return a finding that keeps containers from getting a configured feature."""
    return Finding("problem", text, remedy, fix)


def some(names: Sequence[str], shown: int = _SHOWN) -> str:
    """Return the first few names and the number of the others."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
