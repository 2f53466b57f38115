"""Turns and loads in bursts: the rate has no bias, and its interval contains the true rate.

The node is a model without a kernel: pods take turns by the product's own decisions, one of them moves bytes in bursts,
and each window of its turns is evaluated as `show` would, with a fixed seed.
"""

import itertools
import math
import random
from typing import NamedTuple

import pytest
from conftest import not_none

from resctrl_hooks.core.install.unit_files import units
from resctrl_hooks.core.install.units import TIMER
from resctrl_hooks.core.inventory.interval import LEAST_TURNS, Interval, interval_of
from resctrl_hooks.core.node.resctrl.turn_counts import MOST
from resctrl_hooks.core.node.sharing.decision import Claim, gap, spread, turns

WINDOWS = 120
POD = "00"


class Load(NamedTuple):
    """A load that moves a byte a second while it is busy; so many pods share so many RMIDs, with turns of so long."""

    busy: float
    period: float
    turn: float
    pods: int
    rmids: int

    def moved(self, start: float, end: float, phase: float) -> float:
        """Return the bytes between two moments."""

        def until(moment: float) -> float:
            periods, rest = divmod(moment - phase, self.period)
            return periods * self.busy + min(rest, self.busy)

        return until(end) - until(start)


class Result(NamedTuple):
    """Of all windows: how far the mean rate is off, how many intervals contain the truth, half widths by the truth."""

    bias: float
    contain: float
    width: float


LOADS = [Load(*one) for one in (
    (4, 12, 6, 2, 1), (4, 12, 6, 12, 3), (20, 60, 10, 2, 1), (20, 60, 10, 12, 3), (20, 60, 10, 6, 1), (3, 10, 10, 2, 1),
    (3, 10, 5, 2, 1), (3, 10, 10, 12, 3),
)]  # fmt: skip

Passes = tuple[float, float]
ANYTIME: Passes = (0.0, 0.0)
"""Seconds between two passes of reconcile: at least, and random ones more. By default there is one for each round."""


def turns_of(load: Load, seconds: float, chances: random.Random, passes: Passes = ANYTIME) -> list[tuple[float, float]]:
    """Begin and end of each turn of one pod."""
    keys = [f"{number:02}" for number in range(load.pods)]
    chances.shuffle(keys)
    holders = [Claim(key, 0, 0.0) for key in keys[: load.rmids]]
    waiting = [Claim(key, 0, -chances.random() * load.turn) for key in keys[load.rmids :]]
    shuffled = spread(load.turn, load.rmids, len(waiting))

    def delay() -> float:
        return shuffled * chances.random()

    now, began, found = 0.0, 0.0 if POD in keys[: load.rmids] else None, []
    while now < seconds:
        due = now + gap(load.turn, chances.random())
        while now < due:
            now = now + passes[0] + passes[1] * chances.random() if any(passes) else due
        pairs = turns(holders, waiting, now, last=-math.inf, interval=0.0, at_least=0, delay=delay)
        for giver, taker in pairs:
            holders = [*(one for one in holders if one != giver), Claim(taker.key, 0, now)]
            waiting = [*(one for one in waiting if one != taker), Claim(giver.key, 0, now)]
            if giver.key == POD and began is not None:
                found.append((began, now))
                began = None
            elif taker.key == POD:
                began = now
    return found


