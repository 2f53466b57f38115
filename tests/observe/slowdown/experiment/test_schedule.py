"""The plan and the result of an experiment: order, effect, interval."""

import math
import random

import pytest

from resctrl_hooks.observe.slowdown.experiment.schedule import LEAST, WINDOWS, effect_of, order


def test_order_is_random_and_has_as_many_windows_of_each_kind() -> None:
    orders = {tuple(order(WINDOWS, random.Random(seed).shuffle)) for seed in range(20)}
    assert len(orders) > 10
    assert all(sum(one) == WINDOWS == len(one) - sum(one) for one in orders)


def test_effect_without_noise_is_the_ratio_of_the_costs() -> None:
    found = effect_of([1.61] * WINDOWS, [1.04] * WINDOWS)
    assert found is not None
    assert [found.off, found.on] == pytest.approx([1.61, 1.04])
    assert found.windows == 2 * WINDOWS
    assert found.effect == pytest.approx(1.04 / 1.61 - 1)
    assert [found.low, found.high] == pytest.approx([found.effect] * 2)
    assert found.helps


@pytest.mark.parametrize("true", [1.0, 0.65, 1.2])
def test_interval_contains_the_truth_in_95_percent(true: float) -> None:
    chance, hits, width = random.Random(7), 0, 0.0
    for _ in range(60):
        off = [math.exp(chance.gauss(0, 0.05)) for _ in range(WINDOWS)]
        on = [true * math.exp(chance.gauss(0, 0.05)) for _ in range(WINDOWS)]
        found = effect_of(off, on)
        assert found is not None
        hits += found.low <= true - 1 <= found.high
        width = max(width, found.high - found.low)
    assert hits >= 53, "of 60; fewer have a probability below 2 %"
    assert width < 0.4, "and it is narrow enough to say something"


def test_limit_without_effect_is_not_said_to_help() -> None:
    found = effect_of([1.0, 1.3, 0.9, 1.2, 1.1, 0.8], [1.1, 0.8, 1.2, 1.0, 0.9, 1.3])
    assert found is not None
    assert found.low < 0 < found.high
    assert not found.helps


def test_too_few_windows_have_no_effect() -> None:
    assert effect_of([1.0] * (LEAST - 1), [0.5] * WINDOWS) is None
    assert effect_of([1.0] * WINDOWS, []) is None
    fewest = effect_of([1.0, 1.01, 1.02, 1.03], [0.5, 0.51, 0.52, 0.53])
    assert fewest is not None
    assert fewest.helps, "the fewest windows can still prove a clear effect"
