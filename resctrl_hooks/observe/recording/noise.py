"""Noisy users and their times: the rule, the result, and a sentence that names the noisiest pod."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from resctrl_hooks.observe.node.history.rows import REST

from .analysis import BANDWIDTH, Points, Recording, Times, User, domains, together
from .texts import number

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
        for user, points in users.items():
            if user.kind != REST:
                found += _times(user, domain, points, totals, recording.times[user.host])
    most = max((time.moved for time in found), default=0.0)
    return sorted((time for time in found if time.moved > LEAST * most), key=lambda time: -time.moved)


def answer(recording: Recording) -> str:
    """Return one sentence: the pod with the most traffic, its share of all traffic of its host, and its times."""
    times = noisy(recording)
    if not times:
        return "No pod was noisy."
    user, start, end = times[0].user, times[0].start, times[0].end
    for time in times:  # the same burst in other domains
        if time.user == user and time.start < end and time.end > start:
            start, end = min(start, time.start), max(end, time.end)
    before = recording.times[user.host].before
    moved: dict[User, float] = defaultdict(float)
    for users in domains(recording, BANDWIDTH).values():
        for one, points in ((one, points) for one, points in users.items() if one.host == user.host):
            moved[one] += sum(
                rate * (moment - before[moment]) for moment, rate in points.items() if start < moment <= end
            )
    share, rate = moved[user] / sum(moved.values()), moved[user] / (end - start)
    when = f"{_clock(start, end)} to {_clock(end, start)} UTC"
    return f"{user.name} moved {share:.0%} of all memory traffic, {when} ({number(rate / 1e9, 'GB/s')})."


def _clock(moment: float, other: float) -> str:
    """Return a time of day, with seconds if the two are close, with the date if the days differ."""
    one, two = (datetime.fromtimestamp(value, UTC) for value in (moment, other))
    day = "" if one.date() == two.date() else "%Y-%m-%d "
    return one.strftime(f"{day}%H:%M" if abs(moment - other) >= 2 * PAUSE_SECONDS else f"{day}%H:%M:%S")


def _times(user: User, domain: str, points: Points, totals: Points, times: Times) -> list[Noisy]:
    """Return the times of one user in one domain. Traffic during an interruption counts."""
    before, pause = times.before, max(PAUSE_SECONDS, PAUSE_LOOKS * times.usual)
    found: list[Noisy] = []
    peak = max(totals.values())

    def exceeds(part: float) -> bool:
        return points[moment] > part * NOISY_SHARE * totals[moment] and totals[moment] > part * BUSY_SHARE * peak

    new: list[float] = []  # samples since the last time
    for moment in sorted(points):
        new.append(moment)
        start = before[moment]
        if found and start - found[-1].end <= pause and exceeds(STILL):
            last = found[-1]
            moved = last.moved + sum(points[one] * (one - before[one]) for one in new)
            of = last.of + sum(totals[one] * (one - before[one]) for one in new)
            if moved > NOISY_SHARE * of:
                last.end, last.moved, last.of, new = moment, moved, of, []
                continue
        if exceeds(1):
            seconds = moment - start
            found.append(Noisy(user, domain, start, moment, points[moment] * seconds, totals[moment] * seconds))
            new = []
    return found
