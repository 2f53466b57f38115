"""`mon_data`: which counters there are, and how they relate. Their values are the hardware's own."""

import re

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
