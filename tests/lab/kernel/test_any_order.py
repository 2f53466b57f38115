"""Events in a random order on the real kernel: each pod's total is the processor's own count, to the byte.

It is the short form of `tests/accounting`. Pods work in steps, and nothing works in between.
"""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.counted.truth import ROOT, Truth, mounted_with, rmid_of
from kernel.groups import Resctrl, place_of
from kernel.installed import Installed
from kernel.test_turns import LOAD, Pod, work
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.core.node.resctrl.counter_totals import ended

STEPS = 60
SEEDS = [2, 3, 4]
CLASSES = ["", "gold"]
PREFIXES = ["", "rh-"]
MOST_PODS = 3
COPIES = 40
ACCESS = 64
"""The ledger's bytes of one access, which is a microjoule."""
EVENTS = [
    *["work"] * 6,
    *["read"] * 5,
    *["reconcile"] * 4,
    *["start", "end", "change class", "rename", "go away", "remove", "change prefix", "mount again", "restart"],
]
BYTES, ENERGY = "mbm_total_bytes", "core_energy"


class Count:
    """What is known of a pod's total.

    Attributes:
        least: its total at least.
        most: its total at most.
        unread: of this, what was counted since the last read.
        is_known: whether a read has seen its group.
        is_lost: whether a known group ended since the last read.
        parts: the number of groups so far.
    """

    def __init__(self) -> None:
        self.least = self.most = self.unread = self.parts = 0
        self.is_known = self.is_lost = False

    def add(self, amount: int) -> None:
        self.least += amount
        self.most += amount
        self.unread += amount

    def lose(self) -> None:
        """The pod's groups end unseen."""
        self.least -= self.unread
        self.unread = 0
        self.is_lost = self.is_lost or self.is_known
        self.is_known = False
        self.parts += 1


class Scene:
    """The node, its pods, and their true counts."""

    def __init__(self, resctrl: Resctrl, installed: Installed, folder: Path, counter: str, rmids: int) -> None:
        self._resctrl, self._installed, self._folder, self._counter = resctrl, installed, folder, counter
        self._truth = Truth(rmids, domains=2 if counter == ENERGY else 1)
        self._pods: dict[int, Pod] = {}
        self._counts: dict[str, Count] = {}
        self._number = 0
        self._prefix = ""
        self.compared = 0
        self.configure()
        self.context = installed.context()

    def configure(self) -> None:
        self._installed.configure(
            runtimeRoots={"crun": f"{self._folder}/crun"}, groupPrefix=self._prefix, monitoring={"events": [BYTES]}
        )

    def run(self, name: str, chance: random.Random) -> None:
        """Let something happen."""
        number = chance.choice(sorted(self._pods)) if self._pods else 0
        pod = self._pods.get(number)
        rdt_class = chance.choice(CLASSES)
        if name == "reconcile":
            self.reconcile()
        elif name == "read":
            self.read(chance.choice([self.context, self._installed.context()]))
        elif name == "start" and len(self._pods) < MOST_PODS:
            self.start(rdt_class)
        elif name == "change prefix":
            self._prefix = chance.choice(PREFIXES)
            self.configure()
        elif name == "mount again":
            self.mount_again()
        elif name == "restart":
            self.context = self._installed.context()
        elif pod is not None:
            self.run_pod(name, number, pod, rdt_class)

    def run_pod(self, name: str, number: int, pod: Pod, rdt_class: str) -> None:
        place = place_of(pod.process.pid)
        if name == "work":
            for one in self._pods.values():
                self.work(one)
        elif name == "end" and len(self._pods) > 1:
            self.end(number)
        elif name == "change class":
            self._resctrl.join(pod.process.pid, rdt_class)
        elif name == "rename" and place.group and not os.path.exists(self._resctrl.path(rdt_class, place.group)):
            os.rename(self._resctrl.path(place.rdt_class, place.group), self._resctrl.path(rdt_class, place.group))
        elif name == "go away" and place.group:
            self.go_away(pod, self._resctrl.path(place.rdt_class, place.group))
        elif name == "remove" and place.group:
            os.rmdir(self._resctrl.path(place.rdt_class, place.group))
            self._counts[pod.key].lose()

    def start(self, rdt_class: str) -> None:
        self._number += 1
        pod = Pod(self._number, self._folder, [sys.executable, "-I", "-S", "-c", LOAD, str(COPIES)])
        work(pod)  # it is at rest from now on
        os.sched_setaffinity(pod.process.pid, {0})
        self._resctrl.join(pod.process.pid, rdt_class)
        self._pods[self._number] = pod
        self._counts[pod.key] = Count()

    def end(self, number: int) -> None:
        self._pods.pop(number).end()
        shutil.rmtree(self._folder / f"crun/{number:064x}")

    def work(self, pod: Pod) -> None:
        """Let a pod work; what it does outside of its group is in no total."""
        place = place_of(pod.process.pid)
        if not place.group:
            work(pod)
            return
        rmid = rmid_of(self._resctrl.path(place.rdt_class, place.group))
        before = sum(self._truth.ever(rmid))
        work(pod)
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
        (Path(self._installed.state) / "vanished").unlink(missing_ok=True)  # the next removal is the first
        reconcile(self._installed.context(), Options())

    def said(self, context: Context, key: str) -> int:
        readings = context.monitor.read_all().get(key, [])
        total = sum(one.value or 0 for one in readings if one.counter.name == self._counter)
        return round(total * 1e6) * ACCESS if self._counter == ENERGY else int(total)

    def read(self, context: Context) -> None:
        """Compare all totals with the truth."""
        for pod in self._pods.values():
            count = self._counts[pod.key]
            said = self.said(context, pod.key)
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


@pytest.fixture
def resctrl() -> Iterator[Resctrl]:
    """Return a resctrl that shows RMIDs."""
    with mounted_with("debug"):
        mounted = Resctrl(ROOT)
        mounted.settle()
        yield mounted


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "counter",
    [
        pytest.param(BYTES, marks=pytest.mark.guest(rmids=12, count=1, cpus=1), id="Intel"),
        pytest.param(
            BYTES,
            marks=pytest.mark.guest(rmids=12, count=1, cpus=1, amd=1, counters=8),
            id="AMD",
        ),
        pytest.param(ENERGY, marks=pytest.mark.guest(cpus=4, aet=1), id="energy"),
    ],
)
def test_totals_equal_the_processors_counts_after_any_order_of_events(
    resctrl: Resctrl, installed: Installed, tmp_path: Path, boot: dict[str, Any], counter: str, seed: int
) -> None:
    resctrl.make("gold")
    scene = Scene(resctrl, installed, tmp_path, counter, int(boot["rmids"]))
    chance = random.Random(seed)
    done: list[str] = []
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
