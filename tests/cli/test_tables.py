"""Tables at a terminal: names give way to the numbers, nothing else does."""

import io

import pytest
from rich.console import Console

from resctrl_hooks.cli.tables import Name, print_table, shortened, table

POD = "openshift-cluster-node-tuning-operator/checkout-7d9f8c6b54-x2x9z"
COLUMNS = ("POD", "KEY", "CONTAINERS", "TASKS", "STATE")


def printed(width: int, pod: str = POD) -> list[str]:
    rows = table(*COLUMNS, names="POD")
    rows.add_row(Name(pod), "0f0ac7f2-8a3b", "2/2", "2", "assigned")
    out = io.StringIO()
    print_table(Console(file=out, width=width), rows)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [30, 60, 80, 200])
def test_no_column_is_lost_in_a_narrow_terminal(width: int) -> None:
    head, row = printed(width)
    assert head.split() == list(COLUMNS)
    assert row.split()[1:] == ["0f0ac7f2-8a3b", "2/2", "2", "assigned"]
    assert len(row) <= max(width, 60)


def test_a_name_keeps_both_its_ends_and_where_there_is_room_all_of_it() -> None:
    name = printed(80)[1].split()[0]
    assert name.startswith("openshift")
    assert name.endswith("x2x9z")
    assert printed(200)[1].split()[0] == POD
    assert printed(60, "shop/web")[1].split()[0] == "shop/web"


@pytest.mark.parametrize("width, text", [(9, "shop/part"), (8, "sho…part"), (7, "sho…art"), (1, "…")])
def test_the_middle_is_left_out(width: int, text: str) -> None:
    assert shortened("shop/part", width) == text
