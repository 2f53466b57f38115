"""Values that are changed for a time on a real kernel: they are in effect, come back, and an experiment proves one."""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from unittest.mock import MagicMock

import pytest
from hosts.killed_hook import Signal, interrupted

from kernel.groups import Resctrl
from kernel.installed import Installed
from kernel.runtimes import CGROUPS, wait_until
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.observe.node.guard.lease import NAME
from resctrl_hooks.observe.node.slowdown.causes.remedy import BFQ_WEIGHT, CPU_MAX, CPU_WEIGHT, IO_MAX, L3, MB
from resctrl_hooks.observe.node.temporary.address import CGROUP, CLASS, Address, read
from resctrl_hooks.observe.node.temporary.entry import GRACE
from resctrl_hooks.observe.node.temporary.file import FILE
from resctrl_hooks.observe.node.temporary.store import Store
from resctrl_hooks.observe.slowdown.experiment import class_trial, proof, value_trial
from resctrl_hooks.observe.slowdown.experiment.proof import Experiment
from resctrl_hooks.observe.slowdown.experiment.signals import ended_like_ctrl_c
from resctrl_hooks.observe.slowdown.experiment.value_trial import Plan, ValueTrial

HOUSES = ("observe",)
KEY = "5a0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"


@pytest.fixture
def pods() -> Iterator[dict[str, Path]]:
    """Return the cgroups of a victim and of a neighbour, below one that has the controllers."""
    top = CGROUPS / "temporary"
    (CGROUPS / "cgroup.subtree_control").write_text("+cpu +io")
    top.mkdir()
    (top / "cgroup.subtree_control").write_text("+cpu +io")
    made = {name: top / name for name in ("victim", "noisy")}
    for folder in made.values():
        folder.mkdir()
    yield made
    for folder in (*made.values(), top):
        folder.rmdir()


