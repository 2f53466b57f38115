"""The lines of `top`: pods, each with its share of each class, foreign groups, ungrouped tasks, sums, their order."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from hosts.monitored import KEYS, plain_host
from hypothesis import given, settings
from hypothesis import strategies as st

from observe.inventory.test_rates import KEY, OCCUPANCY, OTHER, TOTAL, gold, reading, snapshot
from resctrl_hooks.core.inventory.amounts import scaled
from resctrl_hooks.core.node.resctrl.counters import UNASSIGNED, UNAVAILABLE, WAITING, slot_at
from resctrl_hooks.observe.inventory import usage as lines_of
from resctrl_hooks.observe.inventory.columns import BY_KEY, LLC, MBM
from resctrl_hooks.observe.inventory.rates import FOREIGN, POD, UNGROUPED, Line
from resctrl_hooks.observe.inventory.rates import TOTAL as NODE
from resctrl_hooks.observe.inventory.slowdown import as_text
from resctrl_hooks.observe.inventory.usage import USERS, Users, grouped, ordered, usage, with_total
from resctrl_hooks.observe.node.snapshot.snapshot import ClassCounts, Counts, Snapshot

BOTH = ("", "gold")


@pytest.mark.parametrize(
    "before, now, held, rates",
    [
        ([reading(0, 7), gold(0, 7)], [reading(40, 9), gold(20, 9)], BOTH, {"/": 20, "gold": 10}),
        ([reading(0, 7, UNASSIGNED), gold(0, 7)], [reading(0, 7, UNASSIGNED), gold(20, 9)], BOTH,
         {"/": None, "gold": 10}),
        # It left the class long ago; it changes its class; it waits in no class.
        ([reading(50, 7, WAITING), gold(0, 7)], [reading(50, 7, WAITING), gold(20, 9)], ("gold",), {"gold": 10}),
        ([reading(0, 7)], [reading(20, 8, WAITING), gold(20, 1)], None, {"/": None, "gold": None}),
        ([reading(0, 7, WAITING)], [reading(0, 7, WAITING)], None, {"(no group)": None}),
    ],
)  # fmt: skip
def test_pod_has_its_share_in_each_class(before: Any, now: Any, held: Any, rates: dict[str, float | None]) -> None:
    lines = usage(snapshot(100, *before, held=held), snapshot(102, *now, held=held))
    by_class = [line for line in grouped(lines, "class") if line.kind == POD]
    assert {line.name: line[MBM] for line in by_class} == rates
    assert {line.members for line in by_class} == {1}
    assert {line.name: line.uncounted for line in by_class if line[MBM] is not None} == {
        name: 0 for name, rate in rates.items() if rate is not None
    }
    assert [line.members for line in grouped(lines, "namespace") if line.kind == POD] == [1]


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
    assert [(line[MBM], line[LLC]) for line in lines] == [(10, 5), (10, None), (10, None), (30, 5)]
    whole = usage(before, now)
    assert [line[MBM] for line in whole] == [30, 30, 30, 90]
    assert [lines_of.total(whole, now, 2, f"mon_L3_0{number}")[MBM] for number in (0, 1, 2)] == [60, 30, None]


def test_line_of_a_pod_has_its_names_and_its_only_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_of, "is_partial", lambda one, _: one.value == 9)
    with plain_host(tmp_path, "gold/mon_groups") as host:
        host.group(0, "web", rdt_class="gold")
        host.group(1, "db")
        host.group(1, "db", rdt_class="gold")
        users = Users(host.context)
        users.learn(KEYS[:2])
        used = Line(values={"mbm": 5}, counted=1.0)
        counted, uncounted = reading(1, 7), reading(1, 7, UNASSIGNED)
        one, two = users.line(KEYS[0], used, [counted]), users.line(KEYS[1], used, [counted, uncounted])
        assert users.line(KEYS[2], Line(), [counted, reading(9, 7)]).partial
    assert one == Line(POD, "shop/web", KEYS[0], {"mbm": 5}, "shop", "web", "gold", counted=1.0)
    assert two == Line(POD, "shop/db", KEYS[1], {"mbm": 5}, "shop", "db", None, uncounted=1, counted=1.0)
    assert (users.name(KEYS[0]), users.name(KEYS[2])) == ("shop/web", KEYS[2][:12])


@pytest.mark.parametrize("identity, rate, moved", [("1", 20.0, 40), ("2", None, 50), (None, None, 50)])
def test_foreign_group_and_class_have_a_rate_unless_they_are_new(
    identity: str | None, rate: float | None, moved: int
) -> None:
    def look(when: float, which: str | None, value: float) -> Snapshot:
        groups = {("gold", "job"): Counts(which, {TOTAL: value})} if which else {}
        classes = {"gold": ClassCounts(which or "", {}, {TOTAL: value}, {}, {})}
        return Snapshot(when, {TOTAL: slot_at(TOTAL)}, foreign=groups, classes=classes)

    line, rest, node = usage(look(100, identity, 10), look(102, "1", 50))
    assert (line.kind, line.name, line.key) == (FOREIGN, "gold/mon_groups/job", "")
    assert (line[MBM], line.moved) == (rate, {"mbm_total_bytes": moved})
    assert (rest.kind, rest[MBM], node.kind) == (UNGROUPED, rate, NODE)
    assert node[MBM] == (moved if rate else None)


@pytest.mark.parametrize("other, cache", [(300, 400), (UNAVAILABLE, None)])
def test_total_is_the_sum_of_all_lines_and_of_the_classes_cache(other: float | str, cache: float | None) -> None:
    def look(when: float, one: float, rest: float) -> Snapshot:
        part = "mon_L3_00/mon_sub_L3_01/llc_occupancy"
        classes = {
            "": ClassCounts("0", {OCCUPANCY: 100, part: 60, TOTAL: 9}, {TOTAL: rest}, {}, {}),
            "gold": ClassCounts("1", {OCCUPANCY: other}, {TOTAL: 0}, {}, {}),
        }
        slots = {path: slot_at(path) for path in (TOTAL, OCCUPANCY, part)}
        return Snapshot(when, slots, {KEY: [reading(one, when - 90, path=TOTAL)]}, {KEY: {""}}, classes=classes)

    *_, node = usage(look(100, 0, 0), look(102, 40, 20))
    assert (node.name, node.key, node[MBM], node[LLC]) == ("TOTAL", "", 30, cache)
    assert usage(look(100, 0, 0), look(100, 40, 20))[-1][MBM] is None


RATIOS = st.one_of(st.none(), st.sampled_from([0.0, 1.0, 1.04, 1.05, 1.2, 1.64, 1.9]))
AMOUNTS = st.one_of(
    st.none(),
    st.sampled_from([0.0, 0.2, 10, 10.9, 999.7e3, 1.004e6, 1.006e6, 199.4e6, 199.6e6, 200.4e6, 2**20, 2.001 * 2**20]),
)
LINES = st.lists(
    st.builds(
        Line,
        kind=st.sampled_from([POD, POD, FOREIGN, UNGROUPED, NODE]),
        name=st.text("abc", min_size=1, max_size=3),
        values=st.fixed_dictionaries(dict.fromkeys(BY_KEY, AMOUNTS)),
        namespace=st.sampled_from(["", "shop", "batch"]),
        rdt_class=st.sampled_from([None, "", "gold"]),
        slowdown=RATIOS,
        uncounted=st.integers(0, 1),
    ),
    max_size=8,
)


def shown(line: Line, sort: str) -> tuple[float, str]:
    """Return the value of a line, and its text; an unknown one is smaller than any other."""
    value = line.slowdown if sort == "slow" else line.values[sort]
    if value is None:
        return -1.0, ""
    return value, as_text(value) if sort == "slow" else scaled(value, "", binary=not BY_KEY[sort].is_rate)


@settings(max_examples=examples(100))
@given(LINES, st.sampled_from([*BY_KEY, "slow", "name"]), st.booleans(), st.booleans())
def test_lines_are_in_the_order_of_displayed_or_exact_values_then_of_names(
    lines: list[Line], sort: str, reverse: bool, exact: bool
) -> None:
    found = ordered(lines, sort, reverse=reverse, exact=exact)
    users = [line for line in found if line.kind in USERS]
    assert sorted(map(id, found)) == sorted(map(id, lines))
    assert found[len(users) :] == [line for line in lines if line.kind not in USERS], "the sums stay last"
    for one, two in itertools.pairwise(users):
        if sort == "name":
            assert one.name >= two.name if reverse else one.name <= two.name
            continue
        (first, text), (second, other) = shown(one, sort), shown(two, sort)
        if first == second or (not exact and text == other):
            assert one.name <= two.name
        else:
            assert (first < second) == reverse


@settings(max_examples=examples(60))
@given(LINES, st.sampled_from(["namespace", "class"]))
def test_each_line_is_in_one_sum_and_unknown_values_make_it_unknown(lines: list[Line], by: str) -> None:
    found = grouped(lines, by)
    names = {"namespace": lambda one: one.namespace or "(no namespace)"}
    names["class"] = lambda one: "(no group)" if one.rdt_class is None else one.rdt_class or "/"
    for line in found:
        parts = [
            one for one in lines if one.kind == line.kind and (line.kind == FOREIGN or names[by](one) == line.name)
        ]
        if line.kind not in USERS:
            assert line in lines
            continue
        values = [one.values["mbm"] for one in parts]
        assert line[MBM] == (None if None in values else sum(values))  # type: ignore[arg-type]
        assert (line.members, line.uncounted) == (len(parts), sum(one.uncounted for one in parts))
        if line.kind == POD:
            ratios = [one.slowdown for one in parts if one.slowdown is not None]
            assert (line.key, line.slowdown) == (line.name, max(ratios, default=None))
            assert line.namespace == (parts[0].namespace if by == "namespace" else "")
    assert [line.name for line in found if line.kind == FOREIGN] in ([], ["(foreign groups)"])
    assert {line.kind for line in found} == {line.kind for line in lines}
    assert grouped(lines, "pod") == lines


@settings(max_examples=examples(25))
@given(LINES)
def test_total_is_that_of_the_lines_above(lines: list[Line]) -> None:
    *above, total = with_total(lines)
    assert above == [line for line in lines if line.kind != NODE]
    values = [line.values["mbm"] for line in above]
    assert total[MBM] == (sum(values) if values and None not in values else None)  # type: ignore[arg-type]
    assert (total.kind, total.members, total.uncounted) == (NODE, len(above), sum(one.uncounted for one in above))
