"""The result of a check."""

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

_SHOWN: Final = 5
Level = Literal["ok", "warning", "problem"]


class Finding(NamedTuple):
    """One line of doctor's output.

    ``fix`` fixes the problem where that is safe, that is, without changing running containers; it returns a description
    of the fix.
    """

    level: Level
    text: str
    remedy: str = ""
    fix: Callable[[], str] | None = None


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
