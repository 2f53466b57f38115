"""One row per series from the samples of a minute: a counter's last value, a gauge's mean, and the largest of both."""

from .rows import CAPACITY, COUNTED, EVENTS, L3_SIZE, RATIO, TRAFFIC, UNKNOWN
from .sample import Sample, series_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .rows import Row
    from .sample import Series

LARGEST = "_largest"
"""End of the column with a gauge's largest value in a minute, or with a counter's largest rate per second."""
_GAUGES = {"llc_occupancy_bytes": None, "memory_bytes": None, TRAFFIC: None, RATIO: 3}
"""Each with the digits of its mean behind the point; None: a whole number."""
_LAST = (CAPACITY, L3_SIZE, UNKNOWN)
MINUTE = 60


def minute(samples: "Sequence[Sample]", before: "Sample | None") -> Sample:
    """Return the minute's sample.

    A counter has its value at the end of the minute, or at the end of its series, so the increases of minutes are the
    sums of the increases of their samples. Events stay as they are.

    Args:
        samples: those of one minute and one boot, in their order.
        before: the sample before them, for the first increase; None if it is of another boot.
    """
    last = samples[-1]
    found: "dict[Series, list[tuple[float, Row]]]" = {}
    events = []
    for sample in samples:
        for row in sample.rows:
            if row["kind"] in EVENTS:
                events.append(row)
            else:
                found.setdefault(series_of(row), []).append((sample.uptime, row))
    earlier = {series_of(row): row for row in before.rows} if before else {}
    rows = [
        _merged(rows, ([(before.uptime, earlier[series])] if before and series in earlier else []) + rows)
        for series, rows in found.items()
    ]
    return Sample(last.time, last.uptime, last.boot, last.host, [*rows, *events], MINUTE, float(MINUTE))


def _merged(rows: "list[tuple[float, Row]]", with_before: "list[tuple[float, Row]]") -> "Row":
    merged = dict(rows[-1][1])
    for name in dict.fromkeys(name for _, row in rows for name in row):
        values = [row.get(name) for _, row in rows]
        numbers = [value for value in values if isinstance(value, (int, float))]
        if not numbers or name in _LAST or name.endswith((COUNTED, LARGEST)):
            continue
        if name in _GAUGES:
            if name in merged:
                merged[name] = round(sum(numbers) / len(numbers), _GAUGES[name])
            merged[name + LARGEST] = max(numbers)
        else:
            rates = _rates(name, with_before)
            if rates:
                merged[name + LARGEST] = round(max(rates), 1)
    return merged


def _rates(name: str, rows: "list[tuple[float, Row]]") -> "list[float]":
    """Return a counter's increases per second between its samples."""
    rates = []
    for (start, old), (end, new) in zip(rows, rows[1:]):
        before, now = old.get(name), new.get(name)
        if isinstance(before, (int, float)) and isinstance(now, (int, float)) and now >= before and end > start:
            rates.append((now - before) / (end - start))
    return rates
