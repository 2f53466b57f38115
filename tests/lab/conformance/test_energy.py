"""`mon_PERF_PKG_NN`: energy by RMID and package, where a task of the group has run."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from .filesystem import Resctrl, eventually

pytestmark = pytest.mark.processors("energy")

UNAVAILABLE = "Unavailable\n"
ENERGY = ("mon_data/mon_PERF_PKG_00/core_energy", "mon_data/mon_PERF_PKG_01/core_energy")
BUSY = "while True: pass"

Busy = Callable[[str], "subprocess.Popen[Any]"]


@pytest.fixture
def busy(resctrl: Resctrl) -> Iterator[Busy]:
    """Start processes that work on the first CPU, which is in package 0, from the start in a group."""
    with ExitStack() as stack:

        def start(group: str) -> "subprocess.Popen[Any]":
            program = f"import os; os.sched_setaffinity(0, {{0}}); input()\n{BUSY}"
            started = stack.enter_context(
                subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, text=True)
            )
            stack.callback(started.kill)
            assert started.stdin is not None
            eventually(lambda: os.sched_getaffinity(started.pid) == {0})
            resctrl.write(f"{group}/tasks", str(started.pid))
            started.stdin.write("\n")
            started.stdin.flush()
            return started

        yield start


def joules(resctrl: Resctrl, group: str) -> float | None:
    """Return the group's energy in package 0; None if it has no value yet."""
    text = resctrl.read(group, ENERGY[0])
    return None if text == UNAVAILABLE else float(text)


def at_least(resctrl: Resctrl, group: str, least: float) -> float:
    """Wait until a group has used some energy."""
    return eventually(lambda: value if (value := joules(resctrl, group) or 0.0) > least else None)


def test_energy_is_a_number_with_six_decimals(resctrl: Resctrl, busy: Busy) -> None:
    group = resctrl.make("mon_groups/a")
    busy(group)
    at_least(resctrl, group, 0)
    whole, _, decimals = resctrl.read(group, ENERGY[0]).strip().partition(".")
    assert whole.isdecimal()
    assert (len(decimals), decimals.isdecimal()) == (6, True)


def test_energy_is_unavailable_in_package_until_task_of_rmid_ran_there(resctrl: Resctrl, busy: Busy) -> None:
    fresh = [
        group for group in resctrl.fill() if {resctrl.read(group, path) for path in ENERGY} == {UNAVAILABLE}
    ]  # earlier tests have used some of the RMIDs
    assert fresh
    busy(fresh[0])
    at_least(resctrl, fresh[0], 0)
    assert resctrl.read(fresh[0], ENERGY[1]) == UNAVAILABLE


def test_energy_of_recycled_rmid_continues(resctrl: Resctrl, busy: Busy) -> None:
    made = resctrl.fill()
    process = busy(made[0])
    at_least(resctrl, made[0], 0.5)
    process.kill()
    process.wait()
    before = [resctrl.read(made[0], path) for path in ENERGY]
    resctrl.rmdir(made[0])
    group = resctrl.make("mon_groups/again")  # no other RMID is free
    assert [resctrl.read(group, path) for path in ENERGY] == before


def test_energy_survives_rename(resctrl: Resctrl, busy: Busy) -> None:
    group = resctrl.make("mon_groups/a")
    process = busy(group)
    at_least(resctrl, group, 0.5)
    process.kill()
    process.wait()
    before = [resctrl.read(group, path) for path in ENERGY]
    resctrl.rename(group, "mon_groups/b")
    assert [resctrl.read("mon_groups/b", path) for path in ENERGY] == before


def test_energy_of_root_class_drops_when_a_group_is_removed(resctrl: Resctrl, busy: Busy) -> None:
    group = resctrl.make("mon_groups/a")
    process = busy(group)
    at_least(resctrl, group, 0)
    time.sleep(1)
    process.kill()
    process.wait()
    whole, part = joules(resctrl, "") or 0.0, joules(resctrl, group) or 0.0
    resctrl.rmdir(group)
    assert (joules(resctrl, "") or 0.0) < whole - part / 2
