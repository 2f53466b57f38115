"""One stored sample: the rows of a moment, and their form on disk, by column, because that compresses well.

The labels of the rows are a *layout*, which many samples share while the pods stay the same.
"""

from ....core.node.host.files import format_json, parse_json
from .rows import EVENTS, written_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .rows import Row, Value

    Series = tuple[Value, ...]
    Columns = dict[str, list[Any]]

_SERIES = ("kind", "key", "namespace", "pod", "container", "rdt_class", "domain")
_COMMON = frozenset((*_SERIES, "time", "host"))
_MISSING = "missing"


class Sample:
    """The rows of one moment.

    Attributes:
        time: in milliseconds since 1970; the clock may have been set.
        uptime: in seconds since the boot, which orders the samples of one ``boot``.
        boot: the kernel's id of the boot.
        host: the node's name.
        span: the seconds that the rows stand for: 0 for a moment, 60 for a minute.
        interval: the seconds to the next sample, if there is no gap.
        rows: as `record` writes them.
    """

    __slots__ = ("boot", "host", "interval", "rows", "span", "time", "uptime")

    def __init__(
        self,
        time: int,
        uptime: float,
        boot: str,
        host: str,
        rows: "Sequence[Row]",
        span: int = 0,
        interval: float = 10.0,
    ) -> None:
        self.time = time
        self.uptime = uptime
        self.boot = boot
        self.host = host
        self.rows = rows
        self.span = span
        self.interval = interval

    def since(self, before: "Sample") -> float:
        """Return the seconds since an earlier sample: by the uptime if it is of the same boot, as clocks are set."""
        return self.uptime - before.uptime if self.boot == before.boot else (self.time - before.time) / 1000


def series_of(row: "Row") -> "Series":
    """Return the labels that name a row in each sample."""
    return tuple([row.get(name) for name in _SERIES])


def labels_of(sample: Sample) -> "list[Series]":
    """Return the labels of a sample's rows, without events."""
    return [series_of(row) for row in sample.rows if row["kind"] not in EVENTS]


def layout_of(sample: Sample) -> "tuple[bytes, Columns]":
    """Return a layout as JSON, and the base that it contains: the whole numbers of this sample, by column.

    Later samples store the differences to the base, which are small, and 0 for an idle pod.
    """
    base = {
        name: [value if isinstance(value, int) else None for value in column]
        for name, column in _columns(sample).items()
        if name != _MISSING
    }
    return format_json({"host": sample.host, "rows": labels_of(sample), "base": base}), base


def data_of(sample: Sample, base: "Columns") -> bytes:
    """Return the values of a sample's rows as JSON, in the order of its layout."""
    columns = {name: _differences(column, base.get(name), -1) for name, column in _columns(sample).items()}
    events = [
        {name: value for name, value in row.items() if name not in ("time", "host")}
        for row in sample.rows
        if row["kind"] in EVENTS
    ]
    about = {"boot": sample.boot, "uptime": sample.uptime, "interval": sample.interval}
    return format_json({**about, "columns": columns, "events": events})


def _columns(sample: Sample) -> "Columns":
    rows = [row for row in sample.rows if row["kind"] not in EVENTS]
    names = dict.fromkeys(name for row in rows for name in row if name not in _COMMON)
    return {name: [row.get(name) for row in rows] for name in names}


def _differences(column: "list[Any]", base: "list[Any] | None", sign: int) -> "list[Any]":
    """Return whole numbers less those of the base, or with ``sign`` 1 their sums; all other values unchanged."""
    if base is None:
        return column
    return [
        value + sign * known if isinstance(value, int) and isinstance(known, int) else value
        for value, known in zip(column, base)
    ]


def sample_of(time: int, span: int, layout: bytes, data: bytes) -> Sample:
    """Return a stored sample.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: the bytes are not a sample's.
    """
    names, values = parse_json(layout), parse_json(data)
    host, base = names["host"], names["base"]
    common = {"time": written_time(time), "host": host}
    rows: "list[dict[str, Value]]" = [
        {**common, **{name: label for name, label in zip(_SERIES, labels) if label is not None}}
        for labels in names["rows"]
    ]
    for name, column in values["columns"].items():
        if len(column) != len(rows):
            raise ValueError(f"column {name} has {len(column)} values for {len(rows)} rows")
        for row, value in zip(rows, _differences(column, base.get(name), 1)):
            if value is not None:
                row[name] = value
    rows += [{**common, **event} for event in values["events"]]
    uptime, boot, interval = float(values["uptime"]), str(values["boot"]), float(values["interval"])
    return Sample(time, uptime, boot, host, rows, span, interval=interval)
