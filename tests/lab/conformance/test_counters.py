"""Counters in `mon_data`, RMIDs and CLOSIDs, energy, and properties of the hardware in `info`."""

import errno
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from .filesystem import Resctrl, eventually

TOTAL = "mon_data/mon_L3_00/mbm_total_bytes"


def domains(resctrl: Resctrl, group: str) -> dict[str, set[str]]:
    """Return the domains of a group and the counters in each."""
    return {name: resctrl.names(f"{group}/mon_data/{name}") for name in resctrl.names(f"{group}/mon_data")}


def test_every_group_has_the_same_domains(resctrl: Resctrl) -> None:
    resctrl.make("gold", "gold/mon_groups/a", "mon_groups/a")
    everywhere = [domains(resctrl, group) for group in (".", "gold", "gold/mon_groups/a", "mon_groups/a")]
    assert everywhere == everywhere[:1] * 4
    assert "mon_L3_00" in everywhere[0]


def test_each_domain_has_the_features_of_its_resource(resctrl: Resctrl) -> None:
    resctrl.make("mon_groups/a")
    for name, counters in domains(resctrl, "mon_groups/a").items():
        found = re.fullmatch(r"mon_(\w+)_(\d\d)", name)
        assert found, name
        assert counters == set(resctrl.read(f"info/{found[1]}_MON/mon_features").split())


def test_l3_counter_is_a_number_or_a_word_and_a_newline(resctrl: Resctrl) -> None:
    resctrl.make("mon_groups/a")
    for name in ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"):
        assert re.fullmatch(
            r"(\d+|Unavailable|Unassigned|Error)\n", resctrl.read("mon_groups/a/mon_data/mon_L3_00", name)
        )


def test_bandwidth_grows_while_a_task_lives(resctrl: Resctrl, task: int) -> None:
    resctrl.make("mon_groups/a")
    resctrl.write("mon_groups/a/tasks", str(task))
    first = int(resctrl.read("mon_groups/a", TOTAL))
    eventually(lambda: int(resctrl.read("mon_groups/a", TOTAL)) > first)


def test_local_bandwidth_is_part_of_the_total(resctrl: Resctrl, task: int) -> None:
    resctrl.make("mon_groups/a")
    resctrl.write("mon_groups/a/tasks", str(task))
    local = eventually(lambda: int(resctrl.read("mon_groups/a/mon_data/mon_L3_00/mbm_local_bytes")))
    assert local <= int(resctrl.read("mon_groups/a", TOTAL))


@pytest.mark.parametrize("parent", ["", "gold/"])
def test_class_includes_its_mon_groups(resctrl: Resctrl, task: int, parent: str) -> None:
    resctrl.make("gold")
    groups = [f"{parent}mon_groups/{name}" for name in "ab"]
    resctrl.make(*groups)
    resctrl.write(f"{parent}tasks", str(task))
    resctrl.write(f"{groups[0]}/tasks", str(task))
    eventually(lambda: int(resctrl.read(groups[0], TOTAL)) > 20_000_000)
    # Counters only grow, so a later reading cannot be less.
    parts = sum(int(resctrl.read(group, TOTAL)) for group in groups)
    assert int(resctrl.read(parent, TOTAL)) >= parts > 0


def test_new_group_counts_bandwidth_from_zero(resctrl: Resctrl, task: int) -> None:
    made = resctrl.fill()
    resctrl.write(f"{made[0]}/tasks", str(task))
    before = eventually(lambda: value if (value := int(resctrl.read(made[0], TOTAL))) > 100_000_000 else None)
    resctrl.write("tasks", str(task))
    resctrl.rmdir(made[0])
    # No other RMID is free: the new group gets the one that has counted.
    group = resctrl.make("mon_groups/again")
    assert int(resctrl.read(group, TOTAL)) < before


def test_group_limit_is_the_smallest_num_rmids(resctrl: Resctrl) -> None:
    # The root group has one of them.
    assert len(resctrl.fill()) == resctrl.rmids - 1
    resctrl.poison()
    with resctrl.refused(errno.ENOSPC, "Out of RMIDs"):
        resctrl.mkdir("mon_groups/more")
    assert "more" not in resctrl.names("mon_groups")


def test_class_uses_an_rmid(resctrl: Resctrl) -> None:
    resctrl.make("gold")
    assert len(resctrl.fill("gold/mon_groups")) == resctrl.rmids - 2
    resctrl.poison()
    with resctrl.refused(errno.ENOSPC, "Out of RMIDs"):
        resctrl.mkdir("silver")
    assert "silver" not in resctrl.names()


def test_class_without_rmid_returns_its_closid(resctrl: Resctrl) -> None:
    made = resctrl.fill()
    for _ in range(resctrl.closids + 1):
        with resctrl.refused(errno.ENOSPC, "Out of RMIDs"):
            resctrl.mkdir("gold")
    resctrl.rmdir(made[0])
    resctrl.make("gold")


def test_freed_rmid_is_in_limbo_and_mkdir_is_ebusy(resctrl: Resctrl) -> None:
    made = resctrl.fill()
    resctrl.rmdir(made[0])
    for path in (made[0], "gold"):
        resctrl.poison()
        with resctrl.refused(errno.EBUSY, "Out of RMIDs"):
            resctrl.mkdir(path)
    resctrl.make(made[0])  # it leaves limbo by itself
    with resctrl.refused(errno.ENOSPC, "Out of RMIDs"):
        resctrl.mkdir("mon_groups/more")


