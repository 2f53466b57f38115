"""`top` by L3 cache: a full cache next to an empty one is visible, and the busiest pods stand out."""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.counter_tree import say_paths
from hosts.monitored import MonitoredHost, plain_host
from rich.console import Console

from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_table import usage_table
from resctrl_hooks.observe.inventory.rates import Line
from resctrl_hooks.observe.inventory.usage_models import DomainUsage

SIZE = 1200


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Two caches, and a pod that fills one of them."""
    sizes = {"info/L3/cbm_mask": "fff", "schemata": "L3:0=fff;1=fff", "size": f"L3:0={SIZE};1={SIZE}"}
    with plain_host(tmp_path, "info/L3") as found:
        for name, text in sizes.items():
            (found.resctrl / name).write_text(f"{text}\n")
        for folder in (found.resctrl, found.group(0, "web-0")):
            for domain, occupancy in (("mon_L3_00", SIZE), ("mon_L3_01", 0)):
                say_paths(folder, {f"{domain}/llc_occupancy": occupancy, f"{domain}/mbm_total_bytes": 5})
        yield found


def test_full_cache_next_to_empty_one_is_visible(host: MonitoredHost) -> None:
    made = host.json("top", "--interval", "0.1", "--capacity", "1G")
    assert [(one["domain"], one["llcOccupancyBytes"], one["llcBytes"]) for one in made["domains"]] == [
        (0, SIZE, SIZE),
        (1, 0, SIZE),
    ]
    assert [one["peakBytesPerSecond"] for one in made["domains"]] == [1e9, 1e9]
    text = host.run("top", "--once", "--interval", "0.1", "--capacity", "1G").stdout
    assert "L3 0 0 B/s (0% of 1.00 GB/s), 100% full   L3 1 0 B/s (0% of 1.00 GB/s), 0% full" in text


def test_csv_has_each_line_with_its_class(host: MonitoredHost) -> None:
    rows = csv.DictReader(io.StringIO(host.run("top", "-o", "csv", "--interval", "0.1").stdout))
    assert [(row["kind"], row["name"], row["rdtClass"]) for row in rows] == [
        ("pod", "shop/web-0", "/"),
        ("ungrouped", "(ungrouped)", ""),
        ("total", "TOTAL", ""),
    ]


@pytest.mark.parametrize("domain, share", [("0", 100.0), ("1", 0.0)])
def test_pod_share_is_of_its_cache(host: MonitoredHost, domain: str, share: float) -> None:
    made = host.json("top", "--interval", "0.1", "--domain", domain)
    assert made["domain"] == int(domain)
    assert {item["name"]: item["llcSharePercent"] for item in made["items"]}["shop/web-0"] == share


@pytest.mark.parametrize(
    "words", [["--domain", "7"], ["--capacity", "fast"], ["--capacity", "0"], ["--capacity", "1X"]]
)
def test_impossible_cache_or_capacity_is_wrong_use(host: MonitoredHost, words: list[str]) -> None:
    assert host.run("top", "--once", "--interval", "0.1", *words).exit_code == 2


def scene() -> Scene:
    rates = {"loud": 60.0, "middle": 25.0, "quiet": 15.0}
    lines = [Line("pod", name, name, {"llc": 1.0, "mbm": rate}) for name, rate in rates.items()]
    domains = [
        DomainUsage(
            domain=number,
            memory_bandwidth_bytes_per_second=9e9,
            peak_bytes_per_second=1e10,
            llc_occupancy_bytes=50,
            llc_bytes=100,
        )
        for number in range(4)
    ]
    return Scene(
        "n",
        "0",
        [*lines, Line("total", "TOTAL", "", {"llc": 3.0, "mbm": 100.0})],
        100,
        domains=domains,
        domain=("L3", 1),
    )


@pytest.mark.parametrize("no_color", [False, True])
def test_busiest_pods_are_coloured_unless_no_color_is_set(monkeypatch: pytest.MonkeyPatch, *, no_color: bool) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    out = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="standard")
    found = scene()
    made = usage_table(found, found.lines, by="pod", sort="mbm", reverse=False, width=100, pictures=False, headers=True)
    out.print(made)
    assert isinstance(out.file, io.StringIO)
    colours = {name: re.findall(rf"\x1b\[(\d+)m{name}", out.file.getvalue()) for name in ("loud", "middle", "quiet")}
    expected = {"loud": [], "middle": [], "quiet": []} if no_color else {"loud": ["31"], "middle": ["33"], "quiet": []}
    assert colours == expected


def test_memory_domains_are_shown_where_a_capacity_is_configured(host: MonitoredHost) -> None:
    assert host.json("top", "--interval", "0.1")["memoryDomains"] == []
    host.configure(monitoring={"capacity": {"*": 1e9}})
    made = host.json("top", "--interval", "0.1")["memoryDomains"]
    assert {one["capacityBytesPerSecond"] for one in made} == {1e9}
    assert "memory 0 " in host.run("top", "--once", "--interval", "0.1").stdout