@pytest.fixture
def burning(pods: dict[str, Path]) -> Iterator[None]:
    """Let a process of each pod want the same CPU all the time."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in pods]
    for folder, process in zip(pods.values(), processes, strict=True):
        os.sched_setaffinity(process.pid, {0})
        (folder / "cgroup.procs").write_text(str(process.pid))
    yield
    for process in processes:
        process.kill()
        process.wait()


def test_values_are_in_effect_and_come_back_by_end_and_by_reconcile(
    context: Context, pods: dict[str, Path], resctrl: Resctrl
) -> None:
    folder, mounted = str(pods["noisy"]), context.monitor.resctrl
    resctrl.make("batch")
    disk = next(one for one in Path("/sys/block").glob("vd*/dev")).read_text().strip()
    wanted = {
        Address(CGROUP, folder, "cpu.weight"): "10",
        Address(CGROUP, folder, "cpu.max"): "50000 100000",
        Address(CGROUP, folder, "io.weight", "default"): "10",
        Address(CGROUP, folder, "io.max", disk): "rbps=max wbps=max riops=9 wiops=9",
        Address(CLASS, "batch", "L3", "0"): "3",
        Address(CLASS, "batch", "MB", "0"): "50",
    }
    there = {address: value for address, value in wanted.items() if read(mounted, address) is not None}
    assert {one.name for one in wanted} - {one.name for one in there} <= {"io.weight"}, "a kernel without its policy"
    before, store = {address: read(mounted, address) for address in there}, Store(context)
    for name in ("ended", "killed"):
        child = subprocess.Popen(["sleep", "1000"]) if name == "killed" else None
        store.begin(name, "a test", "", KEY, 1000.0, child.pid if child else 0)
        store.change(name, there)
        assert {one: (read(mounted, one) or "").lstrip("0") for one in there} == there
        if child:
            child.kill()
            child.wait()
            assert reconcile(context).number("repaired") >= 1
        else:
            assert store.end(name).failed == []
        assert {address: read(mounted, address) for address in there} == before
        assert not Path(context.settings.state_dir, FILE).exists()


def test_fewer_ways_of_a_class_are_a_part_of_its_own(context: Context, resctrl: Resctrl) -> None:
    resctrl.make("batch")
    trial = ValueTrial(context, Plan(L3, "batch", ("batch",)), KEY, {})
    trial.set(limited=True)
    for address, mask in trial.values.items():
        now = int(read(context.monitor.resctrl, address) or "0", 16)
        assert 0 < now < int(mask, 16)
        assert now & ~int(mask, 16) == 0
    assert trial.end() == []
    assert {one: read(context.monitor.resctrl, one) for one in trial.values} == trial.values


@pytest.mark.usefixtures("burning")
def test_experiment_proves_the_weight_of_a_neighbour(context: Context, pods: dict[str, Path]) -> None:
    plan = Plan(CPU_WEIGHT, "ci/noisy", (str(pods["noisy"]),))
    with Experiment(context, KEY, [str(pods["victim"])], [], planned=[plan]) as experiment:
        (proof,) = experiment.run(Random(1))
    assert proof.effect is not None, proof.reason
    assert proof.effect.helps
    # By weight the victim waits for half of the time, or an eleventh; the experiment itself uses the CPU, too.
    assert (proof.effect.off, proof.effect.on) == pytest.approx((2.0, 1.1), rel=0.15)
    assert (pods["noisy"] / "cpu.weight").read_text().strip() == "100"


SETS = {CPU_WEIGHT: "cpu.weight", CPU_MAX: "cpu.max", BFQ_WEIGHT: "io.bfq.weight", IO_MAX: "io.max", MB: ""}
LEASE, WINDOW = 3.0, 0.05
LATE = 10.0
"""Seconds after a deadline: the watchdog looks each second, waits for a lock, and emulation is slow."""
AROUND = (-12, 18)
"""Effects before and after a moment with changed values: as many as change them, or restore them."""
UNWATCHED = 0
"""Instead of a signal: SIGKILL to an experiment whose watchdog was killed, too."""
ENDS = (signal.SIGKILL, UNWATCHED, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP)


@pytest.fixture
def reading(pods: dict[str, Path]) -> Iterator[None]:
    """Let the neighbour read a disk with the scheduler bfq, which has weights."""
    disk = next(Path("/sys/block").glob("vd*"))
    scheduler = disk / "queue/scheduler"
    former = scheduler.read_text().partition("[")[2].partition("]")[0]
    subprocess.run(["modprobe", "bfq"], check=True)
    scheduler.write_text("bfq")
    read_all = f"while :; do dd if=/dev/{disk.name} of=/dev/null bs=4k iflag=direct 2>/dev/null; done"
    reader = subprocess.Popen(["/bin/sh", "-c", f"echo 0 > $0/cgroup.procs; {read_all}", pods["noisy"]])
    yield
    (pods["noisy"] / "cgroup.kill").write_text("1")
    reader.wait()
    scheduler.write_text(former)


class Tried:
    """An experiment with one kind of limit of the neighbour, or of its class, with short windows."""

    def __init__(self, context: Context, pods: dict[str, Path], resctrl: Resctrl, sets: str) -> None:
        self._context, self._pods, self._resctrl, self._sets = context, pods, resctrl, sets
        self._before = self._values()

    def run(self, effect: Signal) -> list[int]:
        """Run it; return the numbers of effects so far in each limited window, which is an effect, too."""
        limited = []

        def sleep(seconds: float) -> None:
            effect.see("write", ())
            if not self.is_restored:
                limited.append(effect.count)
            time.sleep(min(seconds, WINDOW))

        planned = [] if self._sets == MB else [Plan(self._sets, "ci/noisy", (str(self._pods["noisy"]),))]
        own, victim = ["batch"] if planned else [], [str(self._pods["victim"])]
        with interrupted(effect), ended_like_ctrl_c():
            with Experiment(self._context, KEY, victim, own, sleep, planned) as experiment:
                (found,) = experiment.run(Random(1))
            assert found.limited, found.reason
        return limited

    def started(self, at: int, end: int) -> int:
        """Run it in a process that is sent a signal at an effect; return its id."""
        process = os.fork()
        if not process:
            try:
                if end == UNWATCHED:
                    proof.Watchdog = MagicMock()  # type: ignore[attr-defined]
                self.run(Signal(at, end or signal.SIGKILL))
            finally:
                os._exit(0)
        return process

    def _values(self) -> list[str]:
        files = [self._pods["noisy"] / name for name in SETS.values() if name]
        return [*(file.read_text() for file in files), self._resctrl.read("batch", "schemata")]

    @property
    def is_restored(self) -> bool:
        return self._values() == self._before

    @property
    def has_records(self) -> bool:
        return any(Path(self._context.settings.state_dir, name).exists() for name in (FILE, NAME))


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize("number", [5, pytest.param(100, marks=pytest.mark.nightly)])
def test_values_come_back_in_time_after_each_kill_and_stop_of_an_experiment(
    installed: Installed, pods: dict[str, Path], resctrl: Resctrl, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    for module in (class_trial, value_trial):
        monkeypatch.setattr(module, "LEASE", LEASE)
    resctrl.make("batch")
    installed.configure(rdt={"guard": {"throttle": {"batch": {"floor": 20}}}})
    context = installed.context()
    context.ledger.prepare()
    with context.monitor.hold(KEY) as locked:
        locked.record.update({"namespace": "ci", "pod": "victim", "cgroup": str(pods["victim"])})
        locked.ensure_group("")
    chance, limited, met = Random(2), {sets: list[int]() for sets in SETS}, 0
    slowest = dict.fromkeys(ENDS, 0.0)
    for sets, end in chance.sample([*itertools.product(SETS, ENDS)] * 4, k=number):
        tried = Tried(context, pods, resctrl, sets)
        limited[sets] = limited[sets] or tried.run(Signal())
        process = tried.started(chance.choice(limited[sets]) + chance.randrange(*AROUND), end)
        os.waitid(os.P_PID, process, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        begun, changed = time.monotonic(), not tried.is_restored
        met += changed
        if end in (signal.SIGTERM, signal.SIGINT):
            assert not changed, "it restores the values before it ends"
        elif end == UNWATCHED:
            reconcile(context)
        wait_until(lambda: tried.is_restored, "the values are restored")  # noqa: B023  # at once
        slowest[end] = max(slowest[end], time.monotonic() - begun)
        os.kill(process, signal.SIGCONT)
        time.sleep(chance.uniform(0, WINDOW))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        wait_until(lambda: tried.is_restored and not tried.has_records, "no record is left")  # noqa: B023  # at once
    print(f"{number} signals, {met} left changed values; the longest seconds until restored: {slowest}")
    assert max(slowest.values()) < LEASE + GRACE + LATE
