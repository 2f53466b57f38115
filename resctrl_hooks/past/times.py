"""Moments of the past in the words of operators: ``14:00``, ``yesterday 14:00``, ``3m ago``, ISO 8601.

A general parser of dates guesses languages and the order of day and month, and takes half a second to import; a
misread time here would show the wrong hour as the right one.
"""

import re
from datetime import datetime, timedelta
from typing import Final

from resctrl_hooks.node.durations import seconds_of

FORMS: Final = "14:00, 'yesterday 14:00', '3m ago', '1h30m ago', '2d ago', 2026-11-24, or 2026-11-24T14:00:00Z"
_AGO: Final = re.compile(r"((?:[0-9]+(?:\.[0-9]+)?[smhd] ?)+) ?ago")
_PART: Final = re.compile(r"([0-9.]+)([smhd])")
_CLOCK: Final = re.compile(r"(?:(today|yesterday) )?([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_DAY: Final = 86_400.0


def parse_time(text: str, now: datetime) -> datetime:
    """Return a moment with its time zone: that of ``now`` if the text names none.

    A time of day without a date is the last one before now.

    Raises:
        ValueError: not a time, or one in the future.
    """
    words = " ".join(text.split())
    found = _parsed(words.lower(), words, now)
    if found is None:
        raise ValueError(f"{text!r} is not a time such as {FORMS}")
    if found > now:
        raise ValueError(f"{text!r} is in the future: {found.isoformat(' ', 'seconds')}")
    return found


def _parsed(lower: str, words: str, now: datetime) -> datetime | None:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if lower in ("now", "today", "yesterday"):
        return {"now": now, "today": midnight, "yesterday": midnight - timedelta(days=1)}[lower]
    if ago := _AGO.fullmatch(lower):
        seconds = sum(_seconds(number, unit) for number, unit in _PART.findall(ago[1]))
        return now - timedelta(seconds=seconds)
    if clock := _CLOCK.fullmatch(lower):
        day, *parts = clock.groups()
        hour, minute, second = (int(part or 0) for part in parts)
        try:
            found = midnight.replace(hour=hour, minute=minute, second=second)
        except ValueError:
            return None
        earlier = day == "yesterday" or (day is None and found > now)
        return found - timedelta(days=1) if earlier else found
    try:
        found = datetime.fromisoformat(words)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=now.tzinfo)


def _seconds(number: str, unit: str) -> float:
    return float(number) * _DAY if unit == "d" else seconds_of(number + unit) or 0.0
