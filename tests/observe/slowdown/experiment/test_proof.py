"""The experiment: its order, effect and interval, its result, its refusals, and what it leaves behind."""

import json
import math
import os
import posix
import random
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import Result
from conftest import Host, temporary_host
from hosts.monitored import run
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import validate

from observe.slowdown.world import DECLARED, KEY, World
from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.node.host.instance import only_instance
from resctrl_hooks.observe.cli import diagnose
from resctrl_hooks.observe.node.guard import lease
from resctrl_hooks.observe.node.guard.lease import LOCK, NAME
from resctrl_hooks.observe.node.guard.recovery import restore_ended
from resctrl_hooks.observe.slowdown.evidence import EvidenceError
from resctrl_hooks.observe.slowdown.experiment import class_trial as trial
from resctrl_hooks.observe.slowdown.experiment import schedule as plan
from resctrl_hooks.observe.slowdown.experiment.class_trial import TrialError
from resctrl_hooks.observe.slowdown.experiment.proof import Experiment
from resctrl_hooks.observe.slowdown.session import Session


def tried(cost_of: Callable[[bool], float | None], seed: int = 1) -> plan.Effect | None:
    return plan.effect_by_windows(cost_of, random.Random(seed).shuffle, plan.SECONDS)


def test_effect_is_the_ratio_of_the_costs_in_windows_of_random_order() -> None:
    orders = {tuple(plan.order(4, random.Random(seed).shuffle)) for seed in range(20)}
    assert len(orders) > 10
    assert all(sum(one) == 4 == len(one) - sum(one) for one in orders)
    found = tried(lambda limited: 1.04 if limited else 1.61)
    assert found is not None
    assert [found.off, found.on, found.effect] == pytest.approx([1.61, 1.04, 1.04 / 1.61 - 1])
    assert found.windows == 2 * plan.BLOCKS[0], "its interval is narrow at once"
    assert found.effect - 0.008 < found.low < found.effect - 0.004, "the kernel's ticks"
    assert found.effect + 0.004 < found.high < found.effect + 0.008
    chance = random.Random(3)
    none = tried(lambda _: math.exp(chance.gauss(0, 0.15)))
    assert none is not None
    assert none.low < 0 < none.high
    assert (found.helps, none.helps) == (True, False)


@pytest.mark.parametrize("noise, windows", [(0.01, {8}), (0.03, {8, 12}), (0.1, {12})])
@pytest.mark.parametrize("true", [1.0, 0.65, 1.2])
def test_interval_contains_the_truth_in_95_percent(true: float, noise: float, windows: set[int]) -> None:
    chance, hits = random.Random(7), 0
    for seed in range(60):
        found = tried(lambda limited: (true if limited else 1.0) * math.exp(chance.gauss(0, noise)), seed)
        assert found is not None
        assert found.windows in windows
        hits += found.low <= true - 1 <= found.high
    assert hits >= 53, "of 60; fewer have a probability below 2 %"


@pytest.mark.parametrize("lost, windows", [(0, 12), (1, 11), (2, 10), (6, None), (12, None)])
def test_too_few_windows_have_no_effect(lost: int, windows: int | None) -> None:
    left, noise = [lost], random.Random(1)

    def cost_of(limited: bool) -> float | None:
        left[0] -= 1
        return None if left[0] >= 0 else (0.5 if limited else 1.0) * math.exp(noise.gauss(0, 0.1))

    found = tried(cost_of)
    assert (found.windows if found else None) == windows
    assert found is None or found.helps, "the fewest windows can still prove a clear effect"


@pytest.fixture
def world(host: Host) -> World:
    return World(host)


