"""Values that are changed for a time on a real kernel: they are in effect, come back, and an experiment proves one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from kernel.groups import Resctrl
from kernel.runtimes import CGROUPS
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.observe.node.slowdown.causes.remedy import CPU_WEIGHT, L3
from resctrl_hooks.observe.node.temporary.address import CGROUP, CLASS, Address, read
from resctrl_hooks.observe.node.temporary.file import FILE
from resctrl_hooks.observe.node.temporary.store import Store
from resctrl_hooks.observe.slowdown.experiment.proof import Experiment
from resctrl_hooks.observe.slowdown.experiment.value_trial import Plan, ValueTrial

KEY = "5a0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
BURN = [sys.executable, "-c", "while True: pass"]


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
    processes = [subprocess.Popen(BURN) for _ in pods]
    for folder, process in zip(pods.values(), processes, strict=True):
        os.sched_setaffinity(process.pid, {0})
        (folder / "cgroup.procs").write_text(str(process.pid))
    yield
    for process in processes:
        process.send_signal(signal.SIGKILL)
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
    before = {address: read(mounted, address) for address in there}
    store = Store(context)
    for name in ("ended", "killed"):
        child = subprocess.Popen(["sleep", "1000"]) if name == "killed" else None
        store.begin(name, "a test", "", KEY, 1000.0, child.pid if child else 0)
        store.change(name, there)
        for address, value in there.items():
            found = read(mounted, address)
            assert found is not None
            assert found.lstrip("0") == value
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
        now = read(context.monitor.resctrl, address)
        assert now is not None
        assert 0 < int(now, 16) < int(mask, 16)
        assert int(now, 16) & ~int(mask, 16) == 0
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
