"""Metrics of one node as its metrics pod serves them: Prometheus' text format, read by name of the series.

prometheus_client's parser makes objects of every line. A table of 300 nodes reads half a million lines, of which each
series is needed only as a key until it has changed, so this module keeps lines and takes labels apart on demand. A
node may have been taken over: `parse` accepts only lines with which all readers can calculate.
Format: https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

import re
from collections.abc import Iterator, Mapping

from resctrl_hooks.observe.inventory.foreign_numbers import number

from .errors import AnswerError

Series = dict[str, float]
"""Value by series, as it is written: ``name{label="value"}``."""
Names = Mapping[str, str]
"""By name of a series to read, the label that each of its lines must have; empty: none.

``*`` in a name is the resource that counts, such as ``l3``; such a series needs no label.
"""
_RESOURCE = "[a-z0-9]+"
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"[,}]')
_ESCAPED = re.compile(r"\\(.)")
_MEANINGS = {"n": "\n"}
_LONGEST = 16 << 10  # characters of a line


def parse(text: str, names: Names) -> Series:
    """Return the series with these names of a scrape.

    Raises:
        AnswerError: a line of these series is too long, has no number within the limits or lacks its label, or there
            is no series of ours at all.
    """
    starts = tuple(f"{name}{end}" for name in names if "*" not in name for end in ("{", " "))
    some = [re.escape(name).replace(re.escape("*"), _RESOURCE) for name in names if "*" in name]
    is_one = re.compile(f"(?:{'|'.join(some)})[{{ ]").match if some else _nothing
    found: Series = {}
    ours = False
    for line in text.split("\n"):  # a label may contain other line separators
        if line.startswith(starts) or is_one(line):
            series, _, value = line.rpartition(" ")
            label = names.get(series.partition("{")[0])
            found_value = number(value, signed=True) if len(line) <= _LONGEST else None
            if found_value is None or (label and label not in labels_of(series)):
                raise AnswerError(f"invalid line in the metrics: {line[:80]!r}")
            found[series] = found_value
        elif line.startswith("resctrl_"):
            ours = True
    if not found and not ours:
        raise AnswerError("the answer contains no metrics of resctrl-hooks")
    return found


def _nothing(_: str) -> None:
    """Match no line."""


def named(series: Series, name: str) -> Iterator[tuple[dict[str, str], float]]:
    """Yield labels and value of each series of a name."""
    start = f"{name}{{"
    for one, value in series.items():
        if one == name:
            yield {}, value
        elif one.startswith(start):
            yield labels_of(one), value


def labels_of(series: str) -> dict[str, str]:
    """Return the labels of a series as it is written, up to the first that is invalid."""
    found = {}
    at = series.find("{") + 1
    while at and (label := _LABEL.match(series, at)):
        found[label[1]] = _ESCAPED.sub(_meaning, label[2])
        at = label.end()
    return found


def _meaning(escape: re.Match[str]) -> str:
    return _MEANINGS.get(escape[1], escape[1])
