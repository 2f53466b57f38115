"""Metrics of one node as its metrics pod serves them: Prometheus' text format, read by name of the series.

prometheus_client's parser makes objects of every line. A table of 300 nodes reads half a million lines, of which each
series is needed only as a key until it has changed, so this module keeps lines and takes labels apart on demand.
Format: https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

import re
from collections.abc import Iterable, Iterator

from .errors import AnswerError

Series = dict[str, float]
"""Value by series, as it is written: ``name{label="value"}``."""
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_MEANINGS = {"n": "\n"}


def parse(text: str, names: Iterable[str]) -> Series:
    """Return the series with these names of a scrape.

    Raises:
        AnswerError: a line of these series has no number, or there is no series of ours at all.
    """
    starts = tuple(f"{name}{end}" for name in names for end in ("{", " "))
    found: Series = {}
    ours = False
    for line in text.splitlines():
        if line.startswith(starts):
            series, _, value = line.rpartition(" ")
            try:
                found[series] = float(value)
            except ValueError:
                raise AnswerError(f"invalid line in the metrics: {line[:80]!r}") from None
        elif line.startswith(("resctrl_", "l3_")):
            ours = True
    if not found and not ours:
        raise AnswerError("the answer contains no metrics of resctrl-hooks")
    return found


def named(series: Series, name: str) -> Iterator[tuple[dict[str, str], float]]:
    """Yield labels and value of each series of a name."""
    start = f"{name}{{"
    for one, value in series.items():
        if one == name:
            yield {}, value
        elif one.startswith(start):
            yield labels_of(one), value


def labels_of(series: str) -> dict[str, str]:
    """Return the labels of a series as it is written."""
    return {name: _ESCAPED.sub(_meaning, value) for name, value in _LABEL.findall(series[series.find("{") :])}


def _meaning(escape: re.Match[str]) -> str:
    return _MEANINGS.get(escape[1], escape[1])
