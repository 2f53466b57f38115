"""The first promise, proven: what a pod did from its first instruction to its last is what its counters say.

The guest's processor counts every access to memory (tests/vm/rdt.c), for the RMID that runs, and keeps a ledger of its
own. Each test compares what the project says with that ledger.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.groups import Resctrl
from kernel.installed import Installed
from kernel.pods import KubernetesPod
from kernel.runtimes import Runtime, wait_until
from kernel.truth import ROOT, Truth, mounted_with, rmid_of
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.settings import load

pytestmark = [pytest.mark.counted, pytest.mark.parametrize("driver", ["cgroupfs"])]
TOTAL = "mbm_total_bytes"
NEAR = 0.02
"""How far what is said may be from the truth."""
UIDS = [f"{number}f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01" for number in range(8)]
# Intel's counters, of 32 bits, begin close to their end: each wraps while its pod counts.
INTEL = pytest.param("Intel", marks=pytest.mark.guest(count=1, near=100000))
AMD = pytest.param("AMD", marks=pytest.mark.guest(count=1, amd=1, counters=4))
ON_BOTH = pytest.mark.parametrize("processor", [INTEL, AMD])


def copy(mebibytes: int) -> str:
    """A shell command that has the kernel write so much to a process's memory."""
    return f"dd if=/dev/zero of=/dev/null bs=1M count={mebibytes} 2>/dev/null"


@pytest.fixture
def resctrl() -> Iterator[Resctrl]:
    """A resctrl that shows RMIDs, new for each test: so that no total is another test's."""
    with mounted_with("debug"):
        yield Resctrl(ROOT)


@pytest.fixture
def truth(resctrl: Resctrl, boot: dict[str, Any]) -> Truth:
    del resctrl
    return Truth(int(boot["rmids"]))


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(str(tmp_path / "host"))


@pytest.fixture
def pods(
    runtime: Runtime, installed: Installed, bundle: Callable[..., str], truth: Truth
) -> Iterator[list[KubernetesPod]]:
    del truth  # is asked before any of them runs
    made = [KubernetesPod(uid, runtime, installed, bundle) for uid in UIDS]
    yield made
    for pod in made:
        pod.remove()


def said(installed: Installed, key: str) -> list[int]:
    """What the library says of a key's total, by domain."""
    readings = Context(load(installed.config)[0]).monitor.read(key)
    return [int(one.value or 0) for one in readings if one.counter.name == TOTAL]


def check(installed: Installed, truth: Truth, key: str, what: str, rdt_class: str = "") -> int:
    """Compares what is said of a key with the truth, and keeps both for the table; the truth."""
    real = truth.of(rmid_of(Resctrl(ROOT).path(rdt_class, key)))
    told = said(installed, key)
    off = abs(sum(told) - sum(real)) / max(sum(real), 1)
    row = {"what": what, "said": told, "truth": real, "off": off}
    if os.path.isdir("/results"):
        with open("/results/counted.jsonl", "a", encoding="utf-8") as out:
            out.write(f"{json.dumps(row)}\n")
    assert off < NEAR, row
    return sum(real)


def command(installed: Installed, *words: str) -> str:
    """What the project's command prints."""
    words = ("resctrl-hook", "--config", installed.config, *words)
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@ON_BOTH
def test_twice_the_copying_counts_twice(
    pods: list[KubernetesPod], installed: Installed, truth: Truth, processor: str, runtime_name: str
) -> None:
    who = f"{processor}, {runtime_name}"
    idle, nothing, half, whole = pods[:4]
    idle.start("idle", ["/bin/sleep", "1000"])
    begun = check(installed, truth, idle.uid, f"{who}: an idle neighbour, as it starts")
    nothing.run("c0", "true")
    half.run("c50", f"taskset 1 {copy(50)}")
    whole.run("c100", f"taskset 1 {copy(100)}")
    start = check(installed, truth, nothing.uid, f"{who}: a container that does nothing")
    fifty = check(installed, truth, half.uid, f"{who}: copies 50 MiB") - start
    hundred = check(installed, truth, whole.uid, f"{who}: copies 100 MiB") - start
    assert 1.9 < hundred / fifty < 2.1
    first, second = said(installed, whole.uid)
    assert first - second > 0.9 * hundred - start, "it copied on the first processor"
    ended = check(installed, truth, idle.uid, f"{who}: the idle neighbour, at the end")
    assert ended - begun < NEAR * hundred


