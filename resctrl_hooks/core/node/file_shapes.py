"""The shapes of the state files besides the records of pods and containers, which most calls of a hook do not read."""

from .shapes import LARGEST, anything, bit, by_name, by_number, count, each, exactly, fields, flag, number, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .shapes import Shape


_OR_NONE = {int, float, type(None)}


def texts(values: "Sequence[Any]") -> bool:
    """Return whether all values fit `text`."""
    return {str}.issuperset(map(type, values)) and text("".join(values))


def paths(values: "Sequence[Any]") -> bool:
    """Return whether all values fit `path`."""
    return texts(values) and "/.." not in "".join(values) and {"", "/"}.issuperset({value[:1] for value in values})


def counts(values: "Sequence[Any]") -> bool:
    """Return whether all values fit `count`."""
    return {int}.issuperset(map(type, values)) and min(values) >= 0 and max(values) < LARGEST


def table(*columns: "Callable[[Sequence[Any]], bool]") -> "Shape":
    """Return the shape of a list of lists with these columns; checked by column, as each hook reads all containers."""

    def fits(value: "Any") -> bool:
        if type(value) is not list or not {list}.issuperset(map(type, value)):
            return False
        if not {len(columns)}.issuperset(map(len, value)):
            return False
        return all(shape(column) for shape, column in zip(columns, zip(*value)))

    return fits


_BY_NUMBER = by_name(text)


TOPOLOGY = fields(
    {
        "as": each(text),
        "topology": fields(
            {
                "format": count,
                "online": lambda value: text(value) and value != "",
                **dict.fromkeys(("offline", "isolated"), text),
                **dict.fromkeys(("packages", "dies", "l3", "kinds"), _BY_NUMBER),
                "cores": each(text),
                "nodes": each(
                    fields({"id": bit, "cpus": text, "distances": by_name(count), "memory": count, "kind": text}, {})
                ),
            },
            {},
        ),
    },
    {},
)
"""``topology``."""


VANISHED = fields(
    {"total": count, "last": number, "pods": by_name(exactly(count, number, number))},
    {"uptime": by_name(exactly(number, number, number))},
)
"""``vanished``."""


RUNTIMES = fields({"hours": by_name(count)}, {"uptime": by_name(count)})
"""``runtimes``."""


COUNTER_TURNS = fields({"boot": text, "last": number, "since": by_name(exactly(flag, number))}, {"gap": number})
"""``counter-turns``."""

RELEASED_COUNTERS = fields({"boot": text, "counters": each(exactly(text, text, count))}, {})
"""``released-counters``."""


NODE_VALUES = fields(
    {"boot": text, "values": by_name(fields({"found": text, "wanted": text, "now": text, "refused": text}, {}))},
    {"facts": text},
)
"""``placement.cpus`` and ``placement.irqs``."""


ALLOCATIONS = fields(
    {"format": count, "boot": text, "machine": each(text), "containers": count}, {"others": by_name(text)}
)
"""The first line of ``placement``."""

PLACES = table(texts, texts, counts, counts, paths, counts, texts, paths, counts, texts)
"""The other lines of ``placement``."""


SPECIFIED = by_name(text)
"""``placement.specified``."""


SUPERVISOR = fields({"boot": text, "processes": each(exactly(count, count))}, {})
"""``memtierd.keeper``."""


def _numbers(value: "Any") -> bool:
    """Return whether a value is a list of finite numbers and nulls."""
    if type(value) is not list or not {*map(type, value)} <= _OR_NONE:
        return False
    known = [one for one in value if one is not None]
    return not known or max(map(abs, known)) < LARGEST


def _or_0(shape: "Shape") -> "Shape":
    """Return the shape of a value that is 0 in place of a list of zeros."""
    return lambda value: value == 0 or shape(value)


def _state(value: "Any") -> bool:
    """Return whether a value is the number of a state of an unseen group."""
    return type(value) is int and 0 <= value <= 2  # noqa: PLR2004  # as in `key_counts`


def _layout(value: "Any") -> bool:
    """Return whether a value is a list of paths below ``mon_data``."""
    return each(text)(value) and not any(one[:1] == "/" or ".." in one for one in value)


_BY_PATH = by_name(by_name(number))


COUNTERS = fields({"layout": _layout, "keys": by_name(anything)}, {"mount": each(text), "saved": number})
"""``totals/counters``, without the keys' data."""


COUNTS = fields(
    {"groups": by_name(exactly(text, _or_0(_numbers), _numbers))},
    {
        "times": by_name(exactly(number, _or_0(each(number)), number)),
        "done": _BY_PATH,
        "spent": _BY_PATH,
        "others": by_name(exactly(number, text, _or_0(_numbers), _numbers)),
        "unseen": by_name(exactly(text, _state, flag, number, _numbers, _numbers)),
        "inherited": by_name(exactly(text, number, by_name(number))),
        "turns": each(exactly(number, number)),
        "turn": exactly(number, number),
        "ended": by_name(number),
        "gone": count,
        "left": number,
    },
)
"""A key's data in ``totals/counters``."""


_VALUES = by_name(number)


CLASS_COUNTERS = fields(
    {"classes": by_name(anything)},
    {
        "removed": _VALUES,
        "domains": fields({"total": _VALUES, "seen": _BY_PATH}, {}),
        "packages": fields({"total": _VALUES, "last": _VALUES}, {}),
        "when": number,
        "saved": number,
        "unseen": _BY_PATH,
        "mount": each(text),
    },
)
"""``totals/class-counters``, without the classes' data."""


CLASS_COUNTS = fields({"identity": text, "parts": _BY_PATH, "total": _VALUES, "ungrouped": _VALUES}, {"rest": _VALUES})
"""A class's data in ``totals/class-counters``."""


_STAGE = fields(
    {}, {"runs": count, "seconds": number, "last": number, "failures": by_name(count), "buckets": each(count)}
)


CALL_METRICS = fields(
    {"stages": by_name(_STAGE)}, {"last": each(exactly(count, text, text, text)), "folded": text, "format": count}
)
"""``calls.json``."""


LEASE = fields(
    {
        "pid": count,
        "start": count,
        "boot": text,
        "declared": by_name(by_number(count)),
        "ours": by_name(by_number(each(count))),
    },
    {"owner": text, "deadline": number},
)
"""``guard-lease.json``."""
_RATIO: "Shape" = lambda value: value is None or number(value)  # noqa: E731  # a row of the table
SLOWDOWN = fields(
    {},
    {
        "time": number,
        "uptime": number,
        "pods": by_name(
            fields(
                {"verdict": text, "ratio": _RATIO},
                {
                    **dict.fromkeys(("reason", "method"), text),
                    **dict.fromkeys(("ratioLow", "ratioHigh", "load"), _RATIO),
                    "slowedSeconds": by_name(number),
                    "counted": by_name(exactly(number, number)),
                },
            )
        ),
        "pressed": by_name(
            fields(
                {**dict.fromkeys(("ratio", "since", "until"), number), "classes": each(text), "domains": each(count)},
                {},
            )
        ),
    },
)
"""``slowdown.json``."""
