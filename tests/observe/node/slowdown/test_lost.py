"""Lost time: nothing is lost or counted twice, whatever causes and culprits a slowdown has."""

from math import log

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.observe.node.slowdown.case import OUTSIDE, Culprit
from resctrl_hooks.observe.node.slowdown.causes.cause import EXCLUDED, SUPPORTED, Cause
from resctrl_hooks.observe.node.slowdown.causes.table import CAUSES
from resctrl_hooks.observe.node.slowdown.lost import OTHERS, OUTSIDE_PODS, UNEXPLAINED, LostTime, lost_seconds, parts_of

from .samples import verdict_of

CULPRITS = st.lists(
    st.builds(
        Culprit,
        st.sampled_from([f"{space}/{pod}" for space in "abcd" for pod in range(4)] + [OUTSIDE]),
        st.floats(0.01, 1),
        st.none(),
    ).map(lambda one: one._replace(outside=one.key == OUTSIDE)),
    max_size=6,
    unique_by=lambda one: one.key,
).map(lambda found: [one._replace(share=one.share / max(1, sum(each.share for each in found))) for one in found])
FACTORS = st.one_of(st.none(), st.floats(0.9, 4))
STATES = st.sampled_from([SUPPORTED, SUPPORTED, EXCLUDED])


@st.composite
def causes(draw: st.DrawFn) -> list[Cause]:
    names = draw(st.lists(st.sampled_from(sorted(CAUSES)), max_size=4, unique=True))
    return [Cause(name, draw(STATES), "", tuple(draw(CULPRITS)), draw(FACTORS)) for name in names]


@given(st.floats(1.01, 20), causes())
@settings(max_examples=examples(300))
def test_parts_add_up_and_follow_factors_and_shares(ratio: float, found: list[Cause]) -> None:
    parts = parts_of(ratio, found)
    assert sum(one.part for one in parts) == pytest.approx(1)
    assert all(one.part > 0 for one in parts)
    supported = {one.cause: one for one in found if one.state == SUPPORTED}
    assert {one.cause for one in parts} <= {*supported, UNEXPLAINED}
    whole = {name: sum(one.part for one in parts if one.cause == name) for name in supported}
    known = {name: log(one.factor) for name, one in supported.items() if one.factor and one.factor > 1}
    for name, weight in known.items():
        assert whole[name] == pytest.approx(weight / max(log(ratio), sum(known.values())), rel=0.06)
    for one in parts:
        share = {pod.key: pod.share for pod in supported[one.cause].pods} if one.cause in supported else {}
        rest = 1 - sum(share.values())
        assert one.part == pytest.approx(
            whole.get(one.cause, one.part) * (share.get(one.culprit, rest) if share else 1), abs=1e-9
        )


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.floats(1, 9), causes()), max_size=40))
@settings(max_examples=examples(50))
def test_sums_by_cause_by_culprit_and_by_namespace_agree(windows: list[tuple[str, float, list[Cause]]]) -> None:
    sums = LostTime(lambda key: (*key.partition("/")[::2], "") if "/" in key else ("v", key, ""))
    for key, ratio, found in windows:
        sums.add(key, 10.0, 2.0, verdict_of(ratio), found)
    for key in "xyz":
        lost = sum(lost_seconds(10.0, ratio) for of, ratio, _ in windows if of == key)
        assert sum(sums.by_cause(key).values()) == pytest.approx(lost)
        assert sum(one["seconds"] for one in sums.of(key)) == pytest.approx(lost, abs=0.05)
        assert sum(one["cpuSeconds"] for one in sums.of(key)) == pytest.approx(2 * lost, abs=0.05)
    named = sum(one["seconds"] for key in "xyz" for one in sums.of(key) if one["culprit"])
    pairs = sums.by_namespace()
    assert sum(one["seconds"] for one in pairs) == pytest.approx(named, abs=0.1)
    assert {one["namespace"] for one in pairs} <= {"v"}
    assert {one["culpritNamespace"] for one in pairs} <= {*"abcd", OTHERS, OUTSIDE_PODS}
    sums.keep("x")
    assert (sums.of("y"), sums.by_namespace()) == ([], pairs), "an ended pod's time stays its namespace's"


def test_any_number_of_culprits_and_namespaces_stays_bounded_without_a_loss() -> None:
    sums = LostTime(lambda key: (f"n{key}", key, ""))
    for number in range(3000):
        pods = (Culprit(str(number), 0.5, None), Culprit(str(number % 7), 0.5, None))
        sums.add(str(number % 50), 10.0, 1.0, verdict_of(2.0), [Cause("l3-cache", SUPPORTED, "", pods, 2.0)])
    assert len(sums.by_namespace()) <= 202
    assert max(len(sums.of(str(key))) for key in range(50)) <= 9
    assert sum(one["seconds"] for one in sums.by_namespace()) == pytest.approx(15_000, abs=1)
    assert sum(one["seconds"] for key in range(50) for one in sums.of(str(key))) == pytest.approx(15_000, abs=1)
