"""The ratio is the time that the same work takes, whatever a pod does when; and there is no alarm without a loss."""

from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observe.node.slowdown.samples import SECONDS, VICTIM, WORK, quiet_baseline, use, window
from resctrl_hooks.observe.node.slowdown.baseline.baseline import Baseline, baseline_of
from resctrl_hooks.observe.node.slowdown.baseline.learner import Learner, Sample
from resctrl_hooks.observe.node.slowdown.baseline.quiet import Peaks, is_quiet
from resctrl_hooks.observe.node.slowdown.baseline.store import Store
from resctrl_hooks.observe.node.slowdown.baseline.workload import workload_of
from resctrl_hooks.observe.node.slowdown.causes.table import causes_of, confirmed
from resctrl_hooks.observe.node.slowdown.constants import ENOUGH, JUDGED, SLOWED
from resctrl_hooks.observe.node.slowdown.evidence.alone import teaches
from resctrl_hooks.observe.node.slowdown.evidence.cpu.lost_time import Lost
from resctrl_hooks.observe.node.slowdown.evidence.disks import DiskWork
from resctrl_hooks.observe.node.slowdown.evidence.use import Use
from resctrl_hooks.observe.node.slowdown.evidence.waiting import NOTHING, waiting_of
from resctrl_hooks.observe.node.slowdown.evidence.window import Window
from resctrl_hooks.observe.node.slowdown.units import WallPart
from resctrl_hooks.observe.node.slowdown.verdict import UNCOUNTED, Verdict, judge, latest

CYCLES = 3e10
"""Of the victim in a window."""
PARTS = st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0]), min_size=6, max_size=10)
"""Of the time of some windows that a program spends in its first phase."""
PHASE = st.tuples(st.floats(0.3, 5.0), st.floats(0.01, 8.0))
"""Cycles and bytes from memory by instruction."""


def mixed(one: tuple[float, float], other: tuple[float, float], part: float, slower: tuple[float, float]) -> Use:
    """Return a window in which a pod spends a part of the time in one phase, and the rest in the other."""
    works = [CYCLES * part / one[0] / slower[0], CYCLES * (1 - part) / other[0] / slower[1]]
    moved = works[0] * one[1] + works[1] * other[1]
    return use(CYCLES / sum(works), work=sum(works), missed=moved / sum(works))


def judged(uses: list[Use], baseline: Baseline | None) -> Verdict:
    return judge([window(number, victim=one) for number, one in enumerate(uses)], VICTIM, baseline)


@given(PHASE, PHASE, PARTS, PARTS, st.tuples(st.floats(1.0, 3.0), st.floats(1.0, 3.0)) | st.just((1.0, 1.0)))
def test_phases_are_compared_with_the_same_phases(
    one: Any, other: Any, then: list[float], now: list[float], slower: tuple[float, float]
) -> None:
    baseline = Baseline()
    for part in [*then, 0.0, 0.0, 1.0, 1.0]:
        baseline.learn(mixed(one, other, part, (1.0, 1.0)), SECONDS)
    if max(one[1] / other[1], other[1] / one[1]) < 2:
        return  # their traffic does not tell them apart
    verdict = judged([mixed(one, other, part, slower) for part in now], baseline_of(baseline.as_record()))
    truth = len(now) / sum(part / slower[0] + (1 - part) / slower[1] for part in now)
    # A few quiet samples make a coarse curve, and two unequal slowdowns shift a mixture along it.
    assert verdict.ratio is None or verdict.ratio == pytest.approx(truth, rel=0.35)
    if truth == 1.0:
        assert verdict.verdict != "slowed"


@given(st.floats(0.1, 64), st.floats(0, 0.5), st.floats(0, 0.2), st.floats(0, 0.2))
def test_factors_of_waits_multiply_to_their_ratio(cpus: float, throttled: float, other: float, memory: float) -> None:
    wanted = min(1.0, cpus)  # a pod that rests waits less
    still = throttled + other + memory
    parts = [part * wanted for part in (throttled, throttled + other, memory)]
    one = use(cpu=cpus * (1 - still), throttled=parts[0], stood=parts[1], reclaimed_fully=parts[2])
    found = waiting_of([(one, SECONDS)])
    assert found.stretch == pytest.approx(1 / (1 - still) if parts[1] + parts[2] >= 0.02 else 1.0)
    assert prod(found.factors().values()) == pytest.approx(found.stretch)
    assert all(factor >= 1 for factor in found.factors().values())


THROTTLED: dict[str, Any] = {"throttled": 0.5, "stood": 0.5, "waited": 0.5, "cpu": 0.5}
WAITING: dict[str, Any] = {"stood": 0.5, "waited": 0.5, "cpu": 0.5}
CHEAPER = 0.9
"""A cost so far below that of quiet times is one of other work."""


