"""Each row of the columns reaches every place that shows a column: a value goes in, and is expected there."""

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from resctrl_hooks.core.inventory.amounts import scaled
from resctrl_hooks.core.node.resctrl.counters import COUNTERS, CUMULATIVE
from resctrl_hooks.observe.cli.top import _CSV, _item
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_screen import SORT_KEYS, Screen
from resctrl_hooks.observe.cli.top_table import usage_table
from resctrl_hooks.observe.cluster import usage as cluster
from resctrl_hooks.observe.inventory.columns import BY_KEY, COLUMNS, RATES, Column, value_in
from resctrl_hooks.observe.inventory.pod_rates import PodRates
from resctrl_hooks.observe.inventory.rates import POD, TOTAL, Line, added
from resctrl_hooks.observe.inventory.usage import ordered
from resctrl_hooks.observe.recording.analysis import MEASURES

EACH = pytest.mark.parametrize("column", COLUMNS, ids=[*BY_KEY])
VALUE = 123.0
PAGE = Path(__file__).parents[3] / "docs/looking.md"


def scene(column: Column) -> Scene:
    lines = [Line(kind, kind, kind, {column.key: VALUE}) for kind in (POD, TOTAL)]
    return Scene("node", "12:00:00", lines, llc_bytes=1000)


def text_of(shown: object) -> str:
    out = Console(width=200, file=io.StringIO())
    out.print(shown)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_keys_headings_and_fields_are_unique() -> None:
    names = ("key", "heading", "counter", "field", "metric", "press", "title", "recorded")
    for of in names:
        assert len({getattr(column, of) for column in COLUMNS}) == len(COLUMNS), of


@EACH
def test_column_is_a_cell_of_the_table(column: Column) -> None:
    made = usage_table(
        scene(column), scene(column).lines, by="pod", sort="mbm", reverse=False, width=200, pictures=False, headers=True
    )
    text = text_of(made)
    assert scaled(VALUE, column.unit, binary=not column.is_rate) in text
    assert column.heading in text
    assert not column.share or column.share.heading in text


@EACH
def test_column_is_a_field_of_json_and_csv(column: Column) -> None:
    one = scene(column)
    item = _item(one.lines[0], one)
    assert value_in(item, column) == VALUE
    row = dict(zip([name for name, _ in _CSV], [get(item) for _, get in _CSV], strict=True))
    assert VALUE in row.values()
    csv.writer(io.StringIO()).writerow(row.values())
    if column.share:
        assert getattr(item, column.share.field) == 12.3


@EACH
def test_column_is_a_key_and_a_line_of_the_help(column: Column) -> None:
    screen = Screen(scene(column))
    screen.press(column.press)
    assert screen.sort == SORT_KEYS[column.press] == column.key
    screen.press("?")
    assert column.meaning.replace("`", "") in text_of(screen.render(200, 50))


@EACH
def test_column_sorts_and_adds(column: Column) -> None:
    lines = [Line(POD, str(value), "", {column.key: float(value)}) for value in (1, 3, 2)]
    assert [line.name for line in ordered(lines, column.key)] == ["3", "2", "1"]
    assert added(lines)[column] == (6 if column.adds else 3)


@EACH
def test_column_is_documented_charted_and_part_of_the_cluster_view(column: Column) -> None:
    assert f"`{column.heading}`" in PAGE.read_text()
    assert any(measure.title == column.title for measure in MEASURES)
    assert column.field in cluster.PodUsage.model_fields
    assert f"*_{column.metric.partition('_')[2]}" in cluster.NAMES
    assert (column.field in PodRates.model_fields) == column.is_rate == (column in RATES)
    assert (COUNTERS[column.counter].kind == CUMULATIVE) == column.is_rate
