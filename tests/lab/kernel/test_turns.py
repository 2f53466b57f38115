"""Twelve pods of steady, different load in turns, on a processor that counts three, or four.

The pods work in steps, one after another, and the clock moves only between steps: a busy machine changes no rate. The
processor's ledger (kernel/counted/truth.py) says what each pod moved in each step, in its turns and between them.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from conftest import crio_annotations
from hosts import crun

from kernel.counted.truth import ROOT, Truth, mounted_with, rmid_of
from kernel.groups import Resctrl, place_of
from kernel.runtimes import wait_until
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.log import Log
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.core.node.settings import Settings

PODS = 12
TURNS = 8
INTERVAL = 1.0
EVENTS = ("mbm_total_bytes", "mbm_local_bytes")
TOLERANCE = 0.05
LOAD = """
import os, sys
block, times = bytes(65536), int(sys.argv[1])
while os.read(0, 1):
    for _ in range(times):
        bytearray(block)
    os.write(1, b".")
"""
"""A pod's program: one step for each byte that it reads."""
COPIES = 8
"""The copies in a step of the first pod; the second makes twice as many."""


class Pod:
    """A pod as its runtime's state folder describes it, of one process."""

    def __init__(self, number: int, folder: Path, command: Sequence[str] = ()) -> None:
        self.key = f"3f0ac7f2-8a3b-4f0e-9a55-{number:012d}"
        words = command or [sys.executable, "-I", "-S", "-c", LOAD, str((number + 1) * COPIES)]
        self.process = subprocess.Popen(words, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        bundle = folder / f"bundle{number}"
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps({"annotations": crio_annotations(self.key)}))
        crun.record(folder / "crun", f"{number:064x}", self.process.pid, bundle)

    def step(self) -> None:
        """Have it work once, to the end."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(b".")
        self.process.stdout.read(1)

    def end(self) -> None:
        """Kill it."""
        with self.process:
            self.process.kill()


def work(pod: Pod) -> None:
    """Let a pod work once, until it sleeps: with one processor it still runs after its answer."""
    pod.step()
    stat = Path(f"/proc/{pod.process.pid}/stat")
    wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "S", "the pod is at rest")


class Steps:
    """The pods' steps, with the time and the ledger's bytes of each.

    Args:
        pods: all pods of the node.
        rmids: the processor's.
        monkeypatch: for the clock.
    """

    def __init__(self, pods: list[Pod], rmids: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pods = pods
        self._ledger = Truth(rmids, domains=1)
        self.seconds = 0.0
        self.bytes = {pod.key: 0 for pod in pods}
        begun = {clock: time.clock_gettime(clock) for clock in (time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME)}
        monkeypatch.setattr(time, "clock_gettime", lambda clock: begun[clock] + self.seconds)
        monkeypatch.setattr(time, "monotonic", lambda: begun[time.CLOCK_MONOTONIC] + self.seconds)

    def step(self) -> None:
        """Have each pod work for a turn's time."""
        self.seconds += INTERVAL
        for pod in self._pods:
            rmid = rmid_of(Resctrl(ROOT).path(group=place_of(pod.process.pid).group))
            before = self._ledger.of(rmid)[0]
            pod.step()
            self.bytes[pod.key] += self._ledger.of(rmid)[0] - before


@pytest.fixture
def resctrl() -> Iterator[Resctrl]:
    """Return a resctrl that shows RMIDs, without counters in the root group."""
    with mounted_with("debug"):
        mounted = Resctrl(ROOT)
        mounted.settle()
        release_counters(mounted.root)
        yield mounted


@pytest.fixture
def pods(tmp_path: Path, resctrl: Resctrl) -> Iterator[list[Pod]]:
    """Return the pods, at rest. The tests' own process is in a class, so that the ledger separates it from them."""
    made = [Pod(number, tmp_path) for number in range(PODS)]
    for pod in made:
        pod.step()  # its interpreter has started
    release_counters(resctrl.make("tests"))
    for task in os.listdir("/proc/self/task"):
        resctrl.join(int(task), "tests")
    yield made
    for pod in made:
        pod.end()


def release_counters(folder: str) -> None:
    """Release a group's assignable counters, if the processor has such."""
    assignments = Path(folder, "mbm_L3_assignments")
    for event in EVENTS if assignments.exists() else ():
        assignments.write_text(f"{event}:*=_\n")


def context_of(folder: Path, resctrl: Resctrl) -> Context:
    share = {"interval": INTERVAL, "atLeast": 0.0}
    values = {
        "resctrlPath": resctrl.root,
        "stateDir": str(folder / "state"),
        "runtimeRoots": {"crun": str(folder / "crun")},
        "monitoring": {"share": share, "events": ["mbm_total_bytes"]},
    }
    return Context(Settings(values), Log({"target": "none"}))


def rates_in_turns(steps: Steps, context: Context, *, counted: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the rate of each pod after its turns, and the seconds for which it was counted."""

    for _ in range(400):  # the clock stands still, so that no pod is counted longer than it works
        reconcile(context, Options())
        if len(context.ledger.marked("rmids")) >= counted:
            break
        time.sleep(0.1)  # an RMID of another test is still in limbo
    rates: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for _ in range(TURNS * PODS // counted):
        steps.step()
        for key, readings in context.monitor.read_all().items():
            totals = [reading for reading in readings if reading.counter.name == "mbm_total_bytes"]
            # A pod without a counter at the moment reports that; its count is then the last value.
            counted_for = max((reading.seconds or 0.0 for reading in totals), default=0.0)
            if counted_for and all(reading.value is not None for reading in totals):
                seconds[key] = counted_for
                rates[key] = sum(reading.value or 0 for reading in totals) / counted_for
        report = reconcile(context, Options())
        assert report.ok, report.as_text()
    return rates, seconds


def compare(steps: Steps, turns: dict[str, float], seconds: dict[str, float]) -> None:
    """Print the table, and hold each pod's rate to the ledger's."""
    print("pod  ledger kB/s  in turns kB/s  counted s  off by")
    worst = 0.0
    for number, (key, moved) in enumerate(steps.bytes.items()):
        truth = moved / steps.seconds
        off = turns[key] / truth - 1
        worst = max(worst, abs(off))
        print(f"{number:3} {truth / 1000:12.0f} {turns[key] / 1000:14.0f} {seconds[key]:10.1f} {off:+7.1%}")
    assert worst < TOLERANCE


@pytest.mark.parametrize(
    "counted, rmids, elsewhere",
    [
        pytest.param(3, 5, {""}, marks=pytest.mark.guest(rmids=5, count=1, cpus=1), id="RMIDs"),
        pytest.param(
            4, 32, set(), marks=pytest.mark.guest(amd=1, rmids=32, counters=4, count=1, cpus=1), id="counters"
        ),
    ],
)
def test_rates_of_turns_match_continuous_counting(
    resctrl: Resctrl,
    tmp_path: Path,
    pods: list[Pod],
    monkeypatch: pytest.MonkeyPatch,
    counted: int,
    rmids: int,
    elsewhere: set[str],
) -> None:
    steps = Steps(pods, rmids, monkeypatch)
    turns, seconds = rates_in_turns(steps, context_of(tmp_path, resctrl), counted=counted)
    compare(steps, turns, seconds)
    for pod in pods:
        assert place_of(pod.process.pid).group in {*elsewhere, pod.key}