@pytest.mark.parametrize("then", [{}, THROTTLED, WAITING], ids=["quiet", "limited", "neighbours"])
@pytest.mark.parametrize("now, least", [({}, 1.0), (THROTTLED, 2.0), (WAITING, 2.0)])
@pytest.mark.parametrize("more", [0.5, 0.97, 1.0, 1.6])
def test_waits_count_whatever_was_learned(then: dict[str, Any], now: dict[str, Any], least: float, more: float) -> None:
    baseline = Baseline()
    for _ in range(2 * ENOUGH):
        one = use(work=WORK * then.get("cpu", 1.0), **then)
        baseline.learn(one, SECONDS, waiting_of([(one, SECONDS)]))
    verdict = judged([use(2.0 * more, work=WORK * now.get("cpu", 1.0), **now)] * 6, baseline)
    expected = max(1.0, more) * least if least > 1 else None if more < CHEAPER else more
    assert verdict.ratio == (expected and pytest.approx(expected, rel=0.03))
    assert (verdict.verdict == "slowed") is ((expected or 1.0) >= SLOWED)
    first = judged([use(None, **now)], baseline)
    assert (first.verdict, first.ratio) == (("slowed", pytest.approx(least)) if least > 1 else ("unknown", None))


@pytest.mark.parametrize(
    "price, missed, occupancy, verdict",
    [
        (1.1, 1.0, 4e6, "unknown"),  # cheaper than neighbours could make it
        (1.1, 0.2, 8e6, "normal"),  # it has more cache
        (1.9, 1.0, 4e6, "normal"),
        (3.0, 0.4, 4e6, "unknown"),  # neighbours never take traffic from it
        (3.0, 1.0, 4e6, "slowed"),
        (2.0, 0.4, 4e6, "normal"),
    ],
)
def test_other_work_is_unknown(price: float, missed: float, occupancy: float, verdict: str) -> None:
    found = judged([use(price, missed=missed, occupancy={0: occupancy})] * 6, quiet_baseline(occupancy={0: 4e6}))
    assert found.verdict == verdict
    assert (verdict == "unknown") is ("its work changed" in found.reason) is (found.ratio is None)


def test_cache_that_was_taken_before_the_first_sample_is_forgotten_when_the_pod_has_it() -> None:
    baseline, alone = Baseline(), {"load": 0.1, "held": 0.0}
    for _ in range(ENOUGH):
        baseline.learn(use(4.0, missed=4.0, occupancy={0: 1e6}), SECONDS, beside={"load": 0.1, "held": 0.9})
    for _ in range(ENOUGH):
        baseline.learn(use(2.0, missed=1.0, occupancy={0: 9e6}), SECONDS, beside=alone)
    assert judged([use(4.0, missed=4.0, occupancy={0: 1e6})] * 6, baseline).ratio == pytest.approx(2.0, rel=0.01)


def without_traffic(number: int, **more: Any) -> Window:
    """Return a window of a node without resctrl."""
    uses = {VICTIM: use(**more)._replace(traffic=None)}
    return Window(number * SECONDS, SECONDS, {}, uses, counted=False)


@pytest.mark.parametrize("price", [2.0, 3.2])
def test_performance_counters_alone_teach_and_judge(price: float) -> None:
    baseline, peaks = Baseline(), Peaks()
    for number in range(20):
        one = without_traffic(number, price=2.0 * (1 + 0.02 * (number % 2)))
        assert is_quiet(one, VICTIM, peaks, {}, baseline)
        baseline.learn(one.uses[VICTIM], SECONDS)
    found = judge([without_traffic(30 + number, price=price) for number in range(10)], VICTIM, baseline)
    assert found.verdict == ("slowed" if price > 2 else "normal")
    assert found.ratio == pytest.approx(price / 2, rel=0.03)


@pytest.mark.parametrize("stood", [0.0, 0.5])
def test_waits_are_judged_where_nothing_counts_the_work(stood: float) -> None:
    values: dict[str, Any] = {"price": None, "method": "traffic", "cpu": 0.5, "waited": stood, "stood": stood}
    windows = [without_traffic(number, **values) for number in range(10)]
    found = judge(windows, VICTIM, None)
    assert found.reason.startswith(UNCOUNTED)
    assert found.verdict == ("slowed" if stood else "unknown")
    assert confirmed(found, []).reason.startswith(UNCOUNTED), "also if no cause is supported"
    assert latest(windows, VICTIM, 3) == windows[-3:], "a wait that ended long ago does not count"


