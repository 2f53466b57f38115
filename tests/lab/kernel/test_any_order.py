"""Events in a random order, and turns, on the real kernel: each pod's total is the processor's own count."""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.node import Container, pod_number

from kernel.counted.truth import ROOT, Truth, mounted_with, rmid_of
from kernel.groups import Resctrl, place_of
from kernel.installed import Installed
from kernel.runtimes import wait_until
from resctrl_hooks.core.inventory.gather import gather
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.core.node.resctrl.counter_totals import ended
from resctrl_hooks.core.node.resctrl.rmids import total_closids, total_rmids

PODS, TURNS, INTERVAL, TOLERANCE = 12, 8, 1.0, 0.05
BYTES, LOCAL, ENERGY = "mbm_total_bytes", "mbm_local_bytes", "core_energy"
LOAD = """
import os, sys
block, times = bytes(65536), int(sys.argv[1])
while os.read(0, 1):
    for _ in range(times):
        bytearray(block)
    os.write(1, b".")
"""
"""A pod's program: one step for each byte that it reads."""
COPIES = 8  # the copies in a step of the first pod; the second makes twice as many
INTEL = pytest.mark.guest(rmids=12, count=1, cpus=1, pmu=1)  # pmu: to share a boot with test_guard.py
AMD = pytest.mark.guest(count=1, cpus=1, amd=1, counters=8)
AET = pytest.mark.guest(cpus=4, aet=1)


