"""The experiment on a node whose victim is slowed by a class: its result, its refusals, and what it leaves behind."""

import json
import posix
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import Result
from conftest import Host
from hosts.monitored import run
from jsonschema import validate

from resctrl_hooks.cli import diagnose
from resctrl_hooks.cli.schemas import schemas
from resctrl_hooks.node.guard.lease import LOCK, NAME, restore_left
from resctrl_hooks.node.host.instance import only_instance
from resctrl_hooks.slowdown.evidence import EvidenceError
from resctrl_hooks.slowdown.proof import Experiment
from resctrl_hooks.slowdown.session import Session
from resctrl_hooks.slowdown.trial import TrialError

from .world import DECLARED, KEY, World


@pytest.fixture
def world(host: Host) -> World:
    return World(host)


def test_class_that_slows_the_pod_is_proved_and_others_are_not(world: World) -> None:
    with world.experiment() as experiment:
        assert experiment.evidence.method == "traffic"
        assert "perf" in experiment.evidence.skipped
        bronze, silver = experiment.run(Random(1))
    assert bronze.name == "bronze"
    assert bronze.effect is not None
    assert [bronze.effect.off, bronze.effect.on] == pytest.approx([1.0, 0.5])
    assert bronze.effect.effect == pytest.approx(-0.5)
    assert bronze.effect.helps
    assert (bronze.declared, bronze.floor) == ({0: 100}, {0: 20})
    assert silver.effect is not None
    assert silver.effect.effect == pytest.approx(0)
    assert not silver.effect.helps
    assert world.node.limit("bronze") == world.node.limit("silver") == DECLARED
    assert not Path(world.node.host.state, NAME).exists()


def test_quiet_class_is_not_limited(world: World) -> None:
    world.node.fs.writes.clear()
    world.hook = lambda: world.node.count("silver", 0, 0)
    with world.experiment() as experiment:
        _, silver = experiment.run(Random(1))
    assert (silver.effect, silver.reason) == (None, "it has almost no traffic where the pod has its own")
    assert {name for name, _ in world.node.fs.writes} == {"bronze"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_interrupted_experiment_restores_at_once(world: World, error: type[BaseException]) -> None:
    def interrupt() -> None:
        if world.node.limit("bronze") != DECLARED:
            raise error

    world.hook = interrupt
    with pytest.raises(error), world.experiment() as experiment:
        list(experiment.run(Random(1)))
    assert world.node.limit("bronze") == DECLARED
    assert not Path(world.node.host.state, NAME).exists()


def test_killed_experiment_leaves_a_lease_that_brings_the_values_back(world: World) -> None:
    class KilledError(BaseException):
        """The process has ended here: nothing is restored."""

    def kill() -> None:
        if world.node.limit("bronze") != DECLARED:
            raise KilledError

    world.hook = kill
    experiment = world.experiment()
    with pytest.raises(KilledError):
        list(experiment.run(Random(1)))
    posix.close(experiment._lock)
    assert world.node.limit("bronze") == "MB:0=20"
    record = json.loads(Path(world.node.host.state, NAME).read_text())
    Path(world.node.host.state, NAME).write_text(json.dumps(record | {"pid": 999_999}))
    with pytest.raises(TrialError, match="guard restore"):
        world.experiment()
    done = restore_left(world.context.monitor.resctrl, str(world.node.host.state), world.context.proc)
    assert done.done == ["class bronze, domain 0: MB 20 -> 100"]
    assert world.node.limit("bronze") == DECLARED


def test_value_of_another_program_ends_the_experiment_and_stays(world: World) -> None:
    def other() -> None:
        if world.node.limit("bronze") == "MB:0=20":
            world.node.fs.write(str(world.node.root / "bronze/schemata"), b"MB:0=50\n")

    world.hook = other
    changed = "another program changed MB of class bronze to 0=50"
    with pytest.raises(TrialError, match=changed), world.experiment() as experiment:
        list(experiment.run(Random(1)))
    assert world.node.limit("bronze") == "MB:0=50"


def test_experiment_refuses_beside_a_guard_without_classes_and_for_an_idle_pod(world: World) -> None:
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
    def experiment(_: Any, key: str, cgroups: list[str], own: list[str]) -> Experiment:
        return Experiment(world.context, key, cgroups, own, world.sleep)

    def session(_: Any, say: Any) -> Session:
        return Session(world.context, say, world.sleep)

    monkeypatch.setattr(diagnose, "Experiment", experiment)
    monkeypatch.setattr(diagnose, "Session", session)
    return run(world.node.host, "diagnose", *words)


def test_command_names_the_class_its_effect_and_what_helps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    done = command(world, monkeypatch, "shop/cart", "--experiment")
    assert done.exit_code == 0, done.output
    assert "Experiment for shop/cart, in CPU seconds per GB (an estimate):" in done.output
    (bronze,) = [line for line in done.output.splitlines() if line.startswith("bronze ") and "limited:" not in line]
    assert bronze.split() == "bronze 0=100 0=20 1 0.5 -50% -50% to -50% slows the pod".split()  # noqa: SIM905
    assert "What helps: a smaller MB value for bronze" in done.output


def test_command_as_json_follows_its_schema(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    done = command(world, monkeypatch, "shop/cart", "--experiment", "-o", "json")
    value = json.loads(done.stdout)
    validate(value, schemas()["diagnose"])
    (item,) = value["items"]
    assert item["name"] == "shop/cart"
    assert [one["class"] for one in item["experiments"]] == ["bronze", "silver"]
    assert item["experiments"][0]["effectHigh"] == pytest.approx(-0.5)


def test_command_for_an_unknown_pod_changes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.node.fs.writes.clear()
    done = command(world, monkeypatch, "shop/nobody", "--experiment")
    assert (done.exit_code, done.stdout) == (1, "")
    assert not world.node.fs.writes
