"""Pods with bursts in turns: what `show`, `top` and `record` derive, next to the bytes in the processor's ledger.

Only figures for a page: one window proves nothing about an interval of 95 %.
"""

import os
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from kernel.counted.truth import Truth, mounted_with, rmid_of
from kernel.groups import Resctrl
from kernel.test_turns import Pod, context_of, release_counters
from resctrl_hooks.inventory.columns import MBM
from resctrl_hooks.inventory.interval import interval_of
from resctrl_hooks.inventory.rates import Rates, of_pod
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.reconcile.reconcile import reconcile
from resctrl_hooks.node.reconcile.report import Options
from resctrl_hooks.node.snapshot.snapshot import Snapshot, take

BURSTS = """
import sys, time
block, load, period, due = bytes(65536), float(sys.argv[1]), float(sys.argv[2]), time.monotonic()
begun = due
while True:
    if (due - begun) % period < load:
        for _ in range(10):
            bytearray(block)
    due += 0.1
    time.sleep(max(0, due - time.monotonic()))
"""
"""A pod's program: it moves memory ten times a second for the first seconds of each period, without other processes."""
LENGTH = 0.4
"""Seconds of the test for a second of its table."""
TURN = 10.0
LOADS = {"20 of 60 s": (20, 60), "3 of 10 s": (3, 10), "steady": (60, 60), "idle": (0, 60)}
TWICE = [*LOADS][:2]
COUNTED = 3  # pods that the processor counts at a time
CYCLES = 30.0


class PodTruth:
    """The bytes of each pod by the processor's ledger, in its turns and between them.

    Each pod is alone in a class. Between its turns the class's RMID counts it. A group's RMID counts the pod whose name
    the group has.
    """

    def __init__(self, rmids: int, resctrl: Resctrl, classes: dict[str, str], context: Context) -> None:
        self._ledger = Truth(rmids)
        self._owners = {rmid_of(resctrl.path(rdt_class)): key for key, rdt_class in classes.items()}
        for key, rdt_class in classes.items():
            folder = resctrl.path(rdt_class, key)
            if os.path.exists(folder):
                self._owners[rmid_of(folder)] = key
        self._seen = dict.fromkeys(self._owners, 0)
        self._bytes = dict.fromkeys(classes, 0)
        rename = context.monitor.resctrl.move

        def move(rdt_class: str, name: str, new_class: str, new_name: str = "") -> bool:
            self.by_pod()  # the giver has left the group, and the taker has not joined it yet
            rmid = rmid_of(resctrl.path(rdt_class, name))
            renamed = rename(rdt_class, name, new_class, new_name)
            if renamed:
                self._owners[rmid] = new_name or name
            return renamed

        context.monitor.resctrl.move = move  # type: ignore[method-assign]

    def by_pod(self) -> dict[str, int]:
        """Return the bytes of each pod so far."""
        for rmid, key in self._owners.items():
            now = sum(self._ledger.of(rmid))
            self._bytes[key] += now - self._seen[rmid]
            self._seen[rmid] = now
        return dict(self._bytes)


def start_pods(folder: Path, resctrl: Resctrl) -> dict[str, tuple[Pod, str]]:
    """Start the pods, each in a class of its own without a counter, and return them with their loads by class."""
    pods = {}
    for number, name in enumerate([*LOADS, *TWICE]):
        load, period = LOADS[name]
        words = [sys.executable, "-I", "-S", "-c", BURSTS, str(load * LENGTH), str(period * LENGTH)]
        pods[f"class{number}"] = Pod(number, folder, words), name
        resctrl.make(f"class{number}")
        resctrl.join(pods[f"class{number}"][0].process.pid, f"class{number}")
    for rdt_class in ("", *pods):
        release_counters(resctrl.path(rdt_class))
    time.sleep(5)  # until the interpreters have started
    return pods


def line(name: str, key: str, samples: list[Snapshot], truth: float) -> str:
    """Return a pod's row of the table."""
    turns = samples[-1].turns.get(key, [])
    found = interval_of(turns)
    assert found is not None, f"{name}: only {len(turns)} turns"
    rates: list[Rates] = [of_pod(one, other, key) for one, other in pairwise(samples)]
    assert not [one for one in rates if one[MBM] == 0 and one.counted is None], "a rate without counting"
    parts = [rate for one in rates if one.estimated and (rate := one[MBM]) is not None]
    within = f"{statistics.median(parts) / 1e6:.1f} ({len(parts)})" if name == "steady" else ""
    off = f"{found.rate / truth - 1:+.0%}" if truth > 1000 else ""
    inside = "yes" if found.low <= truth <= found.high else "no"
    shown = f"{found.rate / 1e6:.1f} ± {found.half / 1e6:.1f}"
    counted = f"{len(turns)} | {sum(time for time, _ in turns):.0f}"
    unknown = f"{sum(one[MBM] is None for one in rates)} of {len(rates)}"
    return f"| {name} | {counted} | {shown} | {truth / 1e6:.1f} | {off} | {inside} | {unknown} | {within} |"


@pytest.mark.measures
@pytest.mark.parametrize(
    "rmids",
    [
        pytest.param(1 + 6 + COUNTED, marks=pytest.mark.guest(rmids=10, count=1, cpus=1), id="intel"),
        pytest.param(32, marks=pytest.mark.guest(amd=1, rmids=32, counters=COUNTED, count=1, cpus=1), id="amd"),
    ],
)
def test_pods_with_bursts_in_turns_are_compared_with_the_ledger(resctrl: Resctrl, tmp_path: Path, rmids: int) -> None:
    with mounted_with("debug"):
        pods = start_pods(tmp_path, resctrl)
        context = context_of(tmp_path, resctrl)
        context.settings.monitoring["share"]["interval"] = TURN * LENGTH
        try:
            reconcile(context, Options())
            truth = PodTruth(rmids, resctrl, {pod.key: rdt_class for rdt_class, (pod, _) in pods.items()}, context)
            begun, before, samples = time.monotonic(), truth.by_pod(), [take(context)]
            while time.monotonic() - begun < CYCLES * TURN * LENGTH * len(pods) / COUNTED:
                time.sleep(TURN * LENGTH / 5)
                reconcile(context, Options())
                samples.append(take(context))
            seconds, after = time.monotonic() - begun, truth.by_pod()
        finally:
            for pod, _ in pods.values():
                pod.end()
    print(f"MEASURED {seconds:.0f} s, turns of {TURN * LENGTH:g} s, all times {LENGTH:g} of those in the table")
    print(
        "| load | turns | counted, s | shown, MB/s | truth, MB/s | off | inside | without a rate | across a handover |"
    )
    print("|---|--:|--:|--:|--:|--:|---|--:|--:|")
    for pod, name in sorted(pods.values(), key=lambda each: [*LOADS].index(each[1])):
        print(line(name, pod.key, samples, (after[pod.key] - before[pod.key]) / seconds))
