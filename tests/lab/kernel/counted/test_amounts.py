"""A pod's counters include everything from its first instruction to its last.

The guest's processor counts every memory access for the running RMID, and keeps a ledger (tests/lab/vm/rdt.c).
Each test compares the project's values with that ledger.
"""

import pytest

from kernel.counted.conftest import COUNTED
from kernel.counted.said import NEAR, Comparison
from kernel.counted.steps import Stepped, copy, in_steps
from kernel.pods import KubernetesPod

pytestmark = COUNTED


def test_twice_the_copying_counts_twice(pods: list[KubernetesPod], comparison: Comparison) -> None:
    idle, nothing, half, whole = pods[:4]
    neighbour = Stepped(idle.start("idle", in_steps()))
    neighbour.rest()
    begun = comparison.check(idle.uid, "an idle neighbour, as it starts")
    totals = []
    for pod, size in ((nothing, 0), (half, 50), (whole, 100)):
        pod.run(f"c{size}", f"taskset 1 {copy(size)}")
        totals.append(comparison.check(pod.uid, f"copies {size} MiB"))
    start, fifty, hundred = totals
    assert 1.9 < (hundred - start) / (fifty - start) < 2.1
    first, second = comparison.said(whole.uid)
    assert first - second > 0.9 * hundred - start, "it copied on the first processor"
    ended = comparison.check(idle.uid, "the idle neighbour, at the end")
    assert ended - begun < NEAR * hundred


def test_first_instructions_are_counted(pods: list[KubernetesPod], comparison: Comparison) -> None:
    at_once = f"{copy(50)}; sleep 3; {in_steps(copy(10))}"  # more than a second without counting
    early, late = pods[:2]
    Stepped(early.start("early", at_once)).rest()
    counted = comparison.check(early.uid, "copies 50 MiB in its first instructions")
    container = Stepped(late.start("late", at_once, hooks={}))  # as before the installation
    container.rest()
    comparison.installed.reconcile()
    missed = comparison.check(late.uid, "the same, adopted by reconcile afterwards")
    assert missed < NEAR * counted
    container.step()
    later = comparison.check(late.uid, "and copies 10 MiB then")
    assert 0.1 * counted < later < 0.3 * counted
    (shown,) = comparison.installed.items("show", late.uid)
    assert {one["partial"] for one in shown["counters"] if one["counter"] == "mbm_total_bytes"} == {True}


def test_children_and_crash_loop_are_counted(pods: list[KubernetesPod], comparison: Comparison) -> None:
    pod = pods[0]
    pod.run("c0", f"({copy(10)}) & ({copy(10)}) & wait")
    last = comparison.check(pod.uid, "two children, 10 MiB each")
    for attempt in range(3):
        pod.run(f"attempt{attempt}", f"{copy(10)}; exit 1", check=False)
        now = comparison.check(pod.uid, f"10 MiB more in attempt {attempt}")
        assert now > last
        last = now


@pytest.mark.nightly  # a boot of its own
@pytest.mark.only(runtime_name="crun")
@pytest.mark.parametrize(
    "processor", [pytest.param("Intel, 24 bits", marks=pytest.mark.guest(count=1, near=100000, width=24))]
)
def test_narrow_counter_wraps(pods: list[KubernetesPod], comparison: Comparison) -> None:
    pod = pods[0]
    pod.run("c0", copy(5))
    total = comparison.check(pod.uid, "copies 5 MiB, counters 100 000 units before their end")
    assert total > 100_000 * 64
