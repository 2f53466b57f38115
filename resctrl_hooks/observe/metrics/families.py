"""The families of metrics' rows. Families, the page's table and tests follow from the rows.

A new metric is a row in the table of its subject (`self_metrics`, `watch`, `guard`, `slowdown`) or of its house
(`Part.metrics`), and its test.
"""

from collections.abc import Iterable, Mapping
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from resctrl_hooks.core.metric import COUNTER, Facts, Histogram, Row, Table, Values
from resctrl_hooks.core.node.context import Context


def families(rows: Iterable[Row[Facts]], facts: Facts) -> list[Metric]:
    """Return the family of each row, without samples where nothing is known."""
    return [_family(row, row.values(facts)) for row in rows]


def families_of(tables: Iterable[Table], context: Context) -> list[Metric]:
    """Return the families of tables, without those that have no facts now."""
    found = [(table.rows, table.facts(context)) for table in tables]
    return [family for rows, facts in found if facts is not None for family in families(rows, facts)]


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
