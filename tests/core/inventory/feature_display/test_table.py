"""The presentation of features is in one table."""

from resctrl_hooks.core.inventory.feature_display.memory import CGROUP, COLUMNS
from resctrl_hooks.core.inventory.feature_display.model import Display, Found
from resctrl_hooks.core.inventory.feature_display.table import DISPLAYS, display, names
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.features.memory import NAME as LIMITS


def test_features_and_rows_match() -> None:
    assert sorted(names()) == sorted(FEATURES)
    assert names()[: len(DISPLAYS)] == [*DISPLAYS]


def test_column_names_are_unique_over_features() -> None:
    columns = dict.fromkeys(columns for name in names() if (columns := display(name).columns))
    heads = [head for found in columns for head in found.heads]
    assert len(heads) == len(set(heads))
    assert all(found.numbers <= set(found.heads) for found in columns)


def test_empty_details_have_a_cell_per_column() -> None:
    for row in map(display, names()):
        if row.columns:
            assert set(row.columns.cells([])) == set(row.columns.cells([{}])) == {"-"}
            assert len(row.columns.cells([])) == len(row.columns.heads)


def test_memory_and_memtierd_share_their_columns() -> None:
    assert display("memory").columns is display("memtierd").columns is COLUMNS


def test_memory_of_one_container_has_its_limit_and_that_of_several_is_a_sum() -> None:
    one = {LIMITS: {"class": ""}, CGROUP: {"memory.current": str(1 << 20), "memory.high": str(1 << 22)}}
    other = {LIMITS: {"class": "small"}, CGROUP: {"memory.current": str(1 << 20)}}
    assert COLUMNS.cells([one]) == ("(limits)", "1.00 MiB of 4.00 MiB", "-", "-")
    assert COLUMNS.cells([one, other]) == ("(limits),small", "2.00 MiB", "-", "-")


def test_row_without_display_shows_recorded_parameters() -> None:
    steps = [Step("oom", "score", {"value": 500}, "").as_record()]
    assert Display().describe({}, steps) == {"score": {"value": 500}}
    assert Display().columns is None
    assert Found() == ("", "", True)
