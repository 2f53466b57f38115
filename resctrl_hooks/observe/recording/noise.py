"""Noisy users and their times: the rule, the result, and a sentence that names the noisiest pod."""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isnan
from typing import Final

from resctrl_hooks.core.inventory.amounts import scaled
from resctrl_hooks.observe.node.history.rows import REST

from .analysis import BANDWIDTH, domains, together
from .times import Times
from .tracks import Line, Recording, User, known

NOISY_SHARE: Final = 1 / 3
"""A user becomes noisy when it causes more than this share of its L3 domain's traffic …"""
BUSY_SHARE: Final = 1 / 2
"""… and the domain's traffic exceeds this share of its own peak in the recording."""
STILL: Final = 2 / 3
"""It stays noisy while both exceed this part of those limits …"""
PAUSE_SECONDS: Final = 60.0
PAUSE_LOOKS: Final = 3
"""… and during interruptions of at most so many seconds or samples, while it has the first share of all that time."""
LEAST: Final = 1 / 20
"""Times with less traffic than this part of the largest one's are left out."""


@dataclass(slots=True)
class Noisy:
    """A time in which one user caused most of a domain's traffic: its bytes, and those ``of`` the whole domain."""

    user: User
    domain: str
    start: float
    end: float
    moved: float
    of: float


def noisy(recording: Recording) -> list[Noisy]:
    """Return noisy users and times, the most bytes first."""
    found: list[Noisy] = []
    for domain, users in domains(recording, BANDWIDTH).items():
        totals = together(users.values())
        for user, line in users.items():
            if user.kind != REST:
                found += _times(user, domain, line, totals, recording.times[user.host])
    most = max((time.moved for time in found), default=0.0)
    return sorted((time for time in found if time.moved > LEAST * most), key=lambda time: -time.moved)


def answer(recording: Recording, times: list[Noisy]) -> str:
    """Return one sentence: the pod with the most traffic, its share of all traffic of its host, and its ``times``."""
    if not times:
        return "No pod was noisy."
    user, start, end = times[0].user, times[0].start, times[0].end
    for time in times:  # the same burst in other domains
        if time.user == user and time.start < end and time.end > start:
            start, end = min(start, time.start), max(end, time.end)
    of = recording.times[user.host]
    span = slice(bisect_right(of.each, start), bisect_right(of.each, end))
    lengths = of.lengths[span]
    own = whole = 0.0
    for users in domains(recording, BANDWIDTH).values():
        for one, line in users.items():
            if one.host == user.host:
                moved = _moved(line[span], lengths)
                whole += moved
                own += moved if one == user else 0.0
    when = f"{clock(start, end)} to {clock(end, start)} UTC"
    return f"{user.name} moved {own / whole:.0%} of all memory traffic, {when} ({scaled(own / (end - start), 'B/s')})."


def _moved(line: Line, lengths: list[float]) -> float:
    """Return the bytes of known rates."""
    return sum(rate * seconds for rate, seconds in zip(line, lengths, strict=True) if not isnan(rate))


def clock(moment: float, other: float) -> str:
    """Return a time of day, with seconds if the two are close, with the date if the days differ."""
    one, two = (datetime.fromtimestamp(value, UTC) for value in (moment, other))
    day = "" if one.date() == two.date() else "%Y-%m-%d "
    return one.strftime(f"{day}%H:%M" if abs(moment - other) >= 2 * PAUSE_SECONDS else f"{day}%H:%M:%S")


def _times(user: User, domain: str, line: Line, totals: Line, times: Times) -> list[Noisy]:
    """Return the times of one user in one domain. Traffic during an interruption counts."""
    if not any(rate > NOISY_SHARE * total for rate, total in zip(line, totals, strict=True)):
        return []
    each, lengths, pause = times.each, times.lengths, max(PAUSE_SECONDS, PAUSE_LOOKS * times.usual)
    found: list[Noisy] = []
    peak = max(known(totals))

    def exceeds(part: float) -> bool:
        return line[at] > part * NOISY_SHARE * totals[at] and totals[at] > part * BUSY_SHARE * peak

    since = 0  # the place after the last noisy sample
    for at, rate in enumerate(line):
        if isnan(rate):
            continue
        start = each[at] - lengths[at]
        if found and start - found[-1].end <= pause and exceeds(STILL):
            last, new = found[-1], [one for one in range(since, at + 1) if not isnan(line[one])]
            moved = last.moved + sum(line[one] * lengths[one] for one in new)
            of = last.of + sum(totals[one] * lengths[one] for one in new)
            if moved > NOISY_SHARE * of:
                last.end, last.moved, last.of, since = each[at], moved, of, at + 1
                continue
        if exceeds(1):
            found.append(Noisy(user, domain, start, each[at], rate * lengths[at], totals[at] * lengths[at]))
            since = at + 1
    return found
