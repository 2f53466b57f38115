"""A pod's neighbours on a node of many pods: those that a look at all pods finds, at a cost that grows linearly."""

import sys
from random import Random
from typing import Any

import pytest

from observe.node.slowdown.samples import SECONDS, VICTIM, quiet_baseline, use
from resctrl_hooks.observe.node.slowdown.case import Case
from resctrl_hooks.observe.node.slowdown.causes import causes_of
from resctrl_hooks.observe.node.slowdown.constants import NAMED_SHARE
from resctrl_hooks.observe.node.slowdown.neighbours import shares_cpus
from resctrl_hooks.observe.node.slowdown.quiet import others_held, others_moved
from resctrl_hooks.observe.node.slowdown.units import CpuPart
from resctrl_hooks.observe.node.slowdown.use import Use
from resctrl_hooks.observe.node.slowdown.verdict import judge
from resctrl_hooks.observe.node.slowdown.window import Window

DOMAINS = 3


def scene(random: Random, pods: int) -> list[Window]:
    """Return windows of pods of very different sizes, of which some pause, come or go."""
    sizes = {VICTIM: 1.0, **{f"pod{number}": 10 ** random.uniform(-2, 1) for number in range(pods)}}
    cpus = {key: random.choice((0, 0b11, 0b1100, 0b1111)) for key in sizes}
    windows = []
    for number in range(12):
        uses = {
            key: use(
                3.2 * random.uniform(0.8, 1.2) if key == VICTIM else 2.0,
                {domain: 1e9 * size * random.choice((0.0, random.random())) for domain in range(DOMAINS)},
                cpu=size * random.random(),
                occupancy={domain: float(int(1e6 * size * random.random())) for domain in range(DOMAINS)},
                waited=0.2,
                cpus=cpus[key],
            )
            for key, size in sizes.items()
            if key == VICTIM or random.random() < 0.9
        }
        moved = {domain: random.choice((None, 1e8)) for domain in range(DOMAINS)}
        windows.append(Window(number * SECONDS, SECONDS, {}, uses, CpuPart(0.0), moved))
    return windows


def largest(windows: list[Window], of: Any) -> dict[str, float]:
    """Return the parts of the pods that are to be named, by a look at all pods."""
    used: dict[str, float] = {}
    for window in windows:
        for key, one in window.uses.items():
            if key != VICTIM:
                used[key] = used.get(key, 0.0) + of(one)
    whole = sum(used.values())
    return {key: part / whole for key, part in used.items() if part > 0 and part / whole >= NAMED_SHARE}


@pytest.mark.parametrize("seed", range(25))
def test_named_neighbours_are_those_that_a_look_at_all_pods_finds(seed: int) -> None:
    random = Random(seed)
    windows = scene(random, random.choice((1, 2, 7, 30)))
    case = Case(windows, VICTIM, judge(windows, VICTIM, None))
    cpus = windows[-1].uses[VICTIM].cpus

    def moved(one: Use) -> float:
        return sum((one.traffic or {}).get(domain, 0.0) for domain in case.memory)

    def held(one: Use) -> float:
        return sum(one.occupancy.get(domain, 0.0) for domain in case.caches)

    def ran(one: Use) -> float:
        return (one.cpu or 0.0) if shares_cpus(one.cpus, cpus) else 0.0

    for found, of in ((case.movers(), moved), (case.holders(), held), (case.runners(), ran)):
        assert {one.key: one.share for one in found} == pytest.approx(largest(windows, of))
        assert [one.share for one in found] == sorted((one.share for one in found), reverse=True)
    for window in windows:
        others = [one for key, one in window.uses.items() if key != VICTIM]
        for domain in range(DOMAINS):
            pods = sum((one.traffic or {}).get(domain, 0.0) for one in others)
            own = (window.uses[VICTIM].traffic or {}).get(domain, 0.0)
            all_ = max(pods, (window.moved[domain] or 0.0) - own)
            assert others_moved(window, VICTIM, domain) == pytest.approx(all_)
            assert others_held(window, VICTIM, domain) == sum(one.occupancy.get(domain, 0.0) for one in others)


def test_pod_without_neighbours_has_exactly_nothing_beside_it() -> None:
    odd = {0: 0.1, 1: 0.2, 2: 0.3}
    windows = [Window(number * SECONDS, SECONDS, {}, {VICTIM: use(2.0, odd, occupancy=odd)}) for number in range(9)]
    assert [others_moved(windows[0], VICTIM, domain) for domain in odd] == [0.0] * 3
    case = Case(windows, VICTIM, judge(windows, VICTIM, None))
    assert (case.beside(), case.held_beside(), case.movers(), case.holders()) == (0.0, 0.0, [], [])


def calls(pods: int) -> int:
    """Return the number of function calls in which all pods of a node are judged, all of them slowed."""
    random, baseline = Random(1), quiet_baseline()
    windows = [
        Window(
            number * SECONDS,
            SECONDS,
            dict.fromkeys(range(DOMAINS), 0.9),
            {
                f"pod{place}": use(
                    3.2,
                    {domain: 1e8 * random.random() for domain in range(DOMAINS)},
                    occupancy={domain: 1e6 * random.random() for domain in range(DOMAINS)},
                    missed=2.0,
                    waited=0.3,
                )
                for place in range(pods)
            },
        )
        for number in range(10)
    ]
    number = 0

    def count(*_: object) -> None:
        nonlocal number
        number += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        verdicts = {key: judge(windows, key, baseline) for key in windows[0].uses}
        found = [causes_of(windows, key, verdict) for key, verdict in verdicts.items()]
    finally:
        sys.setprofile(before)
    assert {verdict.verdict for verdict in verdicts.values()} == {"slowed"}
    assert sum(one.state == "supported" for causes in found for one in causes) >= 2 * pods
    return number


def test_cost_of_judging_grows_linearly_with_the_pods_slowed_at_once() -> None:
    assert calls(200) < 2.5 * calls(100)
