"""What a check says."""

from collections.abc import Callable
from typing import Literal, NamedTuple

Level = Literal["ok", "warning", "problem"]


class Finding(NamedTuple):
    """One line of the examination.

    ``fix`` mends it where that is safe, which means that nothing that runs changes by it; it returns what it did.
    """

    level: Level
    text: str
    remedy: str = ""
    fix: Callable[[], str] | None = None


def ok(text: str) -> Finding:
    """Nothing to do."""
    return Finding("ok", text)


def warning(text: str, remedy: str, fix: Callable[[], str] | None = None) -> Finding:
    """Something that works less well than it could, or that somebody may have wanted so."""
    return Finding("warning", text, remedy, fix)


def problem(text: str, remedy: str, fix: Callable[[], str] | None = None) -> Finding:
    """Something because of which containers go without what is configured."""
    return Finding("problem", text, remedy, fix)
