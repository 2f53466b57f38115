"""Quiet windows: which samples belong to a pod's baseline."""

from collections.abc import Iterable

import pytest

from observe.node.slowdown.samples import VICTIM, use, window
from resctrl_hooks.observe.node.slowdown.quiet import Peaks, disturbance, is_quiet
from resctrl_hooks.observe.node.slowdown.use import Use
from resctrl_hooks.observe.node.slowdown.window import Window


def seen(windows: Iterable[Window]) -> Peaks:
    peaks = Peaks()
    for one in windows:
        peaks.saw(one)
    return peaks


def quiet(one: Window, *before: Window, sizes: dict[int, float] | None = None) -> bool:
    return is_quiet(one, VICTIM, seen((*before, one)), sizes or {})


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


@pytest.mark.parametrize(
    "windows, text",
    [
        ([window(1, 0.1, victim=use())], ""),
        (
            [window(1, 0.9, victim=use()), window(2, 1.15, victim=use()), window(3, 0.1, victim=use())],
            "2 of 3 samples were not quiet; most often: memory domain 0 is loaded to 115% (limit 50%)",
        ),
        (
            [window(1, 0.9, victim=use(waited=0.2)), window(2, 0.1, victim=use(waited=0.39))],
            "2 of 2 samples were not quiet; most often: it waited for CPUs or memory for 39% of the time (limit 5%)",
        ),
        (
            [window(1, None, victim=use(), noisy=use(moved=9e9))],
            "1 of 1 samples were not quiet; most often: other traffic is above 25% of the maximum of memory domain 0",
        ),
        (
            [window(1, victim=use(occupancy={0: 4e6}), noisy=use(occupancy={0: 4e6}))],
            "1 of 1 samples were not quiet; most often: other pods hold 50% of L3 0 (limit 25%)",
        ),
        (
            [window(1, victim=use(None))],
            "1 of 1 samples were not quiet; most often: the pod did too little work, or was not counted",
        ),
    ],
    ids=["quiet", "load", "waits", "traffic", "cache", "work"],
)
def test_most_frequent_disturbance_is_named(windows: list[Window], text: str) -> None:
    assert disturbance(windows, VICTIM, seen(windows), {}) == text


@pytest.mark.parametrize("bad", [use(None), use()._replace(traffic=None), use(waited=0.2), use(reclaimed=0.2)])
def test_idle_uncounted_and_waiting_pods_teach_nothing(bad: Use) -> None:
    assert not quiet(window(1, victim=bad))
