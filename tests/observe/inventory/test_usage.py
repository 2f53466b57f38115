"""The lines of `top`: pods by class, each pod with its share of each class."""

from pathlib import Path
from typing import Any

import pytest
from hosts.monitored import KEYS, plain_host

from observe.inventory.test_rates import KEY, OCCUPANCY, OTHER, TOTAL, reading, snapshot
from resctrl_hooks.core.node.resctrl.counters import UNASSIGNED, UNAVAILABLE, WAITING, slot_at
from resctrl_hooks.observe.inventory import usage as lines_of
from resctrl_hooks.observe.inventory.columns import LLC, MBM
from resctrl_hooks.observe.inventory.rates import FOREIGN, POD, UNGROUPED, Line
from resctrl_hooks.observe.inventory.rates import TOTAL as NODE
from resctrl_hooks.observe.inventory.usage import Users, grouped, ordered, total, usage, with_total
from resctrl_hooks.observe.node.snapshot.snapshot import ClassCounts, Counts, Snapshot


def by_class(before: Snapshot, now: Snapshot) -> dict[str, Line]:
    lines = usage(before, now)
    return {line.name: line for line in grouped(lines, "class") if line.kind == POD}


def rates(before: Snapshot, now: Snapshot) -> dict[str, float | None]:
    return {name: line[MBM] for name, line in by_class(before, now).items()}


def test_pod_in_two_classes_has_its_share_in_each() -> None:
    before = snapshot(100, reading(0, 7), reading(0, 7, rdt_class="gold"))
    now = snapshot(102, reading(40, 9), reading(20, 9, rdt_class="gold"))
    assert rates(before, now) == {"/": 20, "gold": 10}
    assert [line.members for line in by_class(before, now).values()] == [1, 1]


def test_share_of_a_class_is_unknown_only_in_the_class_that_is_not_counted() -> None:
    before = snapshot(100, reading(0, 7, UNASSIGNED), reading(0, 7, rdt_class="gold"), held=("", "gold"))
    now = snapshot(102, reading(0, 7, UNASSIGNED), reading(20, 9, rdt_class="gold"), held=("", "gold"))
    assert rates(before, now) == {"/": None, "gold": 10}
    assert {name: line.uncounted for name, line in by_class(before, now).items()} == {"/": 1, "gold": 0}


def test_pod_that_left_a_class_long_ago_has_no_share_in_it() -> None:
    before = snapshot(100, reading(50, 7, WAITING), reading(0, 7, rdt_class="gold"), held=("gold",))
    now = snapshot(102, reading(50, 7, WAITING), reading(20, 9, rdt_class="gold"), held=("gold",))
    assert rates(before, now) == {"gold": 10}


def test_pod_that_changes_its_class_has_unknown_rates_in_both() -> None:
    before = snapshot(100, reading(0, 7))
    now = snapshot(102, reading(20, 8, WAITING), reading(20, 1, rdt_class="gold"), held=("gold",))
    assert rates(before, now) == {"/": None, "gold": None}


@pytest.mark.parametrize("by", ["pod", "namespace"])
def test_pod_in_two_classes_is_one_pod_elsewhere(by: str) -> None:
    before = snapshot(100, reading(0, 7), reading(0, 7, rdt_class="gold"))
    now = snapshot(102, reading(40, 9), reading(20, 9, rdt_class="gold"))
    (line,) = [line for line in grouped(usage(before, now), by) if line.kind == POD]
    assert (line[MBM], line.members, line.rdt_class) == (30, 1, None)


@pytest.mark.parametrize("identity, rate", [("1", 20.0), ("2", None)])
def test_ungrouped_tasks_of_a_class_created_again_have_no_rate(identity: str, rate: float | None) -> None:
    def look(when: float, which: str, value: float) -> Snapshot:
        classes = {"gold": ClassCounts(which, {}, {TOTAL: value}, {}, {})}
        return Snapshot(when, {TOTAL: slot_at(TOTAL)}, classes=classes)

    (line,) = [line for line in usage(look(100, "1", 10), look(102, identity, 50)) if line.kind == UNGROUPED]
    assert line[MBM] == rate


def test_lines_of_a_domain_have_only_its_values() -> None:
    cache = OCCUPANCY.replace("00", "01")

    def look(when: float, here: float, there: float) -> Snapshot:
        gauges = [reading(5, 0, path=cache), reading(9, 0, path=OCCUPANCY)]
        found = [reading(here, when), reading(there, when, path=OTHER), *gauges]
        classes = {"": ClassCounts("0", {OCCUPANCY: 9, cache: 5}, {TOTAL: here, OTHER: there}, {}, {})}
        groups = {("", "job"): Counts("1", {TOTAL: here, OTHER: there})}
        slots = {path: slot_at(path) for path in (TOTAL, OTHER, OCCUPANCY, cache)}
        return Snapshot(when, slots, {KEY: found}, {KEY: {""}}, groups, classes)

    before, now = look(100, 0, 0), look(102, 40, 20)
    lines = usage(before, now, None, "mon_L3_01")
    assert [line[MBM] for line in lines] == [10, 10, 10, 30]
    assert [line[LLC] for line in lines] == [5, None, None, 5]
    whole = usage(before, now)
    assert [line[MBM] for line in whole] == [30, 30, 30, 90]
    assert [total(whole, now, 2, f"mon_L3_0{number}")[MBM] for number in (0, 1, 2)] == [60, 30, None]


