"""A metric as one row: name, sentence, labels, values. Families, the page's table and tests follow from the rows.

A new metric is a row in the table of its subject (`self_metrics`, `residents`, `guard`, `slowdown`) and its test.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Generic, NamedTuple, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

COUNTER: Final = "counter"


class Histogram(NamedTuple):
    """Numbers of observations up to each bound in seconds, one more without a bound, and the sum of all."""

    bounds: Sequence[float]
    counts: Sequence[int]
    seconds: float


Values = float | Histogram | None | Mapping[Any, float | Histogram]
"""One value; or values by the value of the label, or by those of several labels. None: nothing is known."""
Facts = TypeVar("Facts")


@dataclass(frozen=True, slots=True)
class Row(Generic[Facts]):
    """A metric. ``kind`` is gauge or counter; a `Histogram` among the values makes it a histogram."""

    name: str
    """Without the ``_total`` of a counter."""
    text: str
    values: Callable[[Facts], Values]
    labels: tuple[str, ...] = ()
    kind: str = "gauge"
    unit: str = ""

    @property
    def series(self) -> str:
        """Its name in queries."""
        return f"{self.name}_total" if self.kind == COUNTER else self.name


def families(rows: Iterable[Row[Facts]], facts: Facts) -> list[Metric]:
    """Return the family of each row, without samples where nothing is known."""
    return [_family(row, row.values(facts)) for row in rows]


def _family(row: Row[Facts], values: Values) -> Metric:
    found = {} if values is None else values if isinstance(values, Mapping) else {(): values}
    whole = [(name if isinstance(name, tuple) else (name,), value) for name, value in found.items()]
    if any(isinstance(value, Histogram) for _, value in whole):
        histogram = HistogramMetricFamily(row.name, row.text, labels=row.labels, unit=row.unit)
        for names, value in whole:
            if isinstance(value, Histogram):
                bounds = [*map(floatToGoString, value.bounds), "+Inf"]
                counts = map(float, accumulate(value.counts))
                histogram.add_metric(names, list(zip(bounds, counts, strict=True)), value.seconds)
        return histogram
    make = CounterMetricFamily if row.kind == COUNTER else GaugeMetricFamily
    family = make(row.name, row.text, labels=row.labels, unit=row.unit)
    for names, value in whole:
        if not isinstance(value, Histogram):
            family.add_metric(names, value)
    return family