@pytest.mark.parametrize("ends", [False, True])
def test_change_of_work_is_judged_by_what_was_usual_before_it(tmp_path: Path, ends: bool) -> None:
    store, workload = Store(str(tmp_path)), workload_of("shop", "cart", [])
    learner = Learner(store)
    for number in range(ENOUGH + 2 * JUDGED):
        changed = number >= ENOUGH + JUDGED
        one = use(4.0 if changed else 2.0, missed=3.0 if changed else 1.0)
        learner.add(VICTIM, workload, Sample(one, SECONDS, NOTHING, {}))
    learner.keep([] if ends else [VICTIM])
    found = judged([use(4.0, missed=3.0)] * JUDGED, store.find(workload))
    assert found.baseline_samples == ENOUGH + (2 if ends else 1) * JUDGED
    assert found.ratio == pytest.approx(1.0 if ends else 2.0, rel=0.01)


# Random windows of one pod, judged after each as the sampling process does

NEAR = 0.9
"""An alarm is right from this part of `SLOWED`: what waits cost is known within 15 %."""
NOTICED = 0.03
"""Waits of a smaller part of the time are wake-ups."""


class Seen(NamedTuple):
    """A window, the seconds by second that the pod's work took in it, and those that it would have taken alone."""

    use: Use
    took: float
    alone: float


def seen(ran: float, late: float = 0.0, own: float = 0.0, **more: Any) -> Seen:
    """Return a window in which the pod ran, lost time to others, and waited for its own disk."""
    return Seen(use(None, cpu=ran, user=0.8 * ran, **more), ran + late + own, ran + own)


def waited(ran: float, part: float, *, limited: bool) -> Seen:
    """Return a window in which a part of the pod's time is lost to its own limit or to others' work on its CPUs."""
    lost = ran * part / (1 - part)
    own, others = (lost, 0.0) if limited else (0.0, lost)
    pressure = WallPart(part * min(1.0, ran + lost))
    throttled = WallPart(own and float(pressure))
    values: dict[str, Any] = {"waited": pressure, "stood": pressure, "throttled": throttled, "throttles": 9}
    return seen(ran, lost, **values, lost=Lost(ran, others, own))


def on_disk(ran: float, share: float, waits: float, *, parallel: bool) -> Seen:
    """Return a window in which the pod reads a disk that it has for itself, or one that serves all as fast as one."""
    time = 0.0004 if parallel else 0.002
    disk = DiskWork(f"disk{parallel:d}", waits / time, 65536.0, waits, share if parallel else 1.0, 1.0, not parallel)
    return seen(ran, own=waits, blocked=WallPart(waits), blocked_fully=WallPart(waits), disk=disk)


def reclaimed(ran: float, part: float) -> Seen:
    """Return a window in which a part of the pod's time is lost to reclaim."""
    lost = ran * part / (1 - part)
    return seen(ran, lost, reclaimed=WallPart(lost), reclaimed_fully=WallPart(lost))


CPU, IDLE, WAITS = st.floats(0.05, 0.9), st.floats(0.02, 0.2), st.floats(0.1, 0.75)
SPIKE = st.builds(waited, CPU, st.floats(0.3, 0.9), limited=st.booleans())
HARMLESS = [
    st.builds(seen, st.floats(0.02, 0.1) | st.floats(0.5, 6.0)),
    st.builds(waited, CPU, st.floats(0.0, 0.1), limited=st.booleans()),
    st.builds(on_disk, IDLE, st.just(1.0), WAITS, parallel=st.just(value=False)),
    st.builds(on_disk, IDLE, st.floats(0.1, 0.9), WAITS, parallel=st.just(value=True)),
    st.builds(reclaimed, CPU, st.floats(0.0, 0.04)),
]


@given(st.lists(st.one_of(*HARMLESS, SPIKE), min_size=3, max_size=24), st.booleans())
def test_pod_is_slowed_by_waits_if_and_only_if_its_work_took_longer(windows: list[Seen], learns: bool) -> None:
    baseline, found = Baseline(), []
    for number, one in enumerate(windows):
        if learns and teaches(one.use):
            baseline.alone.learn(one.use, SECONDS)
        found.append(window(number, victim=one.use))
        judged = windows[max(0, number + 1 - JUDGED) : number + 1]
        now = latest(found[-JUDGED:], VICTIM, JUDGED)
        verdict = judge(now, VICTIM, baseline if learns else None)
        verdict = confirmed(verdict, causes_of(now, VICTIM, verdict))
        truth = sum(each.took for each in judged) / sum(each.alone for each in judged)
        if verdict.verdict == "slowed":
            assert truth >= NEAR * SLOWED, (truth, verdict)
        late = sum(each.took - each.alone for each in judged) / len(judged)
        is_long = late >= NOTICED * max(1.0, sum(each.took for each in judged) / len(judged))
        if is_long and truth >= 1.25 and not any(each.use.disk for each in judged):
            assert verdict.verdict == "slowed", (truth, verdict)
