"""Classes, ungrouped tasks, foreign groups: correct sums, and totals that never decrease."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.counter_tree import say, say_paths
from hosts.monitored import KEYS, MonitoredHost, plain_host

from observe.metrics.conftest import scraped
from resctrl_hooks.core.node.resctrl.energy_baseline import baseline
from resctrl_hooks.observe.metrics.class_totals import ClassTotal, ClassTotals
from resctrl_hooks.observe.metrics.classes import class_totals
from resctrl_hooks.observe.node.snapshot.snapshot import take

ROOT, GOLD = "", "gold"
TOTAL = "l3_mbm_total_bytes_total"
PATHS = X, ENERGY = "mon_L3_00/x", "mon_PERF_PKG_00/core_energy"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Two pods in the root class, one in gold, a foreign group, and tasks in no group, in a plain tree."""
    with plain_host(tmp_path, "mon_groups/kepler", "gold/mon_groups") as found:
        for number, rdt_class in enumerate((ROOT, ROOT, GOLD)):
            found.group(number, "web", rdt_class=rdt_class)
        count(found, pods=(100, 200), kepler=50, ungrouped=25, gold=(1000, 5))
        yield found


def count(host: MonitoredHost, pods: tuple[int, ...], kepler: int, ungrouped: int, gold: tuple[int, int]) -> None:
    """Set each group's counts. As in the kernel, a class's own file is the sum with its groups."""
    for key, value in zip(KEYS, pods, strict=False):
        say(host.resctrl / "mon_groups" / key, llc_occupancy=value, mbm_total_bytes=value)
    say(host.resctrl / "mon_groups/kepler", llc_occupancy=kepler, mbm_total_bytes=kepler)
    root = sum(pods) + kepler + ungrouped
    say(host.resctrl, llc_occupancy=root, mbm_total_bytes=root)
    say(host.resctrl / "gold/mon_groups" / KEYS[2], llc_occupancy=gold[0], mbm_total_bytes=gold[0])
    say(host.resctrl / "gold", llc_occupancy=sum(gold), mbm_total_bytes=sum(gold))


def scrape(host: MonitoredHost, *options: str) -> dict[tuple[str, str], float]:
    """Return all samples of the L3 by name and class (or group)."""
    return {
        (sample.name.removeprefix("resctrl_"), sample.labels.get("group") or sample.labels.get("rdt_class", "")): (
            sample.value
        )
        for sample in scraped(host, *options)
        if sample.name.startswith(("resctrl_class_", "resctrl_ungrouped_", "resctrl_foreign_"))
    }


def test_metrics_outside_pods_have_separate_names(host: MonitoredHost) -> None:
    found = scrape(host)
    assert found == {
        ("class_l3_llc_occupancy_bytes", ROOT): 375,
        ("class_l3_llc_occupancy_bytes", GOLD): 1005,
        ("ungrouped_l3_llc_occupancy_bytes", ROOT): 25,
        ("ungrouped_l3_llc_occupancy_bytes", GOLD): 5,
        ("foreign_l3_llc_occupancy_bytes", "kepler"): 50,
        (f"class_{TOTAL}", ROOT): 375,
        (f"class_{TOTAL}", GOLD): 1005,
        (f"ungrouped_{TOTAL}", ROOT): 25,
        (f"ungrouped_{TOTAL}", GOLD): 5,
        (f"foreign_{TOTAL}", "kepler"): 50,
    }


def test_class_keeps_counts_of_ended_pod(host: MonitoredHost) -> None:
    scrape(host)
    empty(host.resctrl / "mon_groups" / KEYS[1])
    host.context.monitor.remove(KEYS[1])
    count(host, pods=(110,), kepler=50, ungrouped=27, gold=(1000, 5))  # the kernel's own sum falls from 375 to 187
    found = scrape(host)
    assert found[f"class_{TOTAL}", ROOT] == 375 + 10 + 2
    assert found[f"ungrouped_{TOTAL}", ROOT] == 27


def test_remainder_does_not_decrease_during_slow_reads(host: MonitoredHost) -> None:
    """The groups are read before their class, so a part of the rest may be theirs; the next time it is less."""
    scrape(host)
    say(host.resctrl, mbm_total_bytes=375 + 40)
    assert scrape(host)[f"ungrouped_{TOTAL}", ROOT] == 65
    count(host, pods=(130, 210), kepler=50, ungrouped=30, gold=(1000, 5))
    found = scrape(host)
    assert found[f"ungrouped_{TOTAL}", ROOT] == 65
    assert found[f"class_{TOTAL}", ROOT] == 375 + 40 + 40