def test_waiting_pod_is_in_no_class() -> None:
    waiting = snapshot(100, reading(0, 7, WAITING)), snapshot(102, reading(0, 7, WAITING))
    assert rates(*waiting) == {"(no group)": None}
    assert KEY in waiting[0].pods


def pod(name: str, mbm: float | None, **more: Any) -> Line:
    return Line(POD, name, name, {"mbm": mbm}, counted=1.0, **more)


def names(lines: list[Line]) -> list[str]:
    return [line.name for line in lines]


def test_line_of_a_pod_has_its_names_and_its_only_class(tmp_path: Path) -> None:
    with plain_host(tmp_path, "gold/mon_groups") as host:
        host.group(0, "web", rdt_class="gold")
        host.group(1, "db")
        host.group(1, "db", rdt_class="gold")
        users = Users(host.context)
        users.learn(KEYS[:2])
        used = Line(values={"mbm": 5}, counted=1.0)
        counted, uncounted = reading(1, 7), reading(1, 7, UNASSIGNED)
        one, two = users.line(KEYS[0], used, [counted]), users.line(KEYS[1], used, [counted, uncounted])
    assert one == Line(POD, "shop/web", KEYS[0], {"mbm": 5}, "shop", "web", "gold", counted=1.0)
    assert two == Line(POD, "shop/db", KEYS[1], {"mbm": 5}, "shop", "db", None, uncounted=1, counted=1.0)
    assert (users.name(KEYS[0]), users.name(KEYS[2])) == ("shop/web", KEYS[2][:12])


def test_values_that_miss_a_part_of_the_pods_life_are_partial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_of, "is_partial", lambda reading, _: reading.value == 1)
    with plain_host(tmp_path) as host:
        users = Users(host.context)
        assert users.line(KEYS[0], Line(), [reading(2, 7), reading(1, 7)]).partial
        assert not users.line(KEYS[0], Line(), [reading(2, 7)]).partial


@pytest.mark.parametrize("identity, rate, moved", [("1", 20.0, 40), ("2", None, 50), (None, None, 50)])
def test_foreign_group_has_a_rate_unless_it_is_new(identity: str | None, rate: float | None, moved: int) -> None:
    def look(when: float, which: str | None, value: float) -> Snapshot:
        groups = {("gold", "job"): Counts(which, {TOTAL: value})} if which else {}
        return Snapshot(when, {TOTAL: slot_at(TOTAL)}, foreign=groups)

    line, rest, node = usage(look(100, identity, 10), look(102, "1", 50))
    assert (line.kind, line.name, line.key) == (FOREIGN, "gold/mon_groups/job", "")
    assert (line[MBM], line.moved) == (rate, {"mbm_total_bytes": moved})
    assert (rest.kind, rest[MBM], node.kind) == (UNGROUPED, None, NODE)
    assert node[MBM] == moved / 2


@pytest.mark.parametrize("other, cache", [(300, 400), (UNAVAILABLE, None)])
def test_total_is_the_sum_of_all_lines_and_of_the_classes_cache(other: float | str, cache: float | None) -> None:
    def look(when: float, one: float, rest: float) -> Snapshot:
        part = "mon_L3_00/mon_sub_L3_01/llc_occupancy"
        paths = (TOTAL, OCCUPANCY, part)
        classes = {
            "": ClassCounts("0", {OCCUPANCY: 100, part: 60, TOTAL: 9}, {TOTAL: rest}, {}, {}),
            "gold": ClassCounts("1", {OCCUPANCY: other}, {TOTAL: 0}, {}, {}),
        }
        pods = {KEY: [reading(one, when - 90, path=TOTAL)]}
        return Snapshot(when, {path: slot_at(path) for path in paths}, pods, {KEY: {""}}, classes=classes)

    *_, node = usage(look(100, 0, 0), look(102, 40, 20))
    assert (node.name, node.key, node[MBM], node[LLC]) == ("TOTAL", "", 30, cache)
    assert usage(look(100, 0, 0), look(100, 40, 20))[-1][MBM] is None


