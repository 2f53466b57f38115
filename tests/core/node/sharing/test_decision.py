"""Decisions about counted and waiting pods."""

from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.sharing.decision import Claim, gap, may_take, queue, spread, turns, yielding

HOUSES = ("lab",)

TIMES = st.integers(0, 1000).map(float)


@st.composite
def claims(draw: st.DrawFn, prefix: str = "pod") -> list[Claim]:
    numbers = range(draw(st.integers(0, 12)))
    return [Claim(f"{prefix}{number}", draw(st.integers(-3, 3)), draw(TIMES)) for number in numbers]


@given(claims())
def test_queue_loses_no_pod_and_serves_by_priority_then_age(waiting: list[Claim]) -> None:
    served = queue(waiting)
    assert served == queue(reversed(waiting)) == sorted(served, key=lambda claim: (-claim.priority, claim.since))
    assert sorted(claim.key for claim in served) == sorted(claim.key for claim in waiting)


@given(claims(), st.integers(-4, 4), st.booleans())
def test_only_lower_priorities_yield_lowest_first(holders: list[Claim], priority: int, in_turns: bool) -> None:
    found = yielding(holders, priority, in_turns=in_turns)
    assert {claim.key for claim in found} == {claim.key for claim in holders if claim.priority < priority}
    # The latest of equals yields, or in turns the longest holder.
    assert found == sorted(found, key=lambda claim: (claim.priority, claim.since if in_turns else -claim.since))


@given(st.integers(0, 20), st.integers(-5, 5), st.integers(0, 10), st.integers(-5, 5), st.integers(0, 5))
def test_reserve_is_for_higher_priorities(free: int, priority: int, reserved: int, above: int, runtimes: int) -> None:
    taken = may_take(free, priority, reserved=reserved, above=above, runtimes=runtimes)
    assert taken == (free > runtimes if priority > above else free > reserved + runtimes)


@given(claims("holder"), claims("waiting"), TIMES, TIMES, st.integers(1, 60), st.integers(0, 60))
def test_turn_is_once_per_equal_pod_and_never_too_short(
    holders: list[Claim], waiting: list[Claim], now: float, last: float, interval: int, at_least: int
) -> None:
    pairs = turns(holders, waiting, now, last=last, interval=interval, at_least=at_least)
    assert not pairs or now - last >= interval
    assert len({giver.key for giver, _ in pairs}) == len({taker.key for _, taker in pairs}) == len(pairs)
    due = [one for one in holders if now - one.since >= at_least] if now - last >= interval else []
    for priority in range(-3, 4):
        numbers = [sum(one.priority == priority for one in of) for of in (due, waiting)]
        assert sum(giver.priority == priority for giver, _ in pairs) == min(numbers)
    for giver, taker in pairs:
        assert giver in holders
        assert taker in waiting
        assert giver.priority == taker.priority
        assert now - giver.since >= at_least


@given(st.integers(1, 6), st.integers(0, 12))
def test_equal_pods_are_counted_equally_over_many_rounds(rmids: int, more: int) -> None:
    holders = [Claim(f"p{number:02}", 0, 0.0) for number in range(rmids)]
    waiting = [Claim(f"p{number:02}", 0, 0.0) for number in range(rmids, rmids + more)]
    had = {claim.key: 0 for claim in (*holders, *waiting)}
    cycle = -(-more // min(rmids, more)) if more else 0
    for round_ in range(1, 10 * len(had) + 1):
        now = round_ * 30.0
        for place, (giver, taker) in enumerate(turns(holders, waiting, now, last=now - 30, interval=30, at_least=10)):
            holders.remove(giver)
            waiting.remove(taker)
            holders.append(Claim(taker.key, 0, now + place / 1000))  # one handing-on comes after the other
            waiting.append(Claim(giver.key, 0, now + place / 1000))
        for claim in holders:
            had[claim.key] += 1
        assert all(now - claim.since <= cycle * 30 for claim in waiting)
    assert max(had.values()) - min(had.values()) <= 4


def test_round_lasts_a_third_to_three_times_the_interval_and_queues_are_shuffled_by_two_cycles() -> None:
    lengths = [gap(30, chance / 100) for chance in range(101)]
    assert lengths == sorted(set(lengths))
    assert (lengths[0], 80 < lengths[-1] <= 91) == (10, True)
    assert [spread(30, counted, waiting) for counted, waiting in ((2, 4), (1, 0), (0, 4))] == [180, 60, 240]
