"""The file ``totals/counters``: the counter data of keys over the ends of their groups."""

from ..shapes import LARGEST, Annotated, Anything, Count, Flag, NotRequired, Number, Text, TypedDict, exactly, fits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OR_NONE = {int, float, type(None)}


def _are_numbers(value: "Any") -> bool:
    if type(value) is not list or not {*map(type, value)} <= _OR_NONE:
        return False
    known = [one for one in value if one is not None]
    return not known or max(map(abs, known)) < LARGEST


def _are_paths(value: "Any") -> bool:
    return fits(list[Text], value) and not any(one[:1] == "/" or ".." in one for one in value)


_Lasts = Annotated["list[Any]", _are_numbers]
"""The last values, or null."""
_Amounts = Annotated["Any", lambda value: value == 0 or _are_numbers(value)]
"""Each counter's amount less its last value, and 0 if all are 0.

Without a last value, the item is the negative start value, or null if the first value is the start.
"""
_Gaps = Annotated["Any", lambda value: value == 0 or fits(list[Number], value)]
"""The seconds that each count lacks, and 0 if all are 0."""
_State = Annotated[int, lambda value: type(value) is int and 0 <= value <= 2]  # noqa: PLR2004  # as in `key_counts`
_ByPath = dict[Text, dict[Text, Number]]
_Turn = Annotated["list[int | float]", exactly(Number, Number)]
"""Seconds and bytes."""


class CountsRecord(TypedDict):
    """A key's counter data; times in seconds since the boot."""

    groups: dict[Text, Annotated["list[Any]", exactly(Text, _Amounts, _Lasts)]]
    """By class, the key's own group: its identity, amounts and last values."""
    times: NotRequired[dict[Text, Annotated["list[Any]", exactly(Number, _Gaps, Number)]]]
    """By class, when the longest count began, what the others lack, and the last read."""
    done: NotRequired[_ByPath]
    """By class and path, the amounts of counters without a last value in ``groups``."""
    spent: NotRequired[_ByPath]
    """By class and path, the seconds that ``times`` does not have."""
    others: NotRequired[dict[Text, Annotated["list[Any]", exactly(Number, Text, _Amounts, _Lasts)]]]
    """By CLASS/GROUP, further groups that count for the key: the last read, and as in ``groups``."""
    unseen: NotRequired[dict[Text, Annotated["list[Any]", exactly(Text, _State, Flag, Number, _Lasts, _Lasts)]]]
    """By identity, groups that the last read did not see; earlier versions ignore them.

    The last place, the state, whether the identity is certain, the last read, amounts and last values.
    """
    inherited: NotRequired[dict[Text, Annotated["list[Any]", exactly(Text, Number, dict[Text, Number])]]]
    """By class, the identity of a group of another key, since when it is this key's, and its gauges' values then."""
    turns: NotRequired[list[_Turn]]
    """The last turns of a time-sharing key."""
    turn: NotRequired[_Turn]
    """The end of the last one."""
    ended: NotRequired[dict[Text, Number]]
    """The last read of groups that other programs have removed, by their name, or by the key for its own group."""
    gone: NotRequired[Count]
    """Since when the key is released, in seconds since 1970."""
    left: NotRequired[Number]
    """The same in seconds since the boot; version 0.2 ignores it."""


class CountersRecord(TypedDict):
    """The whole file, whose format and boot `totals_file` compares."""

    format: Annotated[int, Anything]
    boot: Annotated[str, Anything]
    layout: Annotated["list[str]", _are_paths]
    """The paths of the counters, in the order of all lists."""
    keys: dict[Text, Annotated["CountsRecord", Anything]]
    """Each one is checked when it is used: a damaged one is empty."""
    saved: NotRequired[Number]
    """When it was written, in seconds since the boot; not in version 0.2."""
    mount: NotRequired[list[Text]]
    """The times of resctrl's folders, as of `mounts.witnesses`."""
