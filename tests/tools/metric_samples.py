"""The samples of a table of metrics."""

from typing import Any

from resctrl_hooks.core.metric import Row
from resctrl_hooks.observe.metrics.families import families


def samples_of(rows: tuple[Row[Any], ...], facts: Any) -> list[str]:
    """Return the samples of rows without buckets, each with its name, the values of its labels, and its value."""
    found = []
    for row, family in zip(rows, families(rows, facts), strict=True):
        assert family.name == row.name
        assert all(set(sample.labels) - {"le"} == set(row.labels) for sample in family.samples)
        found += [sample for sample in family.samples if "le" not in sample.labels]
    return [" ".join([one.name, *one.labels.values(), f"{one.value:g}"]) for one in found]
