"""Experiments with values of cgroups: what an operator permits, what they prove, and that every value comes back."""

import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import Host

from observe.slowdown.world import KEY, World
from resctrl_hooks.observe.node.slowdown.causes.remedy import CPU_MAX, CPU_WEIGHT, IO_MAX, IO_WEIGHT, L3, Facts, Remedy
from resctrl_hooks.observe.node.temporary.address import CGROUP, Address
from resctrl_hooks.observe.node.temporary.store import Store
from resctrl_hooks.observe.slowdown.experiment.proof import Experiment, Proof
from resctrl_hooks.observe.slowdown.experiment.value_trial import Plan, plans

UNLIMITED = "8:0 rbps=max wbps=max riops=max wiops=max"
VALUES = {"cpu.weight": "100", "cpu.max": "max 100000", "io.weight": "default 100", "io.max": UNLIMITED}
WEIGHT, MAX, IO, RATE = (Plan(sets, "ci/job", ()) for sets in (CPU_WEIGHT, CPU_MAX, IO_WEIGHT, IO_MAX))


class Shared(World):
    """The victim also shares a CPU with a neighbour of the same weight, which wants all of it; its disk is free."""

    pressure = "cpu.pressure"

    def __init__(self, host: Host, noise: float = 0.0, chance: Random | None = None) -> None:
        self.folder = Path(host.root, "cgroup/kubepods.slice/job")
        self.folder.mkdir(parents=True)
        for name, value in VALUES.items():
            (self.folder / name).write_text(f"{value}\n")
        (self.folder / "cpu.stat").write_text("usage_usec 0\n")
        self.ran = self.stood = self.stood_memory = 0.0
        super().__init__(host, noise, chance)
        own = Path(self.context.proc, str(os.getpid()))  # the watchdog looks whether the experiment lives
        if not own.exists():
            own.symlink_to(f"/proc/{os.getpid()}")

    def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        super().sleep(seconds)
        part = self.share()
        self.ran += seconds * part
        self.stood += seconds * (1 - part)
        self.stat.write_text(f"usage_usec {self.ran * 1e6:.0f}\n")
        Path(self.cgroup, self.pressure).write_text(
            "".join(f"{name} avg10=0 avg60=0 avg300=0 total={self.stood * 1e6:.0f}\n" for name in ("some", "full"))
        )
        with (self.folder / "cpu.stat").open("r+") as file:
            used = int(file.read().split()[1]) + int(seconds * (1 - part) * 1e6)
            file.seek(0)
            file.write(f"usage_usec {used}\n")

    def share(self) -> float:
        """Return the victim's part of its CPU."""
        weight = int((self.folder / "cpu.weight").read_text())
        quota = (self.folder / "cpu.max").read_text().split()[0]
        return 100 / (100 + weight) if quota == "max" else 1 - int(quota) / 100_000

    def proofs(self, *planned: Plan, seed: int = 1, key: str = KEY, classes: bool = False) -> list[Proof]:
        """Return what an experiment shows of limits of the neighbour, and of classes."""
        tried = [plan._replace(places=(str(self.folder),)) for plan in planned]
        own = ["gold"] if classes else ["gold", "bronze", "silver"]
        with Experiment(self.context, key, [self.cgroup], own, self.sleep, tried) as experiment:
            return list(experiment.run(Random(seed)))

    def is_restored(self) -> bool:
        """Return whether the neighbour's values are those of the beginning."""
        return {name: (self.folder / name).read_text().strip() for name in VALUES} == VALUES


def test_limits_that_help_are_proved_and_others_are_not(host: Host) -> None:
    world = Shared(host)
    weight, most, io = world.proofs(WEIGHT, MAX, IO)
    assert world.is_restored()
    (alone,) = world.proofs(WEIGHT, key="5a0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01", classes=True)  # by its waits
    for proof, effect in ((weight, 0.55), (most, 0.5 / 0.75), (alone, 0.55)):
        assert proof.effect is not None
        assert proof.effect.effect == pytest.approx(effect - 1, abs=0.01)
    assert (weight.values, weight.limited, weight.sets) == ("100", "10", CPU_WEIGHT)
    assert (io.effect, io.reason) == (None, "the pod did too little work in most windows")


def test_value_that_a_limit_has_is_not_tried_and_the_others_are(host: Host) -> None:
    world = Shared(host)
    store = Store(world.context)
    store.begin("limit-1", "limit", "", KEY, 3600)
    store.change("limit-1", {Address(CGROUP, str(world.folder), "cpu.weight"): "50"})
    weight, most = world.proofs(WEIGHT, MAX)
    assert weight.effect is None
    assert weight.reason.startswith("limit has changed cpu.weight of")
    assert most.effect is not None


class Reader(Shared):
    """The victim waits for a disk for nine tenths of the time, or for six if the neighbour is limited there."""

    pressure = "io.pressure"

    def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        super().sleep(seconds)
        for folder, done in ((self.folder, self.seconds * 90), (Path(self.cgroup), self.ran * 1000)):
            (folder / "io.stat").write_text(f"8:0 rbytes=0 wbytes=0 rios={done:.0f} wios=0\n")

    def share(self) -> float:
        """Return the part of the time that the victim runs."""
        most, weight = ((self.folder / name).read_text() for name in ("io.max", "io.weight"))
        return 0.4 if "riops=9 " in most or weight.split() == ["default", "10"] else 0.1


@pytest.mark.parametrize("plan, limited", [(IO, "10"), (RATE, "rbps=max wbps=max riops=9 wiops=9")])
def test_limit_on_a_shared_disk_is_proved_by_the_time_of_operations(host: Host, plan: Plan, limited: str) -> None:
    world = Reader(host)
    (proof,) = world.proofs(plan)
    assert proof.effect is not None
    assert proof.effect.effect == pytest.approx(2.5 / 10 - 1, abs=0.01)
    assert proof.limited == limited
    assert world.is_restored()


@pytest.mark.parametrize("moment", range(1, 14, 2))
def test_values_come_back_after_an_error_at_any_moment(host: Host, moment: int) -> None:
    world, left = Shared(host), [moment]

    def hook() -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    world.hook = hook
    with pytest.raises(KeyboardInterrupt):
        world.proofs(WEIGHT)
    assert world.is_restored()


PERMITTED: list[Any] = [
    (["ci/*"], [], CPU_WEIGHT, ["job"], True), (["ci/*"], [], CPU_WEIGHT, ["job", "shop"], False),
    ([], [], CPU_WEIGHT, ["job"], False), (["*"], ["bronze"], IO_WEIGHT, ["job"], False),
    (["*"], [], L3, ["job"], True), (["*"], [], "", ["job"], None),
]  # fmt: skip


@pytest.mark.parametrize("allowed, protected, sets, pods, tried", PERMITTED)
def test_only_permitted_pods_are_limited(
    host: Host, allowed: list[str], protected: list[str], sets: str, pods: Sequence[str], tried: bool | None
) -> None:
    host.configure(slowdown={"experiment": allowed}, rdt={"guard": {"protect": protected}})
    facts = Facts(KEY, {"job": "ci/job", "shop": "shop/web"}, {"job": "bronze"})
    remedy: Any = Remedy("", sets, ("bronze",) if sets == L3 else (), tuple(pods))
    chosen, refused = plans(host.context(), [remedy], facts, lambda key: [f"/{key}"])
    assert [bool(chosen), bool(refused)] == ([False, False] if tried is None else [tried, not tried])
    if tried:
        assert chosen[0].places == (("bronze",) if sets == L3 else ("/job",))
