"""Reported values are the ledger's: from the first instruction to the last, over moves, by each command."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kernel.counted.conftest import AMD, COUNTED, EACH_ONCE, on
from kernel.counted.truth import NEAR, ROOT, TOTAL, Comparison, Stepped, at_rest, copy, in_steps
from kernel.installed import Installed, resctrl_hook
from kernel.pods import KubernetesPod
from kernel.runtimes import wait_until
from resctrl_hooks.observe.inventory.columns import MBM
from resctrl_hooks.observe.inventory.rates import of_pod
from resctrl_hooks.observe.node.snapshot.snapshot import open_files, take

HOUSES = ("observe",)
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


@EACH_ONCE
def test_sum_of_all_pods_equals_machine(pods: list[KubernetesPod], comparison: Comparison, processor: str) -> None:
    installed, truth = comparison.installed, comparison.truth
    if processor == "AMD":  # for the sum the root group has to be counted, too
        installed.configure(monitoring={"classCounters": "keep", "events": [TOTAL]})
        installed.reconcile()

    def machine() -> int:
        return sum(int(path.read_text()) for path in Path(ROOT, "mon_data").glob(f"mon_L3_*/{TOTAL}"))

    began, real_began = machine(), sum(truth.by_domain())
    for pod in pods[:2]:
        pod.run("c0", copy(50))
    # The machine is never idle; its traffic between these two is small against 100 MiB.
    comparison.hold("two pods and all the rest", machine() - began, sum(truth.by_domain()) - real_began)


def test_handed_over_rmid_counts_each_pod_separately(
    no_rmid_left: Callable[[], object], pods: list[KubernetesPod], comparison: Comparison
) -> None:
    installed = comparison.installed
    installed.configure(monitoring={"priority": [{"namespaces": ["urgent"], "value": 10}]})
    low, high = pods[:2]
    giver = Stepped(low.start("giver", in_steps(copy(20), copy(20), copy(20))))
    giver.step()
    rmid = comparison.rmid(low.uid)
    first = comparison.check(low.uid, "copies 20 MiB and loses its RMID to another pod")
    context, files = installed.context(), open_files()
    before = take(context, files)
    no_rmid_left()
    taker = Stepped(high.start("taker", in_steps(copy(30)), annotations={"io.kubernetes.pod.namespace": "urgent"}))
    assert comparison.rmid(high.uid) == rmid, installed.said()
    taker.step()
    giver.step()  # uncounted
    second = comparison.check(high.uid, "gets the RMID of another and copies 30 MiB", others=first)
    comparison.hold("20 MiB more without an RMID", sum(comparison.said(low.uid)), first)
    now = take(context, files)
    gave, took = of_pod(before, now, low.uid), of_pod(before, now, high.uid)
    assert took.moved[TOTAL] == sum(comparison.said(high.uid))
    assert not gave.moved.get(TOTAL), "uncounted bytes are in no rate"
    assert all(one[MBM] is None or one.estimated for one in (gave, took)), "each was counted for a part"
    high.end("taker")
    os.rmdir(high.cgroup)
    wait_until(lambda: not installed.reconcile(check=False).returncode, "the first pod has the RMID again")
    assert comparison.rmid(low.uid) == rmid
    idle = sum(at_rest(comparison.truth, rmid))
    giver.step()
    third = sum(at_rest(comparison.truth, rmid)) - idle
    comparison.hold("has an RMID again and copies 20 MiB", sum(comparison.said(low.uid)), first + third)
    assert second > first


def states(installed: Installed, pods: list[KubernetesPod]) -> list[str]:
    """Return the state of each pod in `list`."""
    found = installed.states()
    return [found.get(pod.uid, "gone") for pod in pods]


@on(AMD)
@pytest.mark.usefixtures("processor")
def test_six_pods_share_four_counters(pods: list[KubernetesPod], installed: Installed) -> None:
    for number, pod in enumerate(pods[:6]):
        pod.start(f"c{number}")
    assert states(installed, pods[:6]) == ["assigned"] * 4 + ["uncounted"] * 2
    assert "all bandwidth counters are in use: mbm_total_bytes of" in installed.said()
    found = resctrl_hook("--config", installed.config, "doctor").stdout
    assert "2 pods lack a bandwidth counter" in found
    assert "\nPROBLEM self-test" not in f"\n{found}"
    lines = installed.items("top", "--interval", "1s")
    shown = {line["name"]: line for line in lines}
    for name in ("(ungrouped)", "TOTAL"):
        assert shown[name]["memoryBandwidthBytesPerSecond"] is None, "the root file is the sum of four pods"
    assert shown["TOTAL"]["uncounted"] == 2
    assert sum(line["memoryBandwidthBytesPerSecond"] is not None for line in lines) == 4
    for number, pod in enumerate(pods[:2]):
        pod.end(f"c{number}")
        pod.cgroup.rmdir()
    installed.reconcile()
    assert states(installed, pods[:6]) == ["gone"] * 2 + ["assigned"] * 4
