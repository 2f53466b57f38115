"""Twelve pods of steady, different load on a processor that counts three, or four: what each reads in turns.

The guest's counters are true to a memory access (`count=1`), so a rate in turns can be held to that of the same pod
with a group of its own, measured on the same node a moment before.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kernel.groups import Resctrl, place_of
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.log import Log
from resctrl_hooks.node.reconcile.reconcile import reconcile
from resctrl_hooks.node.reconcile.report import Options
from resctrl_hooks.node.settings import Settings

PODS = 12
TURNS = 15
INTERVAL = 1.0
ALONE_SECONDS = 4.0
EVENTS = ("mbm_total_bytes", "mbm_local_bytes")
TOLERANCE = 0.10
LOAD = """
import sys, time
block, times, due = bytes(65536), int(sys.argv[1]), time.monotonic()
while True:
    for _ in range(times):
        bytearray(block)
    due += 0.1
    time.sleep(max(0, due - time.monotonic()))
"""


class Pod:
    """A pod as its runtime's state folder tells it, of one process that moves memory ten times a second."""

    def __init__(self, number: int, folder: Path, command: Sequence[str] = ()) -> None:
        self.key = f"3f0ac7f2-8a3b-4f0e-9a55-{number:012d}"
        self.process = subprocess.Popen(command or [sys.executable, "-I", "-S", "-c", LOAD, str(number + 1)])
        pid = self.process.pid
        annotations = {
            "io.container.manager": "cri-o",
            "io.kubernetes.cri-o.ContainerType": "container",
            "io.kubernetes.pod.uid": self.key,
            "io.kubernetes.pod.namespace": "shop",
            "io.kubernetes.pod.name": f"web-{number}",
            "io.kubernetes.container.name": "main",
        }
        state = folder / "crun" / f"{number:064x}"
        state.mkdir(parents=True)
        (state / "config.json").write_text(json.dumps({"ociVersion": "1.2.1", "annotations": annotations}))
        start = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        status = {"pid": pid, "process-start-time": start, "bundle": str(state)}
        (state / "status").write_text(json.dumps(status))


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[list[Pod]]:
    made = [Pod(number, tmp_path) for number in range(PODS)]
    time.sleep(2)  # until their interpreters have started
    yield made
    for pod in made:
        pod.process.kill()
        pod.process.wait()


def context_of(folder: Path, resctrl: Resctrl) -> Context:
    share = {"interval": INTERVAL, "atLeast": 0.0}
    values = {
        "resctrlPath": resctrl.root,
        "stateDir": str(folder / "state"),
        "runtimeRoots": {"crun": str(folder / "crun")},
        "monitoring": {"share": share, "events": ["mbm_total_bytes"]},
    }
    return Context(Settings(values), Log({"target": "none"}))


def bytes_of(folder: str) -> int:
    """Return the count of a group's domains."""
    return sum(int(file.read_text()) for file in Path(folder).glob("mon_data/mon_L3_*/mbm_total_bytes"))


def groups_alone(resctrl: Resctrl, counted: int) -> list[str]:
    """So many groups, of which each counts all bytes: where counters are assigned, nothing else has any."""

    def take_counters(folder: str, events: Sequence[str]) -> None:
        assignments = Path(folder, "mbm_L3_assignments")
        for event in events if assignments.exists() else ():
            assignments.write_text(f"{event}:*=_\n")

    take_counters(resctrl.root, EVENTS)
    folders = []
    for number in range(counted):
        folders.append(resctrl.make(group=f"alone{number}"))
        take_counters(folders[-1], EVENTS[1:])
    return folders


def rates_alone(pods: list[Pod], resctrl: Resctrl, *, counted: int) -> dict[str, float]:
    """The rate of each pod in a group of its own, while all the others run too: as many at a time as can be counted."""
    folders = groups_alone(resctrl, counted)
    rates = {}
    for first in range(0, len(pods), counted):
        begun = {}
        for folder, pod in zip(folders, pods[first : first + counted], strict=True):
            resctrl.join(pod.process.pid, group=os.path.basename(folder))
            begun[pod.key] = folder, bytes_of(folder), time.monotonic()
        time.sleep(ALONE_SECONDS)
        for key, (folder, before, began) in begun.items():
            rates[key] = (bytes_of(folder) - before) / (time.monotonic() - began)
        for pod in pods[first : first + counted]:
            resctrl.join(pod.process.pid)
    for folder in folders:
        os.rmdir(folder)
    return rates


def rates_in_turns(pods: list[Pod], context: Context, *, counted: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the rate of each pod after its turns, and the seconds for which it was counted."""
    deadline = time.monotonic() + 40
    while len(context.ledger.marked("rmids")) < counted and time.monotonic() < deadline:
        reconcile(context, Options())  # the groups of `rates_alone` are in limbo for a second
    rates: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for _ in range(TURNS * PODS // counted):
        time.sleep(INTERVAL)
        for key, readings in context.monitor.read_all().items():
            totals = [reading for reading in readings if reading.counter.name == "mbm_total_bytes"]
            # A pod without a counter at the moment reports that; its count is then the last value.
            if totals and all(reading.value is not None for reading in totals):
                seconds[key] = max(reading.seconds or 0.0 for reading in totals)
                rates[key] = sum(reading.value or 0 for reading in totals) / seconds[key]
        report = reconcile(context, Options())
        assert report.ok, report.as_text()
    return rates, seconds


def compare(pods: list[Pod], alone: dict[str, float], turns: dict[str, float], seconds: dict[str, float]) -> None:
    """Print the table, and hold each pod's rate to its own."""
    print("pod  alone kB/s  in turns kB/s  counted s  off by")
    worst = 0.0
    for number, pod in enumerate(pods):
        off = turns[pod.key] / alone[pod.key] - 1
        worst = max(worst, abs(off))
        one, many = alone[pod.key] / 1000, turns[pod.key] / 1000
        print(f"{number:3} {one:11.0f} {many:14.0f} {seconds[pod.key]:10.1f} {off:+7.1%}")
    assert worst < TOLERANCE


@pytest.mark.guest(rmids=4, count=1, cpus=1)
def test_rates_of_turns_match_continuous_counting(resctrl: Resctrl, tmp_path: Path, pods: list[Pod]) -> None:
    alone = rates_alone(pods, resctrl, counted=3)
    turns, seconds = rates_in_turns(pods, context_of(tmp_path, resctrl), counted=3)
    compare(pods, alone, turns, seconds)
    for pod in pods:
        assert place_of(pod.process.pid).group in ("", pod.key)


@pytest.mark.guest(amd=1, rmids=32, counters=4, count=1, cpus=1)
def test_rates_of_assignable_counters_in_turns_match_continuous_counting(
    resctrl: Resctrl, tmp_path: Path, pods: list[Pod]
) -> None:
    alone = rates_alone(pods, resctrl, counted=4)
    turns, seconds = rates_in_turns(pods, context_of(tmp_path, resctrl), counted=4)
    compare(pods, alone, turns, seconds)
    for pod in pods:
        assert place_of(pod.process.pid).group == pod.key
