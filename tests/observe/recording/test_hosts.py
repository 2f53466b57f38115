"""A recording with rows of several hosts, each with its own times and its own domains of the same names."""

import re
from collections.abc import Sequence

import pytest

from resctrl_hooks.observe.node.history.rows import SCHEMATA, Row
from resctrl_hooks.observe.recording.analysis import Recording, recording_of
from resctrl_hooks.observe.recording.full import full_times
from resctrl_hooks.observe.recording.noise import answer, noisy
from resctrl_hooks.observe.recording.page import page_of
from resctrl_hooks.observe.recording.slowdown import slowed_pods
from resctrl_hooks.observe.recording.tables import gaps_table

from .rows import GB, L3, memory, rows_of, slowdown
from .test_charts import charts


def on(host: str, rows: Sequence[Row]) -> list[Row]:
    return [{**row, "host": host} for row in rows]


def two(second: float = 0.4) -> Recording:
    """Return loud, alone on n1, and four pods on n2, which is sampled some seconds later."""
    others = rows_of({f"p{one}": [6] * 10 for one in range(4)}, start=second)
    return recording_of([*rows_of({"loud": [8] * 10}), *on("n2", others)])


@pytest.mark.parametrize("second", [0, 0.4])
def test_pod_is_noisy_by_the_traffic_of_its_own_host(second: float) -> None:
    found = two(second)
    (one,) = noisy(found)
    assert (one.user.name, one.domain, one.moved, one.of) == ("n1: shop/loud", "n1/mon_L3_00", 80e9, 80e9)
    assert answer(found) == "n1: shop/loud moved 100% of all memory traffic, 01:00:00 to 01:00:10 UTC (8 GB/s)."


def test_line_has_only_the_times_of_its_host() -> None:
    """With the times of all hosts each value would be alone between two gaps, and so invisible."""
    (data, layout), (sums, titles) = charts(page_of(two()))
    assert [one["text"] for one in layout["annotations"]] == ["n1/mon_L3_00", "n2/mon_L3_00"]
    lines = {line["name"]: line for line in data}
    assert (lines["n1: shop/loud"]["y"], lines["n1: shop/loud"]["x"][1]) == (
        [None, *[8] * 10],
        "2026-01-01T01:00:01+00:00",
    )
    assert lines["n2: shop/p0"]["x"][1] == "2026-01-01T01:00:01.400000+00:00"
    assert lines["n2: shop/p0"]["y"] == [None, *[pytest.approx(6)] * 10]
    assert layout["xaxis"]["range"] == ["2026-01-01T01:00:00+00:00", "2026-01-01T01:00:10.400000+00:00"]
    assert [one["text"] for one in titles["annotations"]] == [
        "by namespace, n1/mon_L3_00",
        "by namespace, n2/mon_L3_00",
    ]
    assert {line["name"]: line["y"][1] for line in sums} == {"n1: shop": 8, "n2: shop": pytest.approx(24)}


def test_chart_by_namespace_of_several_domains_names_its_host() -> None:
    found = recording_of([*rows_of({"a": [1]}, domains=L3), *on("n2", rows_of({"a": [2]}))])
    _, (sums, titles) = charts(page_of(found))
    assert [one["text"] for one in titles["annotations"]] == [
        "by namespace, n1, all domains together",
        "by namespace, n2/mon_L3_00",
    ]
    assert [line["y"][1] for line in sums] == [2, 2]


def test_change_is_marked_on_its_host() -> None:
    rows = rows_of({"a": [1, 1]})
    change: Row = {**rows[1], "kind": SCHEMATA, "key": SCHEMATA, "event": "class batch: L3 fff to 00f"}
    (_, layout), (_, sums) = charts(page_of(recording_of([*rows, *on("n2", rows), *on("n2", [change])])))
    lines = [[one["xref"] for one in of["shapes"] if one["type"] == "line"] for of in (layout, sums)]
    assert lines == [["x2"], ["x2"]]


def test_full_domain_has_the_bytes_of_its_own_host() -> None:
    second = rows_of({"other": [50.0] * 5}, start=0.5)
    rows = [*rows_of({"etl": [90.0] * 5}), *memory([90] * 5), *on("n2", second)]
    (one,) = full_times(recording_of(rows), {})
    assert (one.memory.name, one.memory.l3, one.end - one.start) == ("n1/mon_L3_00", ["n1/mon_L3_00"], 5)
    assert {user.name: moved / GB for user, moved in one.moved.items()} == {"n1: shop/etl": 450}
    estimated = full_times(recording_of([row for row in rows if row["kind"] == "pod"]), {"*": 100 * GB})
    assert [(one.memory.host, one.end - one.start) for one in estimated] == [("n1", 5)]


def test_slowed_pod_has_its_hosts_seconds_and_domain() -> None:
    later = rows_of({"other": [1.0] * 5}, start=0.5)
    found = recording_of([*rows_of({"etl": [80.0] * 5}), *slowdown([1.0, 1.6, 1.6, 1.6]), *on("n2", later)])
    (one,) = slowed_pods(found, {})
    assert (one.user.name, one.seconds, one.domain) == ("n1: shop/web", 3, "n1/mon_L3_00")
    assert [user.name for user in one.culprits] == ["n1: shop/etl"]
    page = page_of(found)
    assert "resctrl recording of n1, n2" in page
    assert re.findall(r"<h3>(.*?)</h3>", page) == ["n1: shop/web"]


def test_gap_is_of_its_host() -> None:
    gap = [row for row in rows_of({"a": [1] * 8}) if str(row["time"])[17:19] not in ("03", "04", "05")]
    assert re.findall(
        r"<td>(\S+ \(all\))</td>", gaps_table(recording_of([*gap, *on("n2", rows_of({"b": [1] * 8}))]))
    ) == ["n1: (all)"]
