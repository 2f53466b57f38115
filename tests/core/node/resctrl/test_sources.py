"""The one rule of sources: whatever reads see of them, a total is never above what they counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hosts.counter_tree import ENERGY, TOTAL
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.resctrl.sources import Sources, began_at, drop_repeats, is_new, new_source
from resctrl_hooks.core.node.resctrl.total import GONE, LEFT, OUT_OF_VIEW, SEEN, Source, Total

if TYPE_CHECKING:
    from resctrl_hooks.core.node.resctrl.sources import Found

GROUPS = st.integers(0, 3)
STEPS = st.one_of(
    st.tuples(st.just("count"), GROUPS, st.integers(0, 100)),
    st.tuples(st.sampled_from(["lose", "find", "remove"]), GROUPS, st.just(0)),
    st.tuples(st.just("move"), GROUPS, st.integers(0, 9)),
    st.tuples(st.just("read"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("leave"), st.just(0), st.just(0)),
)


class Model:
    """Groups that count, of which a read sees those that are in view; a removed one begins again as another."""

    def __init__(self) -> None:
        self.sources, self.total = Sources(), Total()
        self.number = 0
        self.truth = self.lost = 0
        self.groups: dict[int, list[int]] = {}  # identity, count, place, and the count at the last read
        self.lost_view: set[int] = set()

    def count(self, group: int, number: int) -> None:
        if group not in self.groups:
            self.number += 1
            self.groups[group] = [self.number, 0, group, 0]
        self.groups[group][1] += number
        self.truth += number

    def lose(self, group: int, _: int) -> None:
        self.lost_view.add(group)

    def find(self, group: int, _: int) -> None:
        self.lost_view.discard(group)

    def remove(self, group: int, _: int) -> None:
        if group in self.groups:
            _, count, _, read = self.groups.pop(group)
            self.lost += count - read
        self.lost_view.discard(group)

    def move(self, group: int, place: int) -> None:
        if group in self.groups and place not in {of[2] for of in self.groups.values()}:
            self.groups[group][2] = place

    def leave(self, *_: int) -> None:
        self.sources.leave(LEFT)

    def read(self, whole: int = 1, _: int = 0) -> None:
        """Read; with ``whole`` the groups that are not in view seem to be gone, else hidden."""
        there = {name: of for name, of in self.groups.items() if name not in self.lost_view}
        found: Found = {str(place): (str(identity), [count]) for identity, count, place, _ in there.values()}
        for group in there.values():
            group[3] = group[1]
        self.sources.observe(found, lambda known, place, identity: known or Source(identity), hidden=not whole)
        for where, pair in found.items():
            self.total.add(self.sources.seen[where], [(TOTAL, pair[1][0])], 0.0)


@given(st.lists(STEPS, max_size=40))
def test_total_is_never_above_the_truth_and_equals_it_after_a_quiet_read(steps: list[tuple[str, int, int]]) -> None:
    model = Model()
    last = 0.0
    for name, *arguments in steps:
        if name == "leave" and (model.lost_view & model.groups.keys() or not model.groups):
            continue  # a key gives away what it has just read
        getattr(model, name)(*arguments)
        total = model.total.amounts.get(TOTAL, 0)
        assert last <= total <= model.truth
        last = total
    model.lost_view.clear()
    model.read()
    assert model.total.amounts.get(TOTAL, 0) == model.truth - model.lost


def one(identity: str, place: str = "") -> Found:
    return {place: (identity, [1])}


def keep(known: Source | None, place: str, identity: str) -> Source:
    return known or Source(identity, place=place)


def test_missing_source_is_gone_only_if_nothing_is_hidden() -> None:
    sources = Sources()
    assert not sources.observe(one("a"), keep, hidden=False)
    assert sources.are_as_before(one("a"))
    assert not sources.observe({}, keep, hidden=True)
    assert sources.unseen["a"].state == OUT_OF_VIEW
    assert not sources.are_as_before({}), "the next read decides"
    assert [source.identity for source in sources.observe({}, keep, hidden=False)] == ["a"]
    assert sources.unseen["a"].state == GONE
    assert not sources.observe({}, keep, hidden=False), "it is gone once"
    sources.observe(one("a", "gold"), keep, hidden=False)
    assert (sources.seen["gold"].state, sources.unseen) == (SEEN, {})


def test_source_that_was_left_is_forgotten_without_a_loss() -> None:
    sources = Sources()
    sources.observe(one("a"), keep, hidden=False)
    sources.leave(LEFT)
    assert not sources.observe({}, keep, hidden=True)
    assert sources.unseen["a"].state == LEFT, "it may still be there"
    assert not sources.observe({}, keep, hidden=False)
    assert not sources.unseen


def test_unseen_sources_are_bounded_and_those_out_of_view_stay() -> None:
    sources = Sources()
    sources.observe({"hidden": ("hidden", [1])}, keep, hidden=False)
    sources.observe({}, keep, hidden=True)
    for number in range(40):
        sources.observe({"": (str(number), [1])}, keep, hidden=True)
        for source in sources.unseen.values():
            source.state = OUT_OF_VIEW if source.identity == "hidden" else GONE
    assert len(sources.unseen) <= 18, "16 that ended, and those out of view: one for long, and the last one"
    assert "hidden" in sources.unseen


def test_repeated_look_counts_the_last_place() -> None:
    found: Found = {"": ("a", [1]), "gold": ("a", [2]), "silver": ("b", [3])}
    drop_repeats(found)
    assert found == {"gold": ("a", [2]), "silver": ("b", [3])}


@pytest.mark.parametrize("began, new", [(None, False), (5.0, False), (10.0, False), (11.0, True)])
def test_uncertain_source_is_new_only_if_it_began_after_the_last_read(began: float | None, new: bool) -> None:
    assert is_new(Source("a", 10.0, place=""), began) is new


def test_uncertain_source_counts_what_cannot_be_of_before() -> None:
    source = Source("a", 10.0, lasts={TOTAL: 50, "mon_L3_01/x": 7, ENERGY: 3.0})
    total = Total()
    values = [(TOTAL, 20), ("mon_L3_01/x", 9), (ENERGY, 900.0)]
    assert source.weaken(values)
    total.add(source, values, 20.0)
    assert total.amounts == {TOTAL: 20, "mon_L3_01/x": 2, ENERGY: 0}
    assert not source.weaken([(TOTAL, 20), (ENERGY, "Error")])


def test_begin_is_known_of_own_and_runtimes_groups() -> None:
    record = {"groups": {"": "created", "gold": "shared"}, "since": {"": 5.0, "gold": 6.0, "gold/c0": 7.0}}
    assert [began_at(record, place) for place in ("", "gold", "gold/c0", "silver")] == [5.0, None, 7.0, None]
    assert new_source(record, "", "a", 3.0).read == 3.0
    assert new_source(record, "", "a", 9.0).read == 5.0
