"""Counters continue over changes of the group: it changes class, and its RMID is handed over to another pod."""

import os
from collections.abc import Callable
from pathlib import Path

from kernel.counted.conftest import COUNTED
from kernel.counted.said import TOTAL, Comparison
from kernel.counted.steps import Stepped, at_rest, copy, in_steps
from kernel.groups import Resctrl
from kernel.pods import KubernetesPod
from kernel.runtimes import wait_until
from resctrl_hooks.observe.inventory.columns import MBM
from resctrl_hooks.observe.inventory.rates import of_pod
from resctrl_hooks.observe.node.snapshot.snapshot import open_files, take

HOUSES = ("observe",)
pytestmark = COUNTED


def test_total_continues_in_another_class(pods: list[KubernetesPod], comparison: Comparison, resctrl: Resctrl) -> None:
    pod = pods[0]
    pid = pod.start("c0", in_steps(copy(20), copy(20)))
    container = Stepped(pid)
    container.step()
    before = comparison.check(pod.uid, "copies 20 MiB in the root class")
    context, files = comparison.installed.context(), open_files()
    samples = [take(context, files)]
    resctrl.make("gold")
    for thread in pod.threads(pid):
        Path(resctrl.path("gold"), "tasks").write_text(f"{thread}\n")
    comparison.installed.reconcile()
    container.step()
    samples.append(take(context, files))
    after = comparison.check(pod.uid, "and 20 MiB in class gold", "gold")
    samples.append(take(context, files))
    assert of_pod(samples[0], samples[1], pod.uid)[MBM] is None, "the time of the class change is unknown"
    assert of_pod(samples[0], samples[1], pod.uid).moved[TOTAL] == after - before
    assert of_pod(samples[1], samples[2], pod.uid)[MBM] == 0, "it waits for its next step, and is counted"
    assert 1.7 < after / before < 2.3


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
    wait_until(
        lambda: installed.reconcile(check=False).returncode == 0,
        "the RMID is out of limbo, and the first pod has it again",
    )
    assert comparison.rmid(low.uid) == rmid
    idle = sum(at_rest(comparison.truth, rmid))
    giver.step()
    third = sum(at_rest(comparison.truth, rmid)) - idle
    comparison.hold("has an RMID again and copies 20 MiB", sum(comparison.said(low.uid)), first + third)
    assert second > first
