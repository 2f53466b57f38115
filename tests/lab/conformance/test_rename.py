"""rename: a MON group can change its name and its class, nothing else can."""

import errno
import os

import pytest

from .filesystem import Resctrl, eventually


def test_rename_keeps_the_tasks(resctrl: Resctrl, task: int) -> None:
    resctrl.make("mon_groups/a")
    resctrl.write("mon_groups/a/tasks", str(task))
    resctrl.poison()
    resctrl.rename("mon_groups/a", "mon_groups/b")
    assert resctrl.names("mon_groups") == {"b"}
    assert resctrl.tasks("mon_groups/b") == {task}
    assert resctrl.status == "ok"


def test_rename_into_another_class_removes_tasks_from_old_one(resctrl: Resctrl, task: int) -> None:
    resctrl.make("gold", "mon_groups/a", "mon_groups/b")
    resctrl.write("mon_groups/a/tasks", str(task))
    resctrl.rename("mon_groups/a", "gold/mon_groups/a")
    with resctrl.refused(errno.EINVAL):
        resctrl.write("mon_groups/b/tasks", str(task))
    assert resctrl.tasks("gold/mon_groups/a") == resctrl.tasks("gold") == {task}
    assert task not in resctrl.tasks()
    resctrl.rename("gold/mon_groups/a", "mon_groups/a")
    assert resctrl.tasks("gold") == set()
    assert task in resctrl.tasks()


def test_rename_keeps_the_counters(resctrl: Resctrl, task: int) -> None:
    resctrl.make("gold", "mon_groups/a")
    resctrl.write("mon_groups/a/tasks", str(task))
    counter = "mon_data/mon_L3_00/mbm_total_bytes"
    before = eventually(lambda: int(resctrl.read("mon_groups/a", counter)))
    resctrl.rename("mon_groups/a", "gold/mon_groups/b")
    assert int(resctrl.read("gold/mon_groups/b", counter)) >= before


@pytest.mark.parametrize("name", [b"n" * 256, b"\xff" * 1000, b" ..", b"\xfe", b"new\nline"])
def test_rename_accepts_any_name(resctrl: Resctrl, name: bytes) -> None:
    resctrl.make("mon_groups/a")
    resctrl.rename("mon_groups/a", os.fsdecode(b"mon_groups/" + name))
    assert os.listdir(os.fsencode(resctrl.path("mon_groups"))) == [name]
    resctrl.rename(os.fsdecode(b"mon_groups/" + name), "mon_groups/a")


def test_rename_uses_no_rmid(resctrl: Resctrl) -> None:
    resctrl.make("gold")
    made = resctrl.fill()
    resctrl.rename(made[0], "gold/mon_groups/a")
    resctrl.poison()
    with resctrl.refused(errno.ENOSPC, "Out of RMIDs"):
        resctrl.mkdir(made[0])


def test_rename_to_existing_name_is_eexist(resctrl: Resctrl, task: int) -> None:
    resctrl.make("gold", "gold/mon_groups/b", "mon_groups/a", "mon_groups/b")
    resctrl.write("mon_groups/a/tasks", str(task))
    resctrl.poison()
    for target in ("mon_groups/b", "gold/mon_groups/b"):
        with resctrl.refused(errno.EEXIST, "ok"):
            resctrl.rename("mon_groups/a", target)
    assert resctrl.tasks("mon_groups/a") == {task}


SOURCE = "Source must be a MON group"
TARGET = "Destination must be a mon_groups subdirectory"
FOLDERS = "Source and destination must be directories"


@pytest.mark.parametrize(
    "old, new, words",
    [
        ("gold", "silver", SOURCE),
        ("gold", "mon_groups/gold", SOURCE),
        ("mon_data", "mon_groups/x", SOURCE),
        ("mon_data/mon_L3_00", "mon_groups/x", SOURCE),
        ("mon_groups", "gold/x", SOURCE),
        ("gold/mon_groups", "mon_groups/x", SOURCE),
        ("mon_groups/a", "silver", TARGET),
        ("mon_groups/a", "gold/x", TARGET),
        ("mon_groups/a", "gold/mon_data/x", TARGET),
        ("mon_groups/a", "mon_groups/mon_groups", TARGET),
        ("mon_groups/a", "gold/mon_groups/b/x", TARGET),
        ("mon_groups/a/tasks", "mon_groups/a/t", FOLDERS),
        ("mon_groups/a/tasks", "mon_groups/t", FOLDERS),
    ],
)
def test_rename_of_or_to_other_folders_is_eperm(resctrl: Resctrl, old: str, new: str, words: str) -> None:
    resctrl.make("gold", "gold/mon_groups/b", "mon_groups/a")
    with resctrl.refused(errno.EPERM, words):
        resctrl.rename(old, new)


@pytest.mark.parametrize(
    "old, new", [("info", "mon_groups/x"), ("info/L3", "mon_groups/x"), ("mon_groups/a", "info/x")]
)
def test_rename_with_info_is_enoent_without_words(resctrl: Resctrl, old: str, new: str) -> None:
    resctrl.make("mon_groups/a")
    resctrl.poison()
    with resctrl.refused(errno.ENOENT, Resctrl.POISON):
        resctrl.rename(old, new)


def test_rename_of_a_group_with_cpus_stays_in_its_class(resctrl: Resctrl) -> None:
    resctrl.make("gold", "mon_groups/a")
    resctrl.write("mon_groups/a/cpus_list", "0\n")
    with resctrl.refused(errno.EPERM, "Cannot move a MON group that monitors CPUs"):
        resctrl.rename("mon_groups/a", "gold/mon_groups/a")
    resctrl.rename("mon_groups/a", "mon_groups/b")
    assert resctrl.lines("mon_groups/b", "cpus_list") == ["0"]
