"""Counters in `mon_data`, RMIDs and CLOSIDs, energy, and properties of the hardware in `info`."""

import errno
import os
import re
import subprocess
import sys

import pytest

from .filesystem import Resctrl, eventually, visit

TOTAL = "mon_data/mon_L3_00/mbm_total_bytes"


def domains(resctrl: Resctrl, group: str) -> dict[str, set[str]]:
    """Return the domains of a group and the counters in each."""
    return {name: resctrl.names(f"{group}/mon_data/{name}") for name in resctrl.names(f"{group}/mon_data")}


def test_every_group_has_the_same_domains_and_each_the_features_of_its_resource(resctrl: Resctrl) -> None:
    resctrl.make("gold", "gold/mon_groups/a", "mon_groups/a")
    everywhere = [domains(resctrl, group) for group in (".", "gold", "gold/mon_groups/a", "mon_groups/a")]
    assert everywhere == everywhere[:1] * 4
    assert "mon_L3_00" in everywhere[0]
    for name, counters in everywhere[0].items():
        found = re.fullmatch(r"mon_(\w+)_(\d\d)", name)
        assert found, name
        assert counters == set(resctrl.read(f"info/{found[1]}_MON/mon_features").split())


def test_l3_counter_is_a_number_or_a_word_and_a_newline(resctrl: Resctrl) -> None:
    resctrl.make("mon_groups/a")
    for name in ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"):
        text = resctrl.read("mon_groups/a/mon_data/mon_L3_00", name)
        assert re.fullmatch(r"(\d+|Unavailable|Unassigned|Error)\n", text)


def test_bandwidth_grows_while_a_task_lives_and_local_is_part_of_it(resctrl: Resctrl, task: int) -> None:
    resctrl.make("mon_groups/a")
    resctrl.write("mon_groups/a/tasks", str(task))
    first = int(resctrl.read("mon_groups/a", TOTAL))
    local = eventually(lambda: int(resctrl.read("mon_groups/a/mon_data/mon_L3_00/mbm_local_bytes")))
    assert local <= eventually(lambda: now if (now := int(resctrl.read("mon_groups/a", TOTAL))) > first else None)


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


@pytest.mark.parametrize("folder, more, own", [("mon_groups", "mon_groups/more", 1), ("gold/mon_groups", "silver", 2)])
def test_group_limit_is_the_smallest_num_rmids_of_which_the_root_and_each_class_have_one(
    resctrl: Resctrl, folder: str, more: str, own: int
) -> None:
    if own > 1:
        resctrl.make("gold")
    assert len(resctrl.fill(folder)) == resctrl.rmids - own
    resctrl.poison()
    with resctrl.refused(errno.ENOSPC, "Out of RMIDs"):
        resctrl.mkdir(more)
    assert not {"more", "silver"} & (resctrl.names("mon_groups") | resctrl.names())


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


def test_info_has_a_folder_for_each_resource_with_decimal_numbers_and_hexadecimal_masks(resctrl: Resctrl) -> None:
    assert resctrl.names("info") >= {"L3", "L3_MON", "MB", "last_cmd_status"}
    assert "delay_linear" in resctrl.names("info/MB")
    names = ["L3/min_cbm_bits", "L3/num_closids", "L3_MON/num_rmids", "L3_MON/max_threshold_occupancy"]
    for path in (*names, "MB/bandwidth_gran", "MB/min_bandwidth", "MB/num_closids"):
        text = resctrl.read("info", path)
        assert text == f"{int(text)}\n"
    for name in ("cbm_mask", "shareable_bits"):
        text = resctrl.read("info/L3", name)
        assert text == f"{int(text, 16):x}\n"
    assert resctrl.read("info/L3_MON/mon_features").splitlines()[0] == "llc_occupancy"
    ways = int(resctrl.read("info/L3/cbm_mask"), 16).bit_length()
    hardware = int(resctrl.read("info/L3/shareable_bits"), 16)
    letters = "".join("X" if hardware >> way & 1 else "S" for way in reversed(range(ways)))
    assert {part.partition("=")[2] for part in resctrl.read("info/L3/bit_usage").strip().split(";")} == {letters}


def test_words_stay_until_the_next_command_which_is_ok_and_limbo_threshold_is_writable(resctrl: Resctrl) -> None:
    resctrl.poison()
    resctrl.tasks()
    assert resctrl.status == resctrl.status == Resctrl.POISON
    resctrl.write("schemata", resctrl.read("schemata"))
    assert resctrl.read("info/last_cmd_status") == "ok\n"
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


def used(resctrl: Resctrl, group: str, least: float = 0.5) -> list[str]:
    """Let a process use so much energy on the first CPU, which is in package 0; return the group's values."""
    program = "import os; os.sched_setaffinity(0, {0}); input()\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, text=True) as process:
        eventually(lambda: os.sched_getaffinity(process.pid) == {0})
        resctrl.write(f"{group}/tasks", str(process.pid))
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
        eventually(lambda: joules(resctrl, group) > least)
        process.kill()
    visit(0)
    return [resctrl.read(group, path) for path in ENERGY]


def joules(resctrl: Resctrl, group: str) -> float:
    """Return the group's energy in package 0; 0 if it has no value yet."""
    text = resctrl.read(group, ENERGY[0])
    return 0.0 if text == UNAVAILABLE else float(text)


@COUNTS_ENERGY
def test_energy_is_unavailable_in_package_until_task_of_rmid_ran_there(resctrl: Resctrl) -> None:
    groups = resctrl.fill()  # earlier tests have used some of the RMIDs
    fresh = next(one for one in groups if {resctrl.read(one, path) for path in ENERGY} == {UNAVAILABLE})
    here, there = used(resctrl, fresh, 0)
    assert re.fullmatch(r"\d+\.\d{6}\n", here)
    assert there == UNAVAILABLE


@COUNTS_ENERGY
def test_energy_of_recycled_rmid_continues_and_survives_rename(resctrl: Resctrl) -> None:
    made = resctrl.fill()
    before = used(resctrl, made[0])
    resctrl.rename(made[0], "mon_groups/b")
    assert [resctrl.read("mon_groups/b", path) for path in ENERGY] == before
    resctrl.rmdir("mon_groups/b")
    group = resctrl.make("mon_groups/again")  # no other RMID is free
    assert [resctrl.read(group, path) for path in ENERGY] == before


@COUNTS_ENERGY
def test_energy_of_root_class_drops_when_a_group_is_removed(resctrl: Resctrl) -> None:
    group = resctrl.make("mon_groups/a")
    used(resctrl, group)
    whole, part = joules(resctrl, ""), joules(resctrl, group)
    resctrl.rmdir(group)
    assert joules(resctrl, "") < whole - part / 2
