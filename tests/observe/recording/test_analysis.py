"""Users, rates, gaps and missing values of a recording."""

import pytest

from resctrl_hooks.observe.node.history.rows import GROUP, PACKAGE, POD, REST, Row
from resctrl_hooks.observe.recording.analysis import (
    BANDWIDTH,
    OTHERS,
    Times,
    User,
    by_namespace,
    largest,
    missing,
    recording_of,
    series,
    user_of,
)
from resctrl_hooks.observe.recording.tables import gaps_table

from .rows import L3, START, rows_of


@pytest.mark.parametrize(
    "row, name, namespace",
    [
        ({"kind": POD, "key": "uid", "namespace": "shop", "pod": "web"}, "shop/web", "shop"),
        ({"kind": POD, "key": "uid", "namespace": "shop"}, "shop/uid", "shop"),
        ({"kind": POD, "key": "uid", "pod": "web"}, "web", ""),
        ({"kind": GROUP, "key": "theirs"}, "mon_groups/theirs", ""),
        ({"kind": GROUP, "key": "theirs", "rdt_class": "gold"}, "gold/mon_groups/theirs", ""),
        ({"kind": REST}, "(ungrouped)", ""),
        ({"kind": REST, "rdt_class": "gold"}, "(ungrouped, class gold)", ""),
        ({"kind": PACKAGE, "key": "package-0"}, "(package)", ""),
    ],
)
def test_user_is_named_after_its_kind_and_the_host_if_there_are_several(row: Row, name: str, namespace: str) -> None:
    key, kind = str(row.get("key") or ""), str(row["kind"])
    found = {**row, "host": "n1"}
    assert user_of(found, several=False) == User(name, namespace, kind, key, "n1")
    assert user_of(found, several=True) == User(f"n1: {name}", namespace and f"n1: {namespace}", kind, key, "n1")


def test_two_hosts_have_two_users_of_one_name() -> None:
    rows = [{**row, "host": host} for host in ("n2", "n1") for row in rows_of({"web": [1]})]
    found = recording_of(rows)
    assert [*found.times] == ["n1", "n2"]
    assert [user.name for user in found.users] == ["n2: shop/web", "n1: shop/web"]
    assert [user.name for user in recording_of(rows[:2]).users] == ["shop/web"]


@pytest.mark.parametrize(
    "times, usual, gaps",
    [
        ([], 0, []),
        ([5], 0, []),
        ([0, 10], 10, []),
        ([0, 1, 3, 6], 2, []),
        ([0, 2, 4, 8, 10], 2, []),  # exactly twice the usual interval
        ([0, 2, 4, 8.1, 10], 2, [(4, 8.1)]),
    ],
)
def test_gap_is_longer_than_twice_the_usual_interval(
    times: list[float], usual: float, gaps: list[tuple[float, float]]
) -> None:
    found = Times(times)
    assert (found.usual, found.gaps) == (usual, gaps)


@pytest.mark.parametrize("counted, rate", [(None, 1), (2.0, 1), (1.97, 1), (1.5, 4 / 3), (1.0, 2), (0.9, None)])
def test_rate_is_by_the_counted_seconds_from_half_of_the_interval_on(counted: float | None, rate: float | None) -> None:
    rows = [
        {**row, **({} if counted is None else {"counted_seconds": sample * counted})}
        for sample, row in enumerate(rows_of({"web": [1]}, 2))
    ]
    found = [value / 1e9 for points in series(recording_of(rows), BANDWIDTH).values() for value in points.values()]
    assert found == ([] if rate is None else [pytest.approx(rate)])


@pytest.mark.parametrize("row", [0, 1])
def test_interval_with_one_counted_time_is_all_counted(row: int) -> None:
    rows = rows_of({"web": [1]}, 2)
    rows[row] = {**rows[row], "counted_seconds": 1.5}
    ((_, points),) = series(recording_of(rows), BANDWIDTH).items()
    assert list(points.values()) == [1e9]


def test_rows_of_one_time_have_no_rate() -> None:
    rows = rows_of({"web": [1, 1]})
    found = recording_of([*rows, rows[-1]])
    ((_, points),) = series(found, BANDWIDTH).items()
    assert list(points.values()) == [1e9, 1e9]


def test_user_without_a_value_in_one_of_its_domains_has_no_sum() -> None:
    rows = rows_of({"web": [1, 1, 1]}, domains=L3)
    del rows[-1]
    ((_, points),) = series(recording_of(rows), BANDWIDTH).items()
    assert {moment - START.timestamp(): value for moment, value in points.items()} == {1: 2e9, 2: 2e9}


def test_namespace_is_the_sum_of_its_pods_where_any_has_a_value() -> None:
    web, cart, rest = User("shop/web", "shop", POD, "a"), User("shop/cart", "shop", POD, "b"), User("(r)", "", REST, "")
    found = by_namespace({web: {0.0: 1, 1.0: 2}, cart: {1.0: 3, 2.0: 4}, rest: {0.0: 7}})
    assert found == {"shop": {0.0: 1, 1.0: 5, 2.0: 4}, "(r)": {0.0: 7}}


def test_smallest_lines_are_drawn_as_one_of_others_if_there_are_more() -> None:
    lines = {f"p{number}": {0.0: float(number), 1.0: float(number)} for number in range(5)}
    assert largest(lines, 2) == {"p4": {0.0: 4, 1.0: 4}, "p3": {0.0: 3, 1.0: 3}, OTHERS: {0.0: 3, 1.0: 3}}
    assert [*largest(lines, 5)] == ["p4", "p3", "p2", "p1", "p0"]


def test_missing_values_are_counted_by_user_column_and_word_most_frequent_first() -> None:
    rows = rows_of({"web": [1, 1, 1], "cart": [1]}, domains=L3)
    words = {
        0: "mbm_total_bytes:Waiting llc_occupancy_bytes:Waiting",
        1: "mbm_total_bytes:Waiting",
        2: "mbm_total_bytes:Unavailable",
    }
    found = recording_of([{**row, "missing": words.get(number, "")} for number, row in enumerate(rows)])
    assert [(one.user.key, one.column, one.word, one.rows, one.of) for one in missing(found)] == [
        ("web", "mbm_total_bytes", "Waiting", 2, 8),
        ("web", "llc_occupancy_bytes", "Waiting", 1, 8),
        ("web", "mbm_total_bytes", "Unavailable", 1, 8),
    ]
    assert '<td>Waiting</td><td class="number">25 %</td>' in gaps_table(found)


def test_table_of_gaps_has_times_without_samples() -> None:
    rows = [row for row in rows_of({"web": [1] * 8}) if str(row["time"])[17:19] not in ("03", "04", "05")]
    table = gaps_table(recording_of(rows))
    assert '<td>no sample</td><td>2026-01-01 01:00:02 UTC</td><td class="number">4 s</td>' in table
    assert "Every counter had a value" in gaps_table(recording_of(rows_of({"web": [1]})))