@ON_BOTH
def test_the_first_instructions_count(
    pods: list[KubernetesPod], installed: Installed, truth: Truth, processor: str, runtime_name: str
) -> None:
    who = f"{processor}, {runtime_name}"
    then_stay = f"{copy(50)}; sleep 3; touch /dev/done; sleep 1000"

    def done(pid: int) -> None:
        wait_until(lambda: os.path.exists(f"/proc/{pid}/root/dev/done"), "it has copied")

    early, late = pods[:2]
    done(early.start("early", then_stay))
    counted = check(installed, truth, early.uid, f"{who}: copies at once")
    late.installed = type(
        "NoHooks", (), {"hooks": {}, "reconcile": installed.reconcile}
    )()  # as before the installation
    done(late.start("late", then_stay))
    installed.reconcile()
    missed = check(installed, truth, late.uid, f"{who}: copies before reconcile brings it in")
    assert missed < 0.1 * counted
    shown = json.loads(command(installed, "show", late.uid, "-o", "json"))["items"][0]
    assert {one["partial"] for one in shown["counters"] if one["counter"] == TOTAL} == {True}


@ON_BOTH
def test_children_and_a_crash_loop_count(
    pods: list[KubernetesPod], installed: Installed, truth: Truth, processor: str, runtime_name: str
) -> None:
    who = f"{processor}, {runtime_name}"
    pod = pods[0]
    pod.run("c0", f"({copy(10)}) & ({copy(10)}) & wait")
    last = check(installed, truth, pod.uid, f"{who}: two children")
    for attempt in range(3):
        pod.run(f"attempt{attempt}", f"{copy(10)}; true")
        now = check(installed, truth, pod.uid, f"{who}: attempt {attempt}")
        assert now > last
        last = now


@ON_BOTH
def test_all_together_are_the_machine_and_every_command_says_so(
    pods: list[KubernetesPod], installed: Installed, truth: Truth, processor: str, runtime_name: str
) -> None:
    del runtime_name
    if processor == "AMD":  # for the sum the root group has to be counted, too
        installed.configure(monitoring={"classCounters": "keep", "events": [TOTAL]})
        installed.reconcile()
    root = [Path(ROOT, "mon_data", folder, TOTAL) for folder in ("mon_L3_00", "mon_L3_01")]

    def machine() -> int:
        return sum(int(path.read_text()) for path in root)

    began, real_began = machine(), truth.whole()
    for pod in pods[:2]:
        pod.run("c0", copy(100))
    moved, real = machine() - began, truth.whole() - real_began
    assert abs(moved - real) < NEAR * real
    for pod in pods[:2]:
        total = check(installed, truth, pod.uid, f"{processor}: one of two")
        shown = json.loads(command(installed, "show", pod.uid, "-o", "json"))["items"][0]["counters"]
        assert abs(sum(one["value"] for one in shown if one["counter"] == TOTAL) - total) < NEAR * total
        lines = [line for line in command(installed, "metrics").splitlines() if pod.uid in line]
        scraped = sum(float(line.split()[-1]) for line in lines if line.startswith("l3_mbm_total_bytes_total"))
        assert abs(scraped - total) < NEAR * total


@pytest.mark.parametrize("processor", [AMD])
def test_six_pods_and_four_counters(pods: list[KubernetesPod], installed: Installed, processor: str) -> None:
    del processor
    for number, pod in enumerate(pods[:6]):
        pod.start(f"c{number}", ["/bin/sleep", "1000"])

    def states() -> list[str]:
        found = {pod["key"]: pod["state"] for pod in json.loads(command(installed, "list", "-o", "json"))["items"]}
        return [found.get(pod.uid, "gone") for pod in pods[:6]]

    assert states() == ["assigned"] * 4 + ["uncounted"] * 2
    assert "all bandwidth counters are in use: mbm_total_bytes of" in installed.said()
    assert (
        "2 pods have no bandwidth counter"
        in subprocess.run(
            ["resctrl-hook", "--config", installed.config, "doctor"], capture_output=True, text=True, check=False
        ).stdout
    )
    for number, pod in enumerate(pods[:2]):
        pod.end(f"c{number}")
        pod.cgroup.rmdir()
    installed.reconcile()
    assert states() == ["gone"] * 2 + ["assigned"] * 4