def test_removed_class_frees_the_rmids_of_its_mon_groups(resctrl: Resctrl) -> None:
    resctrl.make("gold", "gold/mon_groups/a", "gold/mon_groups/b")
    resctrl.fill()
    resctrl.rmdir("gold")
    resctrl.make("mon_groups/a", "mon_groups/b", "mon_groups/c")
    with resctrl.refused(errno.ENOSPC, "Out of RMIDs"):
        resctrl.mkdir("mon_groups/d")


def test_exhausted_closids_are_enospc_with_words(resctrl: Resctrl) -> None:
    assert resctrl.closids < resctrl.rmids, "RMIDs would run out first"
    for number in range(resctrl.closids - 1):
        resctrl.make(f"class{number}")
    resctrl.poison()
    with resctrl.refused(errno.ENOSPC, "Out of CLOSIDs"):
        resctrl.mkdir("more")
    resctrl.rmdir("class0")  # and is usable at once
    resctrl.make("more")  # waits for an RMID only
    with resctrl.refused(errno.ENOSPC, "Out of CLOSIDs"):
        resctrl.mkdir("class0")


def test_each_resource_has_a_folder(resctrl: Resctrl) -> None:
    assert resctrl.names("info") >= {"L3", "L3_MON", "MB", "last_cmd_status"}
    assert resctrl.names("info/L3") >= {"bit_usage", "cbm_mask", "min_cbm_bits", "num_closids", "shareable_bits"}
    assert resctrl.names("info/MB") >= {"bandwidth_gran", "delay_linear", "min_bandwidth", "num_closids"}
    assert resctrl.names("info/L3_MON") >= {"max_threshold_occupancy", "mon_features", "num_rmids"}


def test_numbers_are_decimal_and_masks_hexadecimal(resctrl: Resctrl) -> None:
    names = ["L3/min_cbm_bits", "L3/num_closids", "L3_MON/num_rmids"]
    for path in (*names, "MB/bandwidth_gran", "MB/min_bandwidth", "MB/num_closids"):
        text = resctrl.read("info", path)
        assert text == f"{int(text)}\n"
    for name in ("cbm_mask", "shareable_bits"):
        text = resctrl.read("info/L3", name)
        assert text == f"{int(text, 16):x}\n"
    assert resctrl.read("info/L3_MON/mon_features").splitlines()[0] == "llc_occupancy"


def test_command_that_succeeds_is_ok(resctrl: Resctrl) -> None:
    resctrl.poison()
    resctrl.write("schemata", resctrl.read("schemata"))
    assert resctrl.read("info/last_cmd_status") == "ok\n"


def test_words_stay_until_next_command(resctrl: Resctrl) -> None:
    resctrl.poison()
    resctrl.tasks()
    assert resctrl.status == resctrl.status == Resctrl.POISON


def test_bit_usage_has_a_letter_for_each_way(resctrl: Resctrl) -> None:
    ways = int(resctrl.read("info/L3/cbm_mask"), 16).bit_length()
    hardware = int(resctrl.read("info/L3/shareable_bits"), 16)
    letters = "".join("X" if hardware >> way & 1 else "S" for way in reversed(range(ways)))
    assert {part.partition("=")[2] for part in resctrl.read("info/L3/bit_usage").strip().split(";")} == {letters}


def test_limbo_threshold_is_writable(resctrl: Resctrl) -> None:
    path = "info/L3_MON/max_threshold_occupancy"
    before = resctrl.read(path)
    try:
        resctrl.write(path, "131072\n")
        assert int(resctrl.read(path)) == 131072
    finally:
        resctrl.write(path, before)


COUNTS_ENERGY = pytest.mark.processors("energy")

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


@COUNTS_ENERGY
def test_energy_is_a_number_with_six_decimals(resctrl: Resctrl, busy: Busy) -> None:
    group = resctrl.make("mon_groups/a")
    busy(group)
    at_least(resctrl, group, 0)
    whole, _, decimals = resctrl.read(group, ENERGY[0]).strip().partition(".")
    assert whole.isdecimal()
    assert (len(decimals), decimals.isdecimal()) == (6, True)


@COUNTS_ENERGY
def test_energy_is_unavailable_in_package_until_task_of_rmid_ran_there(resctrl: Resctrl, busy: Busy) -> None:
    fresh = [
        group for group in resctrl.fill() if {resctrl.read(group, path) for path in ENERGY} == {UNAVAILABLE}
    ]  # earlier tests have used some of the RMIDs
    assert fresh
    busy(fresh[0])
    at_least(resctrl, fresh[0], 0)
    assert resctrl.read(fresh[0], ENERGY[1]) == UNAVAILABLE


@COUNTS_ENERGY
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


@COUNTS_ENERGY
def test_energy_survives_rename(resctrl: Resctrl, busy: Busy) -> None:
    group = resctrl.make("mon_groups/a")
    process = busy(group)
    at_least(resctrl, group, 0.5)
    process.kill()
    process.wait()
    before = [resctrl.read(group, path) for path in ENERGY]
    resctrl.rename(group, "mon_groups/b")
    assert [resctrl.read("mon_groups/b", path) for path in ENERGY] == before


@COUNTS_ENERGY
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