class Pod:
    """A pod as its runtime's state folder describes it, of one process."""

    def __init__(self, number: int, node: Installed, copies: int) -> None:
        self.key = pod_number(number)
        words = [sys.executable, "-I", "-S", "-c", LOAD, str(copies)]
        self.process = subprocess.Popen(words, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        node.appear(Container(f"{number:064x}", self.key, pid=self.process.pid))

    def step(self) -> None:
        """Have it work once, to its answer."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(b".")
        self.process.stdout.read(1)

    def work(self) -> None:
        """Have it work once, until it sleeps: with one processor it still runs after its answer."""
        self.step()
        stat = Path(f"/proc/{self.process.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "S", "the pod is at rest")

    def end(self) -> None:
        with self.process:
            self.process.kill()


@pytest.fixture
def resctrl() -> Iterator[Resctrl]:
    """Return a resctrl that shows RMIDs, without counters in the root group."""
    with mounted_with("debug"):
        mounted = Resctrl(ROOT)
        mounted.settle()
        release_counters(mounted.root)
        yield mounted


@pytest.fixture
def pods(installed: Installed, resctrl: Resctrl) -> Iterator[list[Pod]]:
    """Return the pods, at rest. The tests' own process is in a class, so that the ledger separates it from them."""
    made = [Pod(number, installed, (number + 1) * COPIES) for number in range(PODS)]
    for pod in made:
        pod.step()  # its interpreter has started
    release_counters(resctrl.path(resctrl.make("tests")))
    for task in os.listdir("/proc/self/task"):
        resctrl.join(int(task), "tests")
    yield made
    for pod in made:
        pod.end()


def release_counters(folder: str) -> None:
    """Release a group's assignable counters, if the processor has such."""
    assignments = Path(folder, "mbm_L3_assignments")
    for event in (BYTES, LOCAL) if assignments.exists() else ():
        assignments.write_text(f"{event}:*=_\n")


@pytest.mark.parametrize(
    "counted, elsewhere",
    [pytest.param(3, {""}, marks=INTEL, id="RMIDs"), pytest.param(8, set(), marks=AMD, id="counters")],
)
def test_rates_of_turns_match_continuous_counting(
    resctrl: Resctrl,
    installed: Installed,
    pods: list[Pod],
    boot: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    counted: int,
    elsewhere: set[str],
) -> None:
    """The clock moves only between the pods' steps: a busy machine changes no rate."""
    if elsewhere:  # another program has the other RMIDs, except those of the root group and of the tests
        resctrl.make(*(f"mon_groups/other{number}" for number in range(resctrl.rmids - 2 - counted)))
    monitoring = {"share": {"interval": INTERVAL, "atLeast": 0.0}, "events": [BYTES]}
    installed.configure(runtimeRoots={"crun": str(installed.crun)}, monitoring=monitoring)
    context, ledger, now = installed.context(), Truth(int(boot["rmids"]), domains=1), 0.0
    begun = {clock: time.clock_gettime(clock) for clock in (time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME)}
    monkeypatch.setattr(time, "clock_gettime", lambda clock: begun[clock] + now)
    monkeypatch.setattr(time, "monotonic", lambda: begun[time.CLOCK_MONOTONIC] + now)
    for _ in range(400):  # the clock stands still, so that no pod is counted longer than it works
        reconcile(context, Options())
        if len(context.ledger.marked("rmids")) >= counted:
            break
        time.sleep(0.1)  # an RMID of another test is still in limbo
    moved, rates = dict.fromkeys((pod.key for pod in pods), 0), dict[str, float]()
    for _ in range(TURNS * PODS // counted):
        now += INTERVAL
        for pod in pods:
            rmid = rmid_of(resctrl.folder(group=place_of(pod.process.pid).group))
            before = ledger.of(rmid)[0]
            pod.step()
            moved[pod.key] += ledger.of(rmid)[0] - before
        for key, readings in context.monitor.read_all().items():
            totals = [reading for reading in readings if reading.counter.name == BYTES]
            # A pod without a counter at the moment reports that; its count is then the last value.
            seconds = max((reading.seconds or 0.0 for reading in totals), default=0.0)
            if seconds and all(reading.value is not None for reading in totals):
                rates[key] = sum(reading.value or 0 for reading in totals) / seconds
        report = reconcile(context, Options())
        assert report.ok, report.as_text()
    off = {key: rates[key] / (moved[key] / now) - 1 for key in moved}
    print(off)
    assert max(map(abs, off.values())) < TOLERANCE
    assert all(place_of(pod.process.pid).group in {*elsewhere, pod.key} for pod in pods)


STEPS, MOST_PODS, MORE_COPIES = 60, 3, 40
CLASSES, PREFIXES = ["", "gold"], ["", "rh-"]
ACCESS = 64  # the ledger's bytes of one access, which is a microjoule
EVENTS = [
    *["work"] * 6,
    *["read"] * 5,
    *["reconcile"] * 4,
    *["start", "end", "change class", "rename", "go away", "remove", "change prefix", "mount again", "restart"],
]


class Count:
    """The least and the most that a pod's total can be."""

    def __init__(self) -> None:
        self.least = self.most = 0
        self.unread = 0  # of these, what was counted since the last read
        self.parts = 0  # the number of groups so far
        self.is_known = False  # whether a read has seen its group
        self.is_lost = False  # whether a known group ended since the last read

    def add(self, amount: int) -> None:
        self.least += amount
        self.most += amount
        self.unread += amount

    def lose(self) -> None:
        self.least -= self.unread
        self.unread, self.parts = 0, self.parts + 1
        self.is_lost, self.is_known = self.is_lost or self.is_known, False


class Scene:
    """Up to three pods, and events at random."""

    def __init__(self, resctrl: Resctrl, installed: Installed, counter: str, rmids: int) -> None:
        self._resctrl, self._installed, self._counter = resctrl, installed, counter
        self._truth = Truth(rmids, domains=2 if counter == ENERGY else 1)
        self._pods: dict[int, Pod] = {}
        self._counts: dict[str, Count] = {}
        self._number = self.compared = 0
        self.configure("")
        self.restart()

    def configure(self, prefix: str) -> None:
        roots = {"crun": str(self._installed.crun)}
        self._installed.configure(runtimeRoots=roots, groupPrefix=prefix, monitoring={"events": [BYTES]})

    def run(self, name: str, chance: random.Random) -> None:
        """Let an event happen to a pod, if it can."""
        number, rdt_class, prefix = chance.choice(sorted(self._pods)), chance.choice(CLASSES), chance.choice(PREFIXES)
        pod, is_new = self._pods[number], chance.choice([True, False])
        place = place_of(pod.process.pid)
        folder, other = (self._resctrl.folder(of, place.group) for of in (place.rdt_class, rdt_class))
        actions: dict[str, tuple[object, Callable[[], object]]] = {
            "work": (True, self.work_all),
            "read": (True, lambda: self.read(self._installed.context() if is_new else self.context)),
            "reconcile": (True, self.reconcile),
            "start": (len(self._pods) < MOST_PODS, lambda: self.start(rdt_class)),
            "end": (len(self._pods) > 1, lambda: self.end(number)),
            "change prefix": (True, lambda: self.configure(prefix)),
            "mount again": (True, self.mount_again),
            "restart": (True, self.restart),
            "change class": (True, lambda: self._resctrl.join(pod.process.pid, rdt_class)),
            "rename": (place.group and not os.path.exists(other), lambda: os.rename(folder, other)),
            "go away": (place.group, lambda: self.go_away(pod, folder)),
            "remove": (place.group, lambda: self.remove(pod, folder)),
        }
        can_happen, act = actions[name]
        if can_happen:
            act()

    def restart(self) -> None:
        self.context = self._installed.context()

    def remove(self, pod: Pod, folder: str) -> None:
        os.rmdir(folder)
        self._counts[pod.key].lose()

    def start(self, rdt_class: str) -> None:
        self._number += 1
        pod = Pod(self._number, self._installed, MORE_COPIES)
        pod.work()  # it is at rest from now on
        os.sched_setaffinity(pod.process.pid, {0})
        self._resctrl.join(pod.process.pid, rdt_class)
        self._pods[self._number] = pod
        self._counts[pod.key] = Count()

    def end(self, number: int) -> None:
        self._pods.pop(number).end()
        shutil.rmtree(self._installed.crun / f"{number:064x}")

    def work_all(self) -> None:
        for one in self._pods.values():
            self.work(one)

    def work(self, pod: Pod) -> None:
        """Let a pod work; what it does outside of its group is in no total."""
        place = place_of(pod.process.pid)
        if not place.group:
            pod.work()
            return
        rmid = rmid_of(self._resctrl.folder(place.rdt_class, place.group))
        before = sum(self._truth.ever(rmid))
        pod.work()
        self._counts[pod.key].add(sum(self._truth.ever(rmid)) - before)

    def go_away(self, pod: Pod, folder: str) -> None:
        """Let another program give a group another name for a while, in which a reader does not find it."""
        away = f"{os.path.dirname(folder)}/elsewhere"
        os.rename(folder, away)
        self.context.monitor.read_all()
        self.work(pod)
        os.rename(away, folder)

    def mount_again(self) -> None:
        subprocess.run(["umount", ROOT], check=True)
        subprocess.run(["mount", "-t", "resctrl", "-o", "debug", "resctrl", ROOT], check=True)
        self._resctrl.make("gold")
        for count in self._counts.values():
            count.lose()

    def reconcile(self) -> None:
        for count in self._counts.values():
            count.parts += 1
        (self._installed.state / "vanished").unlink(missing_ok=True)  # the next removal is the first
        context = self._installed.context()
        reconcile(context, Options())
        account, mounted = gather(context).account, context.monitor.resctrl
        assert account is not None
        assert sum(account.rmids.values()) == total_rmids(mounted), account.as_line()
        assert sum(account.closids.values()) == total_closids(mounted), account.as_line()

    def said(self, context: Context, key: str) -> int:
        readings = context.monitor.read_all().get(key, [])
        total = sum(one.value or 0 for one in readings if one.counter.name == self._counter)
        return round(total * 1e6) * ACCESS if self._counter == ENERGY else int(total)

    def read(self, context: Context) -> None:
        for pod in self._pods.values():
            count, said = self._counts[pod.key], self.said(context, pod.key)
            # The device counts in steps of 2^-18 J.
            near = 4 * ACCESS * (count.parts + 2) if self._counter == ENERGY else 0
            assert count.least - near <= said <= count.most + near, (pod.key, vars(count))
            if said + near < count.most and count.is_lost:
                assert ended(context.monitor, pod.key), "the end of a group is reported"
            self.compared += said > 0
            if not near:
                count.least = count.most = said
            count.unread, count.is_lost = 0, False
            count.is_known = bool(place_of(pod.process.pid).group)

    def end_all(self) -> None:
        """End all pods; nothing of this project is left then."""
        for number in list(self._pods):
            self.end(number)
        self.reconcile()
        self.reconcile()
        assert self._installed.records() == []


@pytest.mark.parametrize("seed", [2, 3, 4])
@pytest.mark.parametrize(
    "counter",
    [
        pytest.param(BYTES, marks=INTEL, id="Intel"),
        pytest.param(BYTES, marks=AMD, id="AMD"),
        pytest.param(ENERGY, marks=AET, id="energy"),
    ],
)
def test_totals_equal_the_processors_counts_after_any_order_of_events(
    resctrl: Resctrl, installed: Installed, boot: dict[str, Any], counter: str, seed: int
) -> None:
    resctrl.make("gold")
    scene, chance, done = Scene(resctrl, installed, counter, int(boot["rmids"])), random.Random(seed), list[str]()
    try:
        scene.start("")
        scene.reconcile()
        for _ in range(STEPS):
            done.append(chance.choice(EVENTS))
            scene.run(done[-1], chance)
        scene.reconcile()
        scene.read(scene.context)
        assert scene.compared > 5
    except AssertionError:
        print(", ".join(done))
        raise
    finally:
        scene.end_all()