def test_totals_continue_in_another_process_and_end_at_reboot(host: MonitoredHost) -> None:
    ledger = host.context.ledger
    ledger.prepare()
    first = ClassTotals(ledger, "boot")
    first.of(ROOT, "1:1").add({"a": {X: 5}}, {X: 2}, PATHS)
    first.of("gone", "1:2").add({}, {X: 2}, PATHS)
    first.save({ROOT})
    second = ClassTotals(ledger, "boot")
    second.of(ROOT, "1:1").add({"b": {X: 1}}, {X: 3}, PATHS)
    assert second.of(ROOT).total == {X: 9}
    assert second.node == {X: 11}
    assert second.of("gone").total == {}
    assert ClassTotals(ledger, "next boot").of(ROOT).total == {}


def test_recreated_class_starts_again_and_the_node_continues(host: MonitoredHost) -> None:
    host.context.ledger.prepare()
    totals = ClassTotals(host.context.ledger, "boot")
    totals.of(ROOT, "1:1").add({"a": {X: 5}}, {X: 2}, PATHS)
    totals.of(ROOT, "1:9").add({}, {X: 1}, PATHS)
    assert (totals.of(ROOT).total, totals.of(ROOT).ungrouped, totals.node) == ({X: 1}, {X: 1}, {X: 8})


def test_counter_begins_without_a_last_value() -> None:
    total = ClassTotal("1:1")
    total.add({"a": {X: 5}}, {}, PATHS)
    assert [total.begins(*asked) for asked in (("a", [X]), ("a", [X, ENERGY]), ("b", [X]))] == [False, True, True]


@pytest.mark.parametrize(
    "reads, total, ungrouped",
    [
        pytest.param(
            [({"a": {X: 5, ENERGY: 70}},), ({"a": {X: 5, ENERGY: 71}, "b": {X: 3, ENERGY: 900}},),
             ({"b": {X: 3, ENERGY: 902}},)],
            {X: 8, ENERGY: 73}, {}, id="energy of an RMID's previous user belongs to no pod",
        ),
        pytest.param(
            [({},), ({"a": {ENERGY: 30}, "b": {ENERGY: 900}}, {}, {"a": {ENERGY: 0}, "b": {}})],
            {ENERGY: 30}, {}, id="energy of a new group counts from a known start",
        ),
        pytest.param(
            [({},), ({"a": {ENERGY: "Unavailable"}, "b": {ENERGY: "Error"}},),
             ({"a": {ENERGY: 30}, "b": {ENERGY: 900}},)],
            {ENERGY: 30}, {}, id="energy of a foreign group counts from its first run",
        ),
        pytest.param(
            [({"a": {X: 50}},), ({"a": {X: "Unassigned"}},), ({"a": {X: 60}},)],
            {X: 110}, {}, id="an unassigned counter begins at zero",
        ),
        # While a group has no value, the class's remainder is unknown too.
        pytest.param(
            [({"a": {}},), ({"a": {}}, {X: 1000}), ({"a": {}}, {X: 1001})],
            {X: 1}, {X: 1}, id="a late counter causes no jump",
        ),
        # AMD: a counter that is assigned again begins at 0.
        pytest.param(
            [({"a": {X: 5}}, {X: 100}), ({"a": {}},), ({"a": {X: 5}}, {X: 3}), ({"a": {X: 5}}, {X: 10})],
            {X: 112}, {X: 107}, id="ungrouped tasks continue after missing values",
        ),
    ],
)  # fmt: skip
def test_class_adds_what_its_groups_and_ungrouped_tasks_count(
    reads: list[Any], total: dict[str, float], ungrouped: dict[str, float]
) -> None:
    found = ClassTotal("1:1")
    for groups, *more in reads:
        found.add(groups, more[0] if more else {}, PATHS, *more[1:])
    assert (found.total, found.ungrouped) == (total, ungrouped)


