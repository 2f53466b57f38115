"""What a group's new numbers mean for what is kept of it: offsets, last numbers, times. `carried` says what for."""

from .counters import UNASSIGNED, UNAVAILABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..records import CountsRecord
    from .counters import Raw, Slot

INHERITED_SECONDS = 60.0  # for which an RMID's cache lines may be its previous user's, who runs on without it


def set_never_ran(group: "list[Any]", values: "list[Raw]", energy: "list[tuple[int, int]]") -> None:
    """Set a PERF_PKG counter of a group to 0 where the kernel says `Unavailable` and nothing was counted before.

    The kernel says so until a task of the group's RMID has run in that package. ``energy`` has the counters' places, in
    the group's entry and in ``values``.
    """
    _, offsets, lasts = group
    for number, place in energy:
        if values[place] == UNAVAILABLE and not lasts[number] and not (offsets and offsets[number]):
            values[place] = 0


def counted_on(group: "list[Any]", numbers: "list[Raw]") -> "list[Any]":
    """Return a group's entry after it said these numbers.

    One that went back counts on from there: the total stands still. An offset of None waits for the first number, from
    which the counter then counts. One that is unassigned will begin at 0.
    """
    identity, offsets, lasts = group
    for last, number in zip(lasts, numbers):
        if last is None or number is None or number.__class__ is str or number < last:
            break
    else:
        return [identity, offsets, numbers]
    offsets = list(offsets or [0] * len(numbers))
    kept = []
    for place, (last, number) in enumerate(zip(lasts, numbers)):
        if number is None or isinstance(number, str):
            if number == UNASSIGNED and last is not None and offsets[place] is not None:
                offsets[place] += last
                last = None  # noqa: PLW2901  # what it said is in the offset now
            kept.append(last)
            continue
        if offsets[place] is None:
            offsets[place] = -number
        elif last is not None and number < last:
            offsets[place] += last - number
        kept.append(number)
    return [identity, 0 if all(offset == 0 for offset in offsets) else offsets, kept]


def timed_on(times: "list[Any]", before: "list[Any]", numbers: "list[Raw]", now: float, *, fresh: bool) -> "list[Any]":
    """Return a group's times after it said these numbers. Those of a ``fresh`` one have counted since it was made."""
    since, gaps, looked = times
    _, offsets, lasts = before
    gaps = list(gaps or [0] * len(numbers))
    offsets = offsets or [0] * len(numbers)
    for place, (last, number) in enumerate(zip(lasts, numbers)):
        if number is None or isinstance(number, str):
            counted = False
        elif last is None:
            counted = fresh and offsets[place] is not None
        else:
            counted = number >= last
        if not counted:
            gaps[place] = round(gaps[place] + now - looked, 3)
    return [since, gaps if any(gaps) else 0, now]


def spend(kept: "CountsRecord", rdt_class: str, name: str, seconds: float) -> None:
    """Add seconds that a counter of a class has counted, of a group that is done with."""
    if seconds > 0:
        spent = kept.setdefault("spent", {}).setdefault(rdt_class, {})
        spent[name] = round(spent.get(name, 0) + seconds, 3)


def counted(last: "int | float | None", offset: "int | float | None") -> "int | float | None":
    """What a counter of a group has counted; None where it never said a number.

    One that is unassigned has all that it counted in its offset. Below zero, that is only where it will count from.
    """
    offset = offset or 0
    return None if last is None and offset <= 0 else (last or 0) + offset


def add(
    kept: "CountsRecord", rdt_class: str, name: str, last: "int | float | None", offset: "int | float | None"
) -> None:
    """Add what a counter of a class has counted, of a group that is done with."""
    value = counted(last, offset)
    if value is not None:
        done = kept.setdefault("done", {}).setdefault(rdt_class, {})
        done[name] = done.get(name, 0) + value


def trust(kept: "CountsRecord", groups: "dict[str, tuple[str, list[Raw]]]", slots: "list[Slot]", now: float) -> None:
    """Forget that groups were inherited, once what their gauges say is their own."""
    inherited = kept.get("inherited")
    if not inherited:
        return
    for rdt_class, (identity, since, lines) in list(inherited.items()):
        now_identity, values = groups.get(rdt_class, ("", []))
        numbers = {slot.path: n for slot, n in zip(slots, values) if n is not None and not isinstance(n, str)}
        waned = all(numbers.get(path, start) < start for path, start in lines.items())
        if now_identity != identity or waned or not 0 <= now - since < INHERITED_SECONDS:
            del inherited[rdt_class]
    if not inherited:
        del kept["inherited"]
