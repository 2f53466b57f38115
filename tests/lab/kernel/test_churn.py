"""Pods that end after a moment, with guard, exec watcher, metrics and turns: no byte is lost, and the guard acts.

Pods work in steps and are compared with the processor's ledger at rest, so a slow machine changes no result.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.bandwidth import NOISY, VICTIM, limits
from kernel.counted.truth import Truth, mounted_with, rmid_of
from kernel.groups import Resctrl
from kernel.installed import Installed
from kernel.test_turns import LOAD, Pod, work
from kernel.watching import Watcher
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.observe.node.guard.guard import Guard

HOUSES = ("observe",)
ROUNDS = [7, pytest.param(120, marks=[pytest.mark.measures, pytest.mark.timeout(7000)])]
"""Pods that come and go."""
STAY, COPIES = 2, 120
CAPACITY = 1000.0
"""Bytes per second: every step fills the memory."""
TOTAL = "mbm_total_bytes"


@pytest.fixture
def resctrl() -> Iterator[Resctrl]:
    """Return a resctrl that shows RMIDs."""
    with mounted_with("debug"):
        mounted = Resctrl(os.environ["RESCTRL_ROOT"])
        mounted.settle()
        yield mounted


class Node:
    """The node: pods by number, each in a class, and what the library says of them."""

    def __init__(self, resctrl: Resctrl, installed: Installed, folder: Path, rmids: int) -> None:
        self._resctrl, self._folder = resctrl, folder
        self._truth = Truth(rmids, domains=1)
        self._states = folder / "crun"
        guard = {"mode": "act", "protect": [VICTIM], "throttle": {NOISY: {"floor": 20}}}
        share = {"interval": 1.0, "atLeast": 0.0}
        installed.configure(
            rdt={"guard": guard},
            monitoring={"capacity": {"*": CAPACITY}, "share": share, "exec": "watch"},
            runtimeRoots={"crun": str(self._states)},
        )
        self.context = installed.context()

    def start(self, number: int, rdt_class: str) -> Pod:
        """Start a pod in a class; it is at rest then."""
        pod = Pod(number, self._folder, [sys.executable, "-I", "-S", "-c", LOAD, str(COPIES)])
        work(pod)
        for task in os.listdir(f"/proc/{pod.process.pid}/task"):
            self._resctrl.join(int(task), rdt_class)
        return pod

    def end(self, pod: Pod, number: int) -> None:
        """End a pod, as its runtime forgets it."""
        pod.end()
        shutil.rmtree(self._states / f"{number:064x}")

    def said(self, pod: Pod) -> int:
        """Return the bytes that the library counts for a pod; 0 before its first reconcile."""
        if self.context.ledger.read_pod(pod.key) is None:
            return 0
        readings = self.context.monitor.read(pod.key)
        return int(sum(one.value or 0 for one in readings if one.counter.name == TOTAL))

    def compare(self, pod: Pod, rdt_class: str) -> int:
        """Let a pod work, and hold its total to the ledger, to the byte; return its bytes, 0 without a group."""
        group = self._resctrl.path(rdt_class, pod.key)
        if not os.path.exists(group):
            work(pod)
            return 0
        rmid = rmid_of(group)
        real, said = sum(self._truth.of(rmid)), self.said(pod)
        work(pod)
        moved = sum(self._truth.of(rmid)) - real
        assert self.said(pod) - said == moved
        return moved


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.guest(rmids=6, count=1, cpus=1)
def test_churn_loses_no_counted_byte_and_the_guard_acts(
    resctrl: Resctrl, installed: Installed, tmp_path: Path, rounds: int
) -> None:
    for name in (VICTIM, NOISY):
        resctrl.make(name)
    node = Node(resctrl, installed, tmp_path, rmids=6)
    node.context.ledger.prepare()
    declared = limits(resctrl)
    stay = [node.start(number, VICTIM) for number in range(STAY)]
    assert reconcile(node.context, Options()).ok
    guard = Guard(node.context, None, os.getpid(), 0.0)
    watcher = Watcher(installed).start()
    brief: list[tuple[int, Pod]] = []
    compared = turns = lowest = 0
    holders: set[str] = set()
    try:
        for number in range(STAY, STAY + rounds):
            brief.append((number, node.start(number, NOISY)))
            if len(brief) > STAY:
                first, pod = brief.pop(0)
                node.end(pod, first)
            kept = {pod.key: node.said(pod) for pod in stay}
            report = reconcile(node.context, Options())  # adopts, releases, ends turns; nothing works meanwhile
            assert report.ok, report.as_text()
            assert {pod.key: node.said(pod) for pod in stay} == kept
            now = {pod.key for pod in stay if os.path.exists(resctrl.path(VICTIM, pod.key))}
            turns += now != holders
            holders = now
            compared += sum(node.compare(pod, VICTIM) > 0 for pod in stay)
            compared += sum(node.compare(pod, NOISY) > 0 for _, pod in brief)
            guard.sample(float(number))
            lowest = min([lowest or sum(declared), sum(limits(resctrl))])
        page = installed.prints("metrics")
        assert f'{stay[0].key}"' in page
        assert watcher.figures()["mode"] == "events"
    finally:
        watcher.stop()
        for pod in (*stay, *(pod for _, pod in brief)):
            pod.end()
        restored = guard.end()
    print(f"{compared} comparisons, {turns} changes of holders, MB {sum(declared)} to {lowest}")
    assert compared > rounds
    assert turns > 1
    assert lowest < sum(declared)
    assert restored
    assert limits(resctrl) == declared
