"""What the house adds to show and list: rates, slowdowns, counters of unknown resources."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from core.cli.test_list_text import check_order, gathered
from core.cli.test_show_text import KEY, shown, text_of
from golden import Golden
from hosts.counter_tree import say, say_paths
from hosts.guard_and_packages import write_slowdown_state
from hosts.monitored import KEYS, MonitoredHost, plain_host
from rich.console import Console

from resctrl_hooks.core.inventory.models import Inventory
from resctrl_hooks.core.inventory.pod_details import PodDetails
from resctrl_hooks.core.node.names import SLOWDOWN_STATUS
from resctrl_hooks.observe.inventory.columns import RATES
from resctrl_hooks.observe.inventory.pod_rates import PodMemory, PodRates, lines_of
from resctrl_hooks.observe.metrics.collector import NodeCollector, registry_of

__all__ = ("gathered",)


def rates(**values: Any) -> PodRates:
    unknown = dict.fromkeys(column.field for column in RATES)
    return PodRates.model_validate({**unknown, "counted_percent": None, **values})


def print_rates(out: Console, found: PodRates) -> None:
    for line in lines_of(found):
        out.print(line)


def memory(**more: Any) -> PodMemory:
    values = {"domain": 1, "memory_bandwidth_bytes_per_second": 2e6, "share_percent": 25.4, "load_percent": 80.4}
    return PodMemory.model_validate({**values, "estimated": False, **more})


def test_slowdown_and_rates_of_a_pod_are_printed_among_its_facts(
    capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    added: dict[str, Any] = {"slowdown": 1.55, "rates": rates(seconds=1.0)}
    pod = PodDetails(key=KEY, namespace="shop", pod="web", state="waiting", priority=5, **added)
    unknown = {"memory_bandwidth_bytes_per_second": None, "share_percent": None, "load_percent": None}
    known = rates(
        seconds=2.0004,
        counted_percent=75.4,
        memory_bandwidth_bytes_per_second=3e6,
        power_watts=4.5,
        memory_domains=[memory(), memory(estimated=True), memory(**unknown)],
    )
    parts = [shown(pod, capsys), *(text_of(print_rates, one) for one in (known, rates(seconds=1, counted_percent=100)))]
    golden("\n".join(line for part in parts for line in part))


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


def test_unknown_resource_is_shown_and_exported_as_it_is(tmp_path: Path) -> None:
    with plain_host(tmp_path, "info/L3_MON", "info/FABRIC_MON") as host:
        for name in ("L3", "FABRIC"):
            (host.resctrl / f"info/{name}_MON/num_rmids").write_text("8\n")
        say_paths(host.group(0, "web-0", mbm_total_bytes=1), {"mon_FABRIC_03/flits": 1234})
        (shown,) = [one for one in host.json("show", KEYS[0])["items"][0]["counters"] if one["counter"] == "flits"]
        expected = {"domain": "mon_FABRIC_03", "resource": "FABRIC", "id": 3, "value": 1234, "kind": "cumulative"}
        assert {name: shown[name] for name in expected} == expected
        text = host.run("show", KEYS[0]).output
        assert ["flits", "FABRIC_03", "/", "1,234"] in [line.split()[:4] for line in text.splitlines()]
        registry = registry_of(NodeCollector(host.context, lambda problem: pytest.fail(str(problem))))
        labels = {"namespace": "shop", "pod": "web-0", "pod_uid": KEYS[0], "container": "", "rdt_class": ""}
        domain = {"domain_id": "03", "domain_name": "mon_FABRIC_03"}
        assert registry.get_sample_value("fabric_flits_total", {**labels, **domain}) == 1234
