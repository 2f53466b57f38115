"""What people see of features stands in one table."""

from resctrl_hooks.inventory.feature_display.memory import COLUMNS
from resctrl_hooks.inventory.feature_display.model import Display, Found
from resctrl_hooks.inventory.feature_display.table import DISPLAYS
from resctrl_hooks.node.feature import Step
from resctrl_hooks.node.feature_table import FEATURES


def test_each_feature_has_a_row_for_people_and_nothing_else_has() -> None:
    assert DISPLAYS.keys() == FEATURES.keys()


def test_no_two_features_have_a_column_of_one_name() -> None:
    columns = dict.fromkeys(row.columns for row in DISPLAYS.values() if row.columns)
    heads = [head for found in columns for head in found.heads]
    assert len(heads) == len(set(heads))
    assert all(found.numbers <= set(found.heads) for found in columns)


def test_columns_have_a_cell_each_where_nothing_is_to_be_said() -> None:
    for row in DISPLAYS.values():
        if row.columns:
            assert set(row.columns.cells([])) == set(row.columns.cells([{}])) == {"-"}
            assert len(row.columns.cells([])) == len(row.columns.heads)


def test_memory_and_memtierd_share_their_columns() -> None:
    assert DISPLAYS["memory"].columns is DISPLAYS["memtierd"].columns is COLUMNS


def test_a_row_without_anything_says_what_was_recorded() -> None:
    steps = [Step("oom", "score", {"value": 500}, "").as_record()]
    assert Display().describe({}, steps) == {"score": {"value": 500}}
    assert Display().columns is None
    assert Found() == ("", "", True)
