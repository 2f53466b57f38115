"""Pods that share CPUs, cache and memory: no more is used than there is, and less for others is never worse."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.lab.scene.scenes import CAPACITY, CPUS, CULPRIT, PODS, QUIET, SCENES, VICTIM
from resctrl_hooks.lab.simulation.machine import CACHE_BYTES
from resctrl_hooks.lab.simulation.work import Pace, Work, settle, share_cpus

amounts = st.floats(0.1, 64)
works = st.dictionaries(
    st.sampled_from("abcd"),
    st.builds(Work, amounts, amounts, st.floats(0, 16), st.floats(0, 2 * CACHE_BYTES), st.booleans()),
    min_size=1,
)


@given(works, st.sets(st.sampled_from("abcd")), st.floats(1e6, CAPACITY))
def test_traffic_and_cache_stay_below_capacity_and_limits(found: dict[str, Work], names: set[str], most: float) -> None:
    limited = sorted(names & found.keys())
    paces = settle(found, CAPACITY, CACHE_BYTES, [(limited, most)])
    assert sum(pace.rate for pace in paces.values()) <= CAPACITY * 1.000001
    assert sum(paces[name].rate for name in limited) <= most * 1.000001
    assert all(pace.held <= min(found[name].held, CACHE_BYTES) * 1.000001 for name, pace in paces.items())
    free = settle(found, CAPACITY, CACHE_BYTES)
    assert all(paces[name].price <= free[name].price * 1.01 for name in found.keys() - names)


@given(st.dictionaries(st.sampled_from("abcd"), st.tuples(st.floats(0, 64), st.floats(1, 10_000))), amounts)
def test_cpus_are_shared_by_weight(wanted: dict[str, tuple[float, float]], cpus: float) -> None:
    found = share_cpus(wanted, cpus)
    assert sum(found.values()) == pytest.approx(min(cpus, sum(wish for wish, _ in wanted.values())))
    for name, (wish, weight) in wanted.items():
        fair = cpus * weight / sum(one for _, one in wanted.values())
        assert min(wish, fair) * 0.999999 <= found[name] <= wish


def _paces(scene: str, *, mb: float = inf, cache: float = CACHE_BYTES, cpus: float = inf) -> Pace:
    works = {pod.name: pod.quiet for pod in PODS} | {CULPRIT.name: SCENES[scene].work}
    used = share_cpus(
        {
            name: (min(work.cpus, cpus), SCENES[scene].weight) if name == CULPRIT.name else (work.cpus, 100)
            for name, work in works.items()
        },
        CPUS,
    )
    works = {name: work._replace(cpus=used[name]) for name, work in works.items()}
    return settle(works, CAPACITY, CACHE_BYTES, [([CULPRIT.name], mb)], {CULPRIT.name: cache})[VICTIM.name]


@pytest.mark.parametrize(
    "scene, limit",
    [("noisy", {"mb": 0.3 * CAPACITY}), ("cache", {"cache": CACHE_BYTES / 5}), ("cpu", {"cpus": 18}), (QUIET, {})],
)
def test_scene_slows_victim_until_culprit_is_limited(scene: str, limit: dict[str, float]) -> None:
    quiet, slowed, limited = (pace.operations for pace in (_paces(QUIET), _paces(scene), _paces(scene, **limit)))
    assert (quiet / slowed > 1.5) is (scene != QUIET)
    assert quiet / limited < 1.15
