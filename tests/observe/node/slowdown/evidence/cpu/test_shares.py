"""Entitlements by weight, for any tree of cgroups."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.observe.node.slowdown.evidence.cpu.shares import Group, Share, cpus_beside, leaves, shares_on
from resctrl_hooks.observe.node.slowdown.evidence.cpu.what_if import WhatIf

ALL = 0b1111
EXACT = 1e-6


def trees(depth: int = 2) -> st.SearchStrategy[list[Group]]:
    """Return trees whose leaves have different names once `named` has seen them."""
    wanted = st.floats(0, 6).map(lambda value: round(value, 3))
    leaf = st.builds(
        lambda weight, limit, cpus, used, more: Group("", weight, limit, cpus, used, used + more),
        st.integers(1, 10000).map(float), st.sampled_from([inf, 0.5, 2.0]), st.integers(1, ALL), wanted, wanted,
    )  # fmt: skip
    if not depth:
        return st.lists(leaf, max_size=3)
    inner = st.builds(
        lambda weight, limit, children: Group("", weight, limit, ALL, children=tuple(children)),
        st.integers(1, 10000).map(float), st.sampled_from([inf, 1.0]), trees(depth - 1).filter(bool),
    )  # fmt: skip
    return st.lists(leaf | inner, max_size=4)


def named(groups: list[Group] | tuple[Group, ...], path: str = "") -> list[Group]:
    """Return a tree whose groups are named by their places."""
    return [
        one._replace(name=f"{path}/{place}", children=tuple(named(one.children, f"{path}/{place}")))
        for place, one in enumerate(groups)
    ]


def by_name(found: list[Share]) -> dict[str, float]:
    """Return the entitlements."""
    return {one.name: one.entitled for one in found}


@given(trees().map(named), st.integers(1, ALL))
def test_nobody_is_entitled_to_more_than_it_wants_and_others_get_the_rest(groups: list[Group], cpus: int) -> None:
    found, capacity = shares_on(groups, cpus), cpus.bit_count()
    assert sum(one.entitled for one in found) <= capacity + EXACT
    assert all(-EXACT <= one.entitled <= one.wanted + EXACT for one in found)
    free = shares_on(groups, cpus, 1e9)  # limited by wants, limits and sets of CPUs alone
    assert sum(one.entitled for one in found) == pytest.approx(min(capacity, sum(one.entitled for one in free)))


@given(trees().map(named).filter(bool), st.data())
def test_larger_weight_never_entitles_to_less(groups: list[Group], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(groups) - 1))
    old = by_name(shares_on(groups, ALL))
    groups[place] = groups[place]._replace(weight=2 * groups[place].weight)
    new = by_name(shares_on(groups, ALL))
    own = [one.name for one in leaves([groups[place]])]
    assert sum(new[name] for name in own) >= sum(old[name] for name in own) - EXACT
    assert all(new[name] <= old[name] + EXACT for name in old if name not in own)


@given(st.lists(st.integers(1, 10000), min_size=1, max_size=6))
def test_hungry_groups_are_entitled_in_proportion_to_their_weights_and_their_cpus(weights: list[int]) -> None:
    groups = [Group(str(place), float(weight), wanted=9.0) for place, weight in enumerate(weights)]
    expected = {str(place): 4 * weight / sum(weights) for place, weight in enumerate(weights)}
    assert by_name(shares_on(groups, ALL)) == pytest.approx(expected)
    near, wide, far = Group("a", cpus=1, wanted=1.0), Group("b", cpus=0b11, used=1.5, wanted=2.0), Group("c", cpus=4)
    found = shares_on([near, wide, far], 1)
    assert [(one.name, one.entitled, one.used) for one in found] == [("a", 0.5, 0.0), ("b", 0.5, 0.75)]
    assert cpus_beside([near, wide, far], 1) == 0b11


@given(used=st.floats(0.1, 8), others=st.integers(1, 4), cpus=st.integers(1, 8))
def test_offered_limit_is_below_what_a_culprit_uses(used: float, others: int, cpus: int) -> None:
    names = [f"hog{number}" for number in range(others)]
    groups = [Group("pod", wanted=1.0, used=0.5), *(Group(name, used=used, wanted=used) for name in names)]
    limit = WhatIf(groups, "pod", names, (1 << cpus) - 1, float(cpus), 1.0).limit()
    assert limit is None or limit.value < used
    assert limit is not None or used <= cpus, "more than there are"
