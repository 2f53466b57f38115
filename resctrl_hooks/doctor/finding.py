"""What a check says."""

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

_SHOWN: Final = 5
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


def some(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
