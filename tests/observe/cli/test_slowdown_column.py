"""The column SLOW of `top` and `list -o wide`, and the line of `show`: from the sampling process, or absent."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from core.cli.test_list_text import check_order, container, gathered, inventory, pod, printed
from hosts.counter_tree import say
from hosts.guard_and_packages import write_slowdown_state
from hosts.monitored import KEYS, MonitoredHost, plain_host

from resctrl_hooks.core.inventory.models import Inventory
from resctrl_hooks.core.node.names import SLOWDOWN_STATUS

__all__ = ("gathered",)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Two pods in groups; the first one is slowed."""
    with plain_host(tmp_path, "info/L3_MON") as found:
        (found.resctrl / "info/L3_MON/num_rmids").write_text("8\n")
        for number, name in enumerate(("cart", "quiet")):
            say(found.group(number, name), llc_occupancy=1, mbm_total_bytes=1)
        write_slowdown_state(found.context, KEYS[0])
        yield found


def columns(text: str, row: str) -> dict[str, str]:
    """Return a row of a table without empty cells, by heading."""
    (heads,) = [line for line in text.splitlines() if "SLOW" in line]
    (cells,) = [line for line in text.splitlines() if row in line]
    return dict(zip(heads.split(), cells.split(), strict=False))


def test_list_wide_has_the_ratio_and_a_dash_for_an_unknown_one(host: MonitoredHost) -> None:
    text = host.run("list", "-o", "wide").output
    assert columns(text, "shop/cart")["SLOW"] == "1.6×"  # noqa: RUF001  # as printed
    assert columns(text, "shop/quiet")["SLOW"] == "-"
    assert "SLOW" not in host.run("list").output
    found: Any = host.json("list", "--sort", "slow")
    assert [(one["name"], one["slowdown"]) for one in found["items"]] == [("shop/cart", 1.6), ("shop/quiet", None)]


def test_wide_table_has_the_column_behind_the_age(capsys: pytest.CaptureFixture[str]) -> None:
    one = pod("web", slowdown=1.5, containers=[container()])
    lines = printed(capsys, inventory(one, pod("db")), every=True, form="wide", namespace="shop")
    assert lines[:4] == [
        "POD  RUNNING  STATE  CLASS  TASKS  AGE  SLOW  OUTSIDE  ID",
        "web  1/1  assigned  /  0  -  1.5\N{MULTIPLICATION SIGN}  -  key-web",
        "  cccccccccccc  running  /  0  -  -  cccccccccccc",
        "db  0/0  assigned  -  0  -  -  -  key-db",
    ]


def test_pods_are_in_the_order_of_the_column(gathered: Inventory) -> None:
    check_order(gathered, "slow", "dbac")


def test_top_has_the_column_only_where_pods_are_judged(host: MonitoredHost) -> None:
    words = ("top", "--once", "--interval", "100ms", "--sort", "slow")
    text = host.run(*words).output
    assert "1.6×" in text  # noqa: RUF001  # as printed
    assert "SLOW▾" in text
    found: Any = host.json(*words)
    assert [one["slowdown"] for one in found["items"]][:2] == [1.6, None]
    Path(host.context.settings.state_dir, SLOWDOWN_STATUS).unlink()
    assert "SLOW" not in host.run(*words).output
    assert "SLOW" not in host.run("list", "-o", "wide").output


def test_show_has_a_line(host: MonitoredHost) -> None:
    assert "1.6× the time of the same work" in host.run("show", "shop/cart").output  # noqa: RUF001  # as printed
    assert "slowdown" not in host.run("show", "shop/quiet").output
