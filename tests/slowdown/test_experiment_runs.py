"""Many experiments: how often the interval contains the truth, and kills at random moments."""

import mmap
import os
import signal
import time
import traceback
from pathlib import Path
from random import Random

import pytest
from conftest import Host

from resctrl_hooks.node.guard.lease import NAME, restore_ended

from .world import DECLARED, TRUTH, World, contains_truth

RUNS, NINE_OF_TEN = 20, 18
KILLS, HITS, STRETCHES = 100, 20, 60


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_interval_of_a_noisy_victim_contains_the_truth_in_nine_of_ten_experiments(tmp_path: Path, noise: float) -> None:
    found = [contains_truth(Host(tmp_path / str(seed)), noise, seed) for seed in range(RUNS)]
    for name in TRUTH:
        assert sum(one[name] for one in found) >= NINE_OF_TEN, name


def test_values_come_back_after_each_of_100_kills_at_random_moments(host: Host) -> None:
    world, chance, left = World(host), Random(42), 0
    resctrl, state = world.context.monitor.resctrl, str(host.state)
    for _ in range(KILLS):
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
        assert restore_ended(resctrl, state, world.context.proc).failed == []
        assert world.node.limit("bronze") == world.node.limit("silver") == DECLARED
        assert not Path(state, NAME).exists()
    assert left >= HITS, "too few kills met a limit for this test to say something"


def _experiments_until_killed(world: World, passed: mmap.mmap) -> None:
    """Run experiments one after another; an error ends the process, which the parent sees."""

    def tick() -> None:
        passed[0] = min(255, passed[0] + 1)

    try:
        world.hook = tick
        world.sleep(0.0)  # counters that the last kill left half written
        while True:
            with world.experiment() as experiment:
                list(experiment.run())
    except BaseException:  # noqa: BLE001  # nothing may get out of the child
        traceback.print_exc()
    os._exit(1)
