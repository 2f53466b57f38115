"""Many experiments: how often the interval contains the truth, and kills and stops at random moments."""

import contextlib
import mmap
import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from conftest import Host

from observe.slowdown.world import DECLARED, World
from resctrl_hooks.observe.node.guard import lease
from resctrl_hooks.observe.node.guard.lease import NAME
from resctrl_hooks.observe.node.guard.recovery import restore_ended
from resctrl_hooks.observe.slowdown.experiment import class_trial as trial
from resctrl_hooks.observe.slowdown.experiment import proof, watchdog

RUNS, NINE_OF_TEN = 20, 18
STRETCHES = 60
KILLS = pytest.mark.parametrize("kills", [pytest.param(100, marks=pytest.mark.ci)])


TRUTH = {"bronze": -0.5, "silver": 0.0}
"""The effect of each class's limit on the victim's cost."""
EXACT = 1e-6  # counters are whole bytes


@pytest.mark.parametrize("noise", [pytest.param(0.02, marks=pytest.mark.ci), 0.1])
def test_interval_of_a_noisy_victim_contains_the_truth_in_nine_of_ten_experiments(tmp_path: Path, noise: float) -> None:
    hits = dict.fromkeys(TRUTH, 0)
    for seed in range(RUNS):
        chance = Random(seed)
        with World(Host(tmp_path / str(seed)), noise, chance).experiment() as experiment:
            found = {proof.name: proof.effect for proof in experiment.run(chance)}
        for name, one in found.items():
            hits[name] += one is not None and one.low - EXACT <= TRUTH[name] <= one.high + EXACT
    assert min(hits.values()) >= NINE_OF_TEN, hits


@KILLS
def test_values_come_back_after_kills_at_any_moment(host: Host, monkeypatch: pytest.MonkeyPatch, kills: int) -> None:
    monkeypatch.setattr(proof, "Watchdog", NoWatchdog)  # the restoration by others is tested
    world, chance, left = World(host), Random(42), 0
    state = str(host.state)
    for _ in range(kills):
        passed = mmap.mmap(-1, mmap.PAGESIZE)  # shared with the child: how many stretches of time
        child = os.fork()
        if not child:
            _experiments_until_killed(world, passed)
        moment = chance.randrange(STRETCHES)
        while passed[0] < moment and not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            time.sleep(0.0005)
        time.sleep(chance.uniform(0.0, 0.002))
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        left += world.node.limit("bronze") != DECLARED or world.node.limit("silver") != DECLARED
        assert restore_ended(world.context).failed == []
        assert world.node.limit("bronze") == world.node.limit("silver") == DECLARED
        assert not Path(state, NAME).exists()
    assert left >= kills // 5, "too few kills met a limit for this test to say something"


class NoWatchdog:
    """A watchdog that was killed, too."""

    def __init__(self, *_: object) -> None: ...

    def end(self, *, restored: bool) -> None: ...


@KILLS
def test_watchdog_restores_values_after_each_kill_and_stop_at_a_random_moment(
    host: Host, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    monkeypatch.setattr(trial, "LEASE", 0.3)
    monkeypatch.setattr(lease, "_GRACE", 0.05)
    monkeypatch.setattr(watchdog, "_INTERVAL", 0.05)
    world, chance, left = World(host), Random(7), [0, 0]

    def is_restored() -> bool:
        return world.node.limit("bronze") == world.node.limit("silver") == DECLARED

    for turn in range(kills):
        passed = mmap.mmap(-1, mmap.PAGESIZE)
        child = os.fork()
        if not child:
            _experiments_until_killed(world, passed)
        moment, stopped = chance.randrange(STRETCHES), turn % 2
        while passed[0] < moment:
            assert not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT), "an error ended it"
            time.sleep(0.0005)
        time.sleep(chance.uniform(0.0, 0.002))
        os.kill(child, signal.SIGSTOP if stopped else signal.SIGKILL)
        os.waitpid(child, os.WUNTRACED)
        left[stopped] += not is_restored()
        wait_until(is_restored)
        if stopped:
            os.kill(child, signal.SIGCONT)
            time.sleep(chance.uniform(0.0, 0.02))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        wait_until(is_restored)
        wait_until(lambda: not Path(host.state, NAME).exists())
    assert min(left) >= kills // 20, "too few kills or stops met a limit for this test to say something"


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, for ten leases at the most: the machine may be busy."""
    end = time.monotonic() + 10 * trial.LEASE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.0005)


def _experiments_until_killed(world: World, passed: mmap.mmap) -> None:
    """Run experiments one after another; an error ends the process, which the parent sees."""

    def tick() -> None:
        passed[0] = min(255, passed[0] + 1)

    try:
        world.hook = tick
        world.sleep(0.0)  # counters that the last kill left half written
        while True:
            try:
                with contextlib.suppress(lease.LeaseEndedError), world.experiment() as experiment:
                    list(experiment.run())
            except trial.TrialError as error:
                if "a restoration of MB values is running" not in str(error):  # of the one that was killed before
                    raise
    except BaseException:  # noqa: BLE001  # nothing may get out of the child
        traceback.print_exc()
    os._exit(1)