def result_of(load: Load, window: float) -> Result:
    """Return the results of the windows of a pod's turns."""
    chances = random.Random(f"{load} {window}")
    rates, inside, widths = [], [], []
    start = load.turn * load.pods / load.rmids
    for _ in range(WINDOWS):
        phase = chances.random() * load.period
        parts = [
            (max(begin, start), min(end, start + window))
            for begin, end in turns_of(load, start + window, chances)
            if end > start and begin < start + window
        ][-MOST:]
        interval = not_none(interval_of([(end - begin, load.moved(begin, end, phase)) for begin, end in parts]))
        first = parts[0][0] if len(parts) == MOST else start
        truth = load.moved(first, start + window, phase) / (start + window - first)
        rates.append(interval.rate)
        inside.append(interval.low - 1e-9 <= truth <= interval.high + 1e-9)
        widths.append(interval.half / truth)
    bias = math.fsum(rates) / WINDOWS / (load.busy / load.period) - 1
    return Result(bias, sum(inside) / WINDOWS, sorted(widths)[WINDOWS // 2])


@pytest.mark.parametrize(
    "load", [pytest.param(load, marks=pytest.mark.ci if place else ()) for place, load in enumerate(LOADS)], ids=str
)
def test_interval_contains_true_rate_in_95_of_100_windows_without_bias(load: Load) -> None:
    found = result_of(load, 25 * load.turn * load.pods / load.rmids)
    assert found.contain >= 0.95, found
    assert abs(found.bias) < 1.3 * found.width / math.sqrt(WINDOWS), (found, "three standard errors of the mean")


@pytest.mark.parametrize(
    "turn, rmids, phase",
    [
        (30, 1, 20.0),
        *(pytest.param(turn, rmids, phase, marks=pytest.mark.ci)
          for turn in (30, 90) for rmids in (1, 2) for phase in (0.0, 20.0, 40.0)),
    ],
)  # fmt: skip
def test_pods_in_step_with_the_timer_have_true_rates(turn: float, rmids: int, phase: float) -> None:
    """Three pods are busy for 20 s of each minute, in turns of half a minute, at passes every half a minute."""
    words = dict(line.split("=", 1) for line in units("/config.yaml")[TIMER].decode().splitlines() if "=" in line)
    passes = float(words["OnUnitInactiveSec"]), float(words["RandomizedDelaySec"])
    load = Load(20, 60, turn, pods=3, rmids=rmids)
    near, inside, windows = 0, 0, 200
    for number in range(windows):
        chances = random.Random(f"{load} {number}")
        found = turns_of(load, 60 * turn * load.pods, chances, passes)[1:21]
        interval = not_none(interval_of([(end - begin, load.moved(begin, end, phase)) for begin, end in found]))
        truth = load.busy / load.period
        near += abs(interval.rate / truth - 1) <= 0.2
        inside += interval.low <= truth <= interval.high
    assert near >= 0.9 * windows
    assert inside >= 0.95 * windows


@pytest.mark.parametrize(
    "turns, quantile",
    [
        *((8, 2.365), (9, 2.306), (10, 2.262), (11, 2.228), (12, 2.228), (13, 2.179), (14, 2.179), (16, 2.131)),
        *((20, 2.131), (21, 2.086), (30, 2.086), (31, 2.042), (40, 2.042), (41, 2.021), (100, 2.021)),
    ],
)
def test_half_width_follows_from_variance_and_quantile(turns: int, quantile: float) -> None:
    """Of the next smaller degree of freedom; a negative covariance does not count."""
    in_turns = [9.0 + 2 * (place % 2) for place in range(turns)]
    for moved in ([10.0] * (turns - 1) + [11.0], in_turns, sorted(in_turns)):
        rate = sum(moved) / turns
        covariance = sum((one - rate) * (other - rate) for one, other in itertools.pairwise(moved))
        variance = sum((one - rate) ** 2 for one in moved) + 2 * max(0.0, covariance)
        found = not_none(interval_of([(1.0, one) for one in moved]))
        assert found.rate == pytest.approx(rate)
        assert found.half == pytest.approx(1.2 * quantile * math.sqrt(variance * turns / (turns - 1)) / turns)
    assert interval_of([(10.0, 100.0)] * (LEAST_TURNS - 1)) is None
    assert interval_of([(10.0, 100.0)] * LEAST_TURNS) == Interval(10.0, 0.0)
    assert (Interval(10.0, 15.0).low, Interval(10.0, 15.0).high) == (0, 25)