def test_class_that_slows_the_pod_is_proved_and_others_are_not(world: World) -> None:
    with world.experiment() as experiment:
        assert experiment.evidence.method == "traffic"
        assert "perf" in experiment.evidence.skipped
        bronze, silver = experiment.run(Random(1))
    assert (bronze.name, bronze.declared, bronze.floor) == ("bronze", {0: 100}, {0: 20})
    assert bronze.effect is not None
    assert silver.effect is not None
    assert [bronze.effect.off, bronze.effect.on, bronze.effect.effect] == pytest.approx([1.0, 0.5, -0.5])
    assert silver.effect.effect == pytest.approx(0)
    assert (bronze.effect.helps, silver.effect.helps) == (True, False)
    assert world.node.limit("bronze") == world.node.limit("silver") == DECLARED
    assert not Path(world.node.host.state, NAME).exists()
    world.node.fs.writes.clear()
    still = int(world.moved["silver"])
    world.hook = lambda: world.node.count("silver", 0, still)
    with world.experiment() as experiment:
        _, silver = experiment.run(Random(1))
    assert (silver.effect, silver.reason) == (None, "it has almost no traffic where the pod has its own")
    assert {name for name, _ in world.node.fs.writes} == {"bronze"}


class KilledError(BaseException):
    """The process has ended here: nothing is restored."""


@pytest.mark.hypothesis
@settings(max_examples=12, deadline=None)
@given(
    moment=st.integers(1, 60),
    event=st.sampled_from([KeyboardInterrupt, SystemExit, RuntimeError, KilledError, "stopped", "other program"]),
)
def test_every_value_comes_back_whatever_happens_at_any_moment(moment: int, event: Any) -> None:
    """A killed experiment leaves a lease; one that was stopped for too long changes nothing more."""
    with temporary_host() as host, pytest.MonkeyPatch.context() as patch:
        world, now, left = World(host), [1000.0], [moment]
        patch.setattr(lease, "boot_time", lambda: now[0])
        values = ("bronze", "silver")
        foreign: list[str] = []

        def happen() -> None:
            left[0] -= 1
            limited = [name for name in values if world.node.limit(name) != DECLARED]
            if left[0] or (event == "other program" and not limited):
                left[0] += event == "other program" and not left[0]
            elif event == "stopped":
                now[0] += trial.LEASE + 2
                if limited:
                    restored = restore_ended(world.context)
                    assert restored.owner == f"an experiment (process {posix.getpid()}, stopped or hung)"
            elif event == "other program":
                world.node.fs.write(str(world.node.root / limited[0] / "schemata"), b"MB:0=70\n")
                foreign.append(limited[0])
            else:
                raise event

        world.hook = happen
        experiment, error = world.experiment(), None
        try:
            list(experiment.run(Random(1)))
        except BaseException as raised:  # noqa: BLE001  # every end is looked at
            error = raised
        if isinstance(error, KilledError):
            posix.close(experiment._lock)
            if Path(host.state, NAME).exists():
                with pytest.raises(TrialError, match="guard restore"):
                    world.experiment()
                assert not restore_ended(world.context).failed
        else:
            experiment.__exit__(None, None, None)
        if foreign:
            assert f"another program changed MB of class {foreign[0]} to 0=70" in str(error)
        elif event == "stopped" and error is not None:
            assert "an experiment was stopped or hung for longer than its lease of 15 s" in str(error)
        elif isinstance(event, type) and left[0] <= 0:
            assert isinstance(error, event)
        assert [world.node.limit(name) for name in values] == [
            "MB:0=70" if name in foreign else DECLARED for name in values
        ]
        assert not Path(host.state, NAME).exists()
        assert plan.SECONDS <= trial.LEASE / 4