def test_total_counts_the_pods_without_a_counter() -> None:
    before = snapshot(100, reading(0, 7, UNASSIGNED))
    assert usage(before, snapshot(102, reading(0, 7, UNASSIGNED)))[-1].uncounted == 0  # without records
    lines = [pod("a", 1, uncounted=1), pod("b", 2, uncounted=1), Line(NODE, "TOTAL", "", {"mbm": 9})]
    (*shown, total) = with_total(lines)
    assert shown == lines[:2]
    assert (total.kind, total[MBM], total.members, total.uncounted) == (NODE, 3, 2, 2)


def test_groups_by_namespace_have_the_sums_of_their_pods() -> None:
    rest, node = (Line(kind, kind, "", {"mbm": 9}) for kind in (UNGROUPED, NODE))
    job, task = (Line(FOREIGN, name, "", {"mbm": 4}) for name in ("job", "task"))
    lines = [
        pod("a", 1, namespace="shop", slowdown=1.5, uncounted=1),
        pod("b", 2, namespace="shop", slowdown=1.2),
        pod("c", 3),
        *(job, task, rest, node),
    ]
    shop, none, foreign, *others = grouped(lines, "namespace")
    assert (shop.name, shop.namespace, shop[MBM]) == ("shop", "shop", 3)
    assert (shop.members, shop.slowdown, shop.uncounted) == (2, 1.5, 1)
    assert (none.name, none.namespace, none.slowdown) == ("(no namespace)", "", None)
    assert (foreign.name, foreign[MBM], foreign.members) == ("(foreign groups)", 8, 2)
    assert others == [rest, node]
    assert grouped(lines, "pod") == lines
    assert not [line for line in grouped(lines[:3], "class") if line.namespace or line.kind == FOREIGN]


USED = [pod("b", 3), pod("a", 3), pod("c", None), pod("d", 9, slowdown=1.1), Line(FOREIGN, "e", "", {"mbm": 5})]
REST = [Line(UNGROUPED, "(ungrouped)", "", {"mbm": 99}), Line(NODE, "TOTAL", "", {"mbm": 99})]


@pytest.mark.parametrize(
    "sort, reverse, expected",
    [
        ("mbm", False, "deabc"),
        ("mbm", True, "cabed"),
        ("name", False, "abcde"),
        ("name", True, "edcba"),
        ("slow", False, "dabce"),
        ("slow", True, "abced"),
    ],
)
def test_lines_are_sorted_and_the_rest_stays_last(sort: str, expected: str, *, reverse: bool) -> None:
    assert names(ordered([*REST, *USED], sort, reverse=reverse)) == [*expected, *names(REST)]


@pytest.mark.parametrize(
    "sort, values, reverse, expected",
    [
        ("mbm", {"a": 10, "b": 10.9, "c": 12}, False, "cba"),
        ("mbm", {"a": 10, "b": 10.9, "c": 12}, True, "abc"),
        ("mbm", {"b": 199.6e6, "a": 200.4e6, "c": 199.4e6}, False, "abc"),  # 200, 200, 199 MB/s
        ("mbm", {"b": 200.4e6, "a": 199.6e6, "c": 199.4e6}, False, "abc"),
        ("mbm", {"b": 200.4e6, "a": 199.6e6, "c": 199.4e6}, True, "cab"),
        ("mbm", {"b": 999.7e3, "a": 1.004e6, "c": 1.006e6}, False, "cab"),  # 1.00, 1.00, 1.01 MB/s
        ("mbm", {"b": 0, "a": 0, "c": 0.2}, False, "cab"),
        ("llc", {"b": 2.001 * 2**20, "a": 1.999 * 2**20, "c": 2.02 * 2**20}, False, "cab"),  # 2.00, 2.00, 2.02 MiB
        ("llc", {"b": 1023.8 * 2**10, "a": 2**20, "c": 1023 * 2**10}, False, "abc"),
        ("watts", {"b": 8.004, "a": 7.996, "c": 7.99}, False, "abc"),
        ("slow", {"b": 1.64, "a": 1.56, "c": 1.66}, False, "cab"),  # 1.6, 1.6, 1.7
    ],
)
def test_lines_are_in_the_order_of_displayed_values_then_of_names(
    sort: str, values: dict[str, float], expected: str, *, reverse: bool
) -> None:
    lines = [Line(POD, name, name, {sort: one}, slowdown=one) for name, one in values.items()]
    assert names(ordered(lines, sort, reverse=reverse)) == [*expected]
    assert names(ordered(lines[::-1], sort, reverse=reverse)) == [*expected]


def test_lines_of_documents_are_in_the_order_of_their_exact_values() -> None:
    lines = [Line(POD, name, name, {"mbm": one}) for name, one in {"a": 199.6e6, "b": 200.4e6, "c": 1.0}.items()]
    assert names(ordered(lines, "mbm", exact=True)) == ["b", "a", "c"]
