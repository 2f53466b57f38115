"""Moments of the past in the words of operators: ``14:00``, ``yesterday 14:00``, ``3m ago``, ISO 8601.

A general parser of dates guesses languages and the order of day and month, and takes half a second to import; a
misread time here would show the wrong hour as the right one.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from resctrl_hooks.core.node.durations import seconds_of

FORMS: Final = "14:00, 'yesterday 14:00', '3m ago', '1h30m ago', '2d ago', 2026-11-24, or 2026-11-24T14:00:00Z"
_AGO: Final = re.compile(r"((?:[0-9]+(?:\.[0-9]+)?[smhd] ?)+) ?ago")
_PART: Final = re.compile(r"([0-9.]+)([smhd])")
_CLOCK: Final = re.compile(r"(?:(today|yesterday) )?([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_DAY: Final = 86_400.0
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_YEAR: Final = 9998
"""The last year whose times exist in every zone."""
_REMEDY: Final = "enter a time of the past, such as '3m ago'"
_LAST_HOUR, _LAST_MINUTE = 23, 59


def parse_time(text: str, now: datetime) -> datetime:
    """Return a moment with its offset from UTC.

    Local times are in the zone of ``now``. If ``now`` has the system's present offset, this is the system's zone with
    its rules, so that a time in summer has summer's offset. A time of day without a date is the last one before now.

    Raises:
        ValueError: not a time, one before 1970, or one in the future; the text is a sentence with a remedy.
    """
    words = " ".join(text.split())
    try:
        found = _parsed(words.lower(), now)
    except OverflowError:  # of timedelta, of a date, or of the system's clock
        found = _EPOCH - timedelta(days=1)
    if found is None:
        raise ValueError(f"{text!r} is not a time such as {FORMS}")
    if found < _EPOCH:
        raise ValueError(f"{text!r} is before 1970; {_REMEDY}")
    if found > now.astimezone(UTC):
        raise ValueError(f"{text!r} is in the future: {found.isoformat(' ', 'seconds')}; {_REMEDY}")
    return found


def _parsed(words: str, now: datetime) -> datetime | None:
    if words == "now":
        return now
    if ago := _AGO.fullmatch(words):
        seconds = sum(_seconds(number, unit) for number, unit in _PART.findall(ago[1]))
        return (now.astimezone(UTC) - timedelta(seconds=seconds)).astimezone(now.tzinfo)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    before = midnight - timedelta(days=1)
    if words in ("today", "yesterday"):
        return _local(midnight if words == "today" else before, now)
    if clock := _CLOCK.fullmatch(words):
        day, *parts = clock.groups()
        hour, minute, second = (int(part or 0) for part in parts)
        if hour > _LAST_HOUR or max(minute, second) > _LAST_MINUTE:
            return None
        days = {"today": (midnight,), "yesterday": (before,), None: (midnight, before)}[day]
        times = [one.replace(hour=hour, minute=minute, second=second, fold=fold) for one in days for fold in (1, 0)]
        found = [_local(one, now) for one in times]
        return next((one for one in found if one <= now.astimezone(UTC)), found[0])
    try:
        dated = datetime.fromisoformat(words.upper())
    except ValueError:
        return None
    if dated.year < _EPOCH.year - 1:  # a conversion to another zone would leave the years of Python
        raise OverflowError
    dated = dated.replace(
        year=min(dated.year, _LAST_YEAR), day=min(dated.day, 28) if dated.year > _LAST_YEAR else dated.day
    )
    return dated if dated.tzinfo else _local(dated, now)


def _local(time: datetime, now: datetime) -> datetime:
    """Return a local time with the offset that it has in the zone of ``now``, which may differ from the present one."""
    if now.astimezone().utcoffset() == now.utcoffset():
        return time.astimezone()
    moment = time.replace(tzinfo=now.tzinfo)
    return moment.astimezone(timezone(moment.utcoffset() or timedelta()))


def _seconds(number: str, unit: str) -> float:
    return float(number) * _DAY if unit == "d" else seconds_of(number + unit) or 0.0