def test_ctrl_z_restores_values_before_it_stops(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def limited() -> None:
        if world.node.limit("bronze") != DECLARED:
            (tmp_path / "limited").touch()
            time.sleep(60)

    world.hook = limited
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        done = command(world, monkeypatch, "shop/cart", "--experiment")
        (tmp_path / "said").write_text(done.output)
        os._exit(done.exit_code)
    while not (tmp_path / "limited").exists():
        time.sleep(0.01)
    os.kill(child, signal.SIGTSTP)
    _, status = os.waitpid(child, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert world.node.limit("bronze") == DECLARED
    assert not Path(world.node.host.state, NAME).exists()
    posix.close(only_instance(str(world.node.host.state / LOCK)))
    os.kill(child, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert "SIGTSTP ended the experiment: all values are restored" in (tmp_path / "said").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGTSTP])
def test_signal_during_the_restoration_waits_for_its_end(world: World, number: int) -> None:
    def interrupt(_: str) -> None:
        if interrupted:
            interrupted.append(number)
            os.kill(posix.getpid(), number)

    def stop() -> None:
        if world.node.limit("bronze") != DECLARED:
            interrupted.append(0)
            raise KeyboardInterrupt

    def end(number: int, _: object) -> None:
        raise SystemExit(number)

    interrupted: list[int] = []
    world.node.fs.before, world.hook = interrupt, stop
    former = signal.signal(number, end)
    try:
        with pytest.raises(SystemExit), world.experiment() as experiment:
            list(experiment.run(Random(1)))
    finally:
        signal.signal(number, former)
    assert interrupted == [0, number]
    assert world.node.limit("bronze") == DECLARED
    assert not Path(world.node.host.state, NAME).exists()


def test_experiment_refuses_beside_another_or_a_guard_without_classes_and_for_an_idle_pod(world: World) -> None:
    with world.experiment(), pytest.raises(TrialError, match=f"an experiment is running, process {posix.getpid()}"):
        world.experiment()
    lock = only_instance(str(world.node.host.state / LOCK))
    with pytest.raises(TrialError, match=r"guard changes values .*systemctl stop resctrl-hooks-guard"):
        world.experiment()
    posix.close(lock)
    with pytest.raises(TrialError, match=r"rdt\.guard\.throttle"):
        Experiment(world.context, KEY, [world.cgroup], ["silver", "bronze"])
    world.is_idle = True
    with pytest.raises(EvidenceError, match="no memory traffic"), world.experiment() as experiment:
        list(experiment.run(Random(1)))
    world.is_idle = False
    with world.experiment():
        pass  # each refusal gave the lock back


@pytest.mark.parametrize(
    "missing, reason",
    [("cpu.stat", "cpu.stat of its cgroup has no usage_usec, which needs cgroup v2"), ("traffic", "is not counted")],
)
def test_pod_without_any_evidence_is_refused_with_each_reason(world: World, missing: str, reason: str) -> None:
    (world.stat if missing == "cpu.stat" else world.group / "mon_data/mon_L3_00/mbm_total_bytes").unlink()
    with pytest.raises(EvidenceError, match=rf"no cycles and micro-operations .*perf_event_open.*{reason}"):
        world.experiment()
    assert world.node.limit("bronze") == DECLARED


def command(world: World, monkeypatch: pytest.MonkeyPatch, *words: str) -> Result:
    def experiment(_: Any, key: str, cgroups: list[str], own: list[str], planned: list[Any]) -> Experiment:
        return Experiment(world.context, key, cgroups, own, world.sleep, planned)

    def session(_: Any, say: Any) -> Session:
        return Session(world.context, say, world.sleep)

    monkeypatch.setattr(diagnose, "Experiment", experiment)
    monkeypatch.setattr(diagnose, "Session", session)
    return run(world.node.host, "diagnose", *words)


def test_command_names_the_class_its_effect_and_what_helps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    done = command(world, monkeypatch, "shop/cart", "--experiment")
    assert done.exit_code == 0, done.output
    assert "Experiment for shop/cart, in CPU seconds per GB (an estimate):" in done.output
    (bronze,) = re.findall(r"^MB of bronze (?!.*limited:).*$", done.output, re.MULTILINE)
    assert " ".join(bronze.split()) == "MB of bronze 0=100 0=20 1 0.5 -50% -50% to -50% slows the pod"
    assert "What helps: a smaller MB value for bronze" in done.output
    value = json.loads(command(world, monkeypatch, "shop/cart", "--experiment", "-o", "json").stdout)
    validate(value, schemas()["diagnose"])
    (item,) = value["items"]
    assert [item["name"], *(one["class"] for one in item["experiments"])] == ["shop/cart", "bronze", "silver"]
    assert item["experiments"][0]["effectHigh"] == pytest.approx(-0.5, abs=0.005)