def test_older_snapshot_adds_nothing(host: MonitoredHost) -> None:
    """Two exporters read at the same time: the one that read first may be the second to add."""
    older = take(host.context)
    del older.classes[GOLD]  # as if it was created then
    count(host, pods=(110, 200), kepler=50, ungrouped=25, gold=(1000, 5))
    newer = take(host.context)
    for snapshot in (newer, older, newer):
        with class_totals(host.context, snapshot) as totals:
            found = {name: totals.of(name).total["mon_L3_00/mbm_total_bytes"] for name in newer.classes}
            assert found == {ROOT: 385, GOLD: 1005}
            assert totals.node["mon_L3_00/mbm_total_bytes"] == 1390


def test_energy_before_first_scrape_is_in_pod_and_class(host: MonitoredHost) -> None:
    energy = ENERGY
    (host.resctrl / "info/PERF_PKG_MON").mkdir(parents=True)
    say_paths(host.resctrl, {energy: 100.0})
    for key in KEYS[:2]:
        say_paths(host.resctrl / "mon_groups" / key, {energy: "Unavailable"})
    for folder in ("mon_groups/kepler", "gold", f"gold/mon_groups/{KEYS[2]}"):
        say_paths(host.resctrl / folder, {energy: "Unavailable"})
    assert host.run("metrics").exit_code == 0
    with host.context.monitor.hold(KEYS[3]) as locked:
        group = Path(locked.ensure_group("").path)
        say_paths(group, {energy: "Unavailable"})
        locked.record["baselines"] = {"": baseline(str(group))}
        locked.save()
    say_paths(group, {energy: 24.5})
    say_paths(host.resctrl, {energy: 124.5})
    found = {
        (sample.name, sample.labels.get("pod_uid"), sample.labels["rdt_class"]): sample.value
        for sample in scraped(host)
        if sample.name.endswith("core_energy_joules_total")
    }
    assert found["perf_core_energy_joules_total", KEYS[3], ""] == 24.5
    assert found["resctrl_class_perf_core_energy_joules_total", None, ""] == 124.5
    assert found["resctrl_ungrouped_perf_core_energy_joules_total", None, ""] == 100


def test_namespace_filter_keeps_classes_complete(host: MonitoredHost) -> None:
    assert scrape(host, "-n", "none") == scrape(host)
    assert {name for name, _ in scrape(host, "--counter", "llc*")} == {
        f"{kind}_l3_llc_occupancy_bytes" for kind in ("class", "ungrouped", "foreign")
    }


def test_cache_size_is_exported_if_known(host: MonitoredHost) -> None:
    say_paths(host.resctrl, {"mon_L3_01/llc_occupancy": 1})
    (host.resctrl / "info/L3").mkdir(parents=True)
    (host.resctrl / "info/L3/cbm_mask").write_text("fff\n")
    (host.resctrl / "schemata").write_text("MB:0=100\n    L3:0=fff;1=0ff\n")
    (host.resctrl / "size").write_text("MB:0=100\n    L3:0=1200;1=800\n")
    text = host.run("metrics").stdout
    for name in ("00", "01"):
        assert f'resctrl_l3_size_bytes{{domain_id="{name}",domain_name="mon_L3_{name}"}} 1200.0' in text


def empty(group: Path) -> None:
    """In a plain tree a group's files don't go with it."""
    for path in sorted(group.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def domain_bytes(host: MonitoredHost) -> dict[str, float]:
    name = "resctrl_domain_mbm_bytes_total"
    return {sample.labels["domain"]: sample.value for sample in scraped(host) if sample.name == name}


def test_memory_domain_traffic_never_decreases(host: MonitoredHost, tmp_path: Path) -> None:
    assert domain_bytes(host) == {"0": 1380}
    count(host, pods=(150, 200), kepler=50, ungrouped=30, gold=(1000, 5))
    assert domain_bytes(host) == {"0": 1435}
    shutil.move(host.resctrl / "mon_groups/kepler", tmp_path / "aside")
    say(host.resctrl, llc_occupancy=380, mbm_total_bytes=380)
    assert domain_bytes(host) == {"0": 1435}
    shutil.move(host.resctrl / "gold", tmp_path / "aside-gold")
    assert domain_bytes(host) == {"0": 1435}


def test_memory_domain_traffic_is_absent_while_a_class_is_unknown(host: MonitoredHost) -> None:
    assert domain_bytes(host) == {"0": 1380}
    say(host.resctrl / "mon_groups/kepler", mbm_total_bytes="Unavailable")
    assert domain_bytes(host) == {}
    count(host, pods=(150, 200), kepler=50, ungrouped=25, gold=(1000, 5))
    assert domain_bytes(host) == {"0": 1430}
