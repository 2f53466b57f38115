"""Quiet windows: which samples belong to a pod's baseline."""

import pytest

from node.slowdown.samples import VICTIM, use, window
from resctrl_hooks.node.slowdown.quiet import Peaks, is_quiet
from resctrl_hooks.node.slowdown.window import Use, Window


def quiet(one: Window, *before: Window, sizes: dict[int, float] | None = None) -> bool:
    peaks = Peaks()
    for each in (*before, one):
        peaks.saw(each)
    return is_quiet(one, VICTIM, peaks, sizes or {})


@pytest.mark.parametrize("load, expected", [(0.1, True), (0.49, True), (0.5, False), (0.9, False)])
def test_known_load_decides(load: float, expected: bool) -> None:
    assert quiet(window(1, load, victim=use(), noisy=use(moved=3e9))) is expected


def test_load_of_another_memory_domain_does_not_matter() -> None:
    assert quiet(window(1, {0: 0.1, 1: 0.9}, victim=use(), noisy=use(moved={1: 9e9})))


def test_without_a_capacity_others_share_of_the_highest_traffic_decides() -> None:
    loud = window(1, None, victim=use(), noisy=use(moved=9e9))
    assert not quiet(loud)
    assert quiet(window(2, None, victim=use(), noisy=use(moved=1e9)), loud)
    assert not quiet(window(2, None, victim=use(), noisy=use(moved=4e9)), loud)


def test_others_in_the_pods_cache_are_not_quiet() -> None:
    victim = use(occupancy={0: 4e6})
    assert not quiet(window(1, victim=victim, noisy=use(occupancy={0: 4e6})))
    assert quiet(window(1, victim=victim, noisy=use(occupancy={1: 4e6})))
    alone = window(0, victim=use(occupancy={0: 30e6}))
    assert quiet(window(1, victim=victim, noisy=use(occupancy={0: 4e6})), alone)
    assert not quiet(window(1, victim=victim, noisy=use(occupancy={0: 4e6})), alone, sizes={0: 8e6})


@pytest.mark.parametrize("bad", [use(None), use()._replace(traffic=None), use(waited=0.2), use(reclaimed=0.2)])
def test_idle_uncounted_and_waiting_pods_teach_nothing(bad: Use) -> None:
    assert not quiet(window(1, victim=bad))
