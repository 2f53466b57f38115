"""Groups: creation, removal, rename and content, and what is refused."""

import errno
import os
import stat
from collections.abc import Callable

import pytest

from .filesystem import Resctrl, eventually

MON_FILES = {"cpus", "cpus_list", "mon_data", "tasks"}
CTRL_FILES = MON_FILES | {"mode", "mon_groups", "schemata", "size"}


def test_mkdir_creates_classes_and_mon_groups_with_their_files_modes_and_nothing_in_them(resctrl: Resctrl) -> None:
    group = resctrl.make("mon_groups/a")
    assert resctrl.names(group) >= MON_FILES
    assert not resctrl.names(group) & {"mon_groups", "schemata"}
    assert resctrl.names(resctrl.make("gold")) >= CTRL_FILES
    assert resctrl.names("gold/mon_groups") == set()
    resctrl.make("gold/mon_groups/a")
    for path in (group, "gold", "gold/mon_groups/a"):
        assert (resctrl.tasks(path), *resctrl.lines(path, "cpus_list")) in ((set(),), (set(), ""))
    modes = {
        **dict.fromkeys(("gold", "gold/mon_groups", "gold/mon_groups/a"), 0o40755),
        **dict.fromkeys(("gold/tasks", "gold/schemata", "gold/mon_groups/a/tasks"), 0o100644),
        "gold/size": 0o100444,
    }
    assert {path: os.stat(resctrl.path(path)).st_mode for path in modes} == modes
    assert os.stat(resctrl.path("gold/tasks")).st_size == 0
    resctrl.rmdir("mon_groups/a")
    assert (resctrl.names("mon_groups"), resctrl.names("gold/mon_groups")) == (set(), {"a"})


@pytest.mark.parametrize("path", ["mon_groups/one", "gold", "gold/mon_groups/one"])
def test_group_inode_outlives_dentry_and_is_never_reused(resctrl: Resctrl, path: str) -> None:
    if path.startswith("gold/"):
        resctrl.make("gold")
    resctrl.make(path)
    files = [path, f"{path}/tasks", f"{path}/mon_data"]
    before = [os.stat(resctrl.path(file)).st_ino for file in files]
    assert len(set(before)) == len(files)
    resctrl.drop_dentries()
    assert [os.stat(resctrl.path(file)).st_ino for file in files] == before
    os.rmdir(resctrl.path(path))
    resctrl.make(path)
    assert not {os.stat(resctrl.path(file)).st_ino for file in files} & set(before)


@pytest.mark.parametrize("path", ["mon_groups/a", "gold"])
def test_mkdir_clears_last_cmd_status(resctrl: Resctrl, path: str) -> None:
    resctrl.make("silver")  # waits until there is an RMID
    resctrl.rmdir("silver")
    resctrl.poison()
    resctrl.make(path)
    assert resctrl.status == "ok"


@pytest.mark.parametrize("path", ["info/a", "info/L3/a", "info/L3_MON/a"])
def test_mkdir_in_info_is_enodev_without_words(resctrl: Resctrl, path: str) -> None:
    resctrl.poison()
    with resctrl.refused(errno.ENODEV, Resctrl.POISON):
        resctrl.mkdir(path)


NAMES = [b" blanks ", b".hidden", b"tab\there", b"-dash", b"a:b", b"*", "ü".encode(), b"\xff\xfe", b"a=b,c;d"]
LONG = [b"n" * 255, b"n" * 256, "ü".encode() * 500, b"\xff" * 1000]
"""resctrl takes what fits into a path; FUSE of older kernels takes 1024 bytes."""


@pytest.mark.parametrize("name", [*NAMES, *LONG], ids=range(len(NAMES + LONG)))
@pytest.mark.parametrize("folder", [b"mon_groups", b""])
def test_any_other_name_is_accepted_also_longer_than_other_file_systems_take(
    resctrl: Resctrl, folder: bytes, name: bytes
) -> None:
    path = os.fsdecode(os.path.join(folder, name))
    resctrl.make(path)
    assert name in os.listdir(os.path.join(os.fsencode(resctrl.root), folder))
    assert resctrl.tasks(path) == set()
    resctrl.rmdir(path)
    assert name not in os.listdir(os.path.join(os.fsencode(resctrl.root), folder))


@pytest.mark.parametrize("path", ["mon_groups/g", "gold", "", "mon_groups", "info", "mon_data"])
def test_dots_are_the_folder_itself_and_the_one_above(resctrl: Resctrl, path: str) -> None:
    resctrl.make("gold", "mon_groups/g")
    resctrl.poison()
    for name, number in ((".", errno.EINVAL), ("..", errno.ENOTEMPTY)):
        with resctrl.refused(errno.EEXIST, Resctrl.POISON):
            resctrl.mkdir(f"{path}/{name}")
        with resctrl.refused(number, Resctrl.POISON):
            resctrl.rmdir(f"{path}/{name}")
    assert {"gold", "mon_groups"} <= resctrl.names()


@pytest.mark.parametrize("removed, home", [("gold/mon_groups/a", "gold"), ("gold", "")])
def test_rmdir_of_mon_group_returns_tasks_to_its_class_and_that_of_a_class_to_the_root(
    resctrl: Resctrl, task: int, removed: str, home: str
) -> None:
    resctrl.make("gold", "gold/mon_groups/a")
    for group in ("gold", "gold/mon_groups/a"):
        resctrl.write(f"{group}/tasks", str(task))
    resctrl.poison()
    resctrl.rmdir(removed)
    assert resctrl.status == Resctrl.POISON
    with resctrl.refused(errno.ENOENT):
        resctrl.rmdir(removed)
    assert task in resctrl.tasks(home)
    resctrl.make(removed)
    assert resctrl.tasks(removed) == set(), "it is a new one"
    group = resctrl.make(f"{home}/mon_groups/b".lstrip("/"))
    resctrl.write(f"{group}/tasks", str(task))
    assert resctrl.tasks(group) == {task}


@pytest.mark.parametrize("name", ["tasks", "cpus_list", "mon_data/mon_L3_00/llc_occupancy"])
def test_open_file_of_removed_group_is_enodev(resctrl: Resctrl, name: str) -> None:
    resctrl.make("mon_groups/a")
    with resctrl.opened(os.O_RDONLY, "mon_groups/a", name) as descriptor:
        resctrl.rmdir("mon_groups/a")
        resctrl.make("mon_groups/a")
        with resctrl.refused(errno.ENODEV):
            os.read(descriptor, 10)
    resctrl.make("gold")
    with resctrl.opened(os.O_WRONLY, "gold/tasks") as descriptor, resctrl.opened(os.O_RDONLY, "gold") as folder:
        resctrl.rmdir("gold")
        with resctrl.refused(errno.ENODEV):
            os.write(descriptor, b"0")
        with resctrl.refused(errno.ENOENT):
            os.mkdir("a", dir_fd=folder)


@pytest.mark.kernel_only
def test_open_folder_of_removed_group_is_empty(resctrl: Resctrl) -> None:
    # FUSE's high-level interface forgets removed folders: it answers ESTALE.
    resctrl.make("gold")
    with resctrl.opened(os.O_RDONLY, "gold") as descriptor:
        resctrl.rmdir("gold")
        assert os.listdir(descriptor) == []


def test_opening_may_truncate_and_append_and_owner_and_mode_can_be_changed(resctrl: Resctrl, task: int) -> None:
    group = resctrl.make("mon_groups/a")
    for flags in (os.O_TRUNC, os.O_APPEND, os.O_CREAT | os.O_TRUNC):
        with resctrl.opened(os.O_WRONLY | flags, group, "tasks") as descriptor:
            os.write(descriptor, str(task).encode())
        assert resctrl.tasks(group) == {task}
    tasks = resctrl.path(group, "tasks")
    os.chmod(tasks, 0o600)
    os.chown(tasks, 1, 2)
    seen = os.stat(tasks)
    assert (stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid) == (0o600, 1, 2)


SIZE = "info/L3_MON/max_threshold_occupancy"
FOLDERS = ("info", "info/L3", "mon_data", "mon_data/mon_L3_00", "mon_groups", "gold/mon_groups", "gold/mon_data")
LINKS: dict[str, Callable[[Resctrl], object]] = {
    "create": lambda resctrl: os.open(resctrl.path("mon_groups/a/new"), os.O_WRONLY | os.O_CREAT, 0o644),
    "create in root": lambda resctrl: os.open(resctrl.path("new"), os.O_WRONLY | os.O_CREAT, 0o644),
    "unlink": lambda resctrl: os.unlink(resctrl.path("tasks")),
    "symlink": lambda resctrl: os.symlink("tasks", resctrl.path("other")),
    "link": lambda resctrl: os.link(resctrl.path("tasks"), resctrl.path("other")),
}
# By errno and words in last_cmd_status (None: any; POISON: those of the command before): operation and arguments.
REFUSED: dict[tuple[int, str | None], list[tuple[str, ...]]] = {
    (errno.EEXIST, None): [
        ("mkdir", path)
        for path in ("gold", "mon_groups/a", "tasks", "info", "mon_groups", "gold/mon_groups", "mon_data")
    ],
    (errno.EINVAL, Resctrl.POISON): [
        ("mkdir", "new\nline"),
        ("mkdir", "mon_groups/new\nline"),
        ("write", "gold/schemata", "L3:0=f"),
        ("write", "gold/mode", "exclusive"),
        ("write", SIZE, "x\n"),
    ],
    (errno.ERANGE, Resctrl.POISON): [("write", SIZE, "99999999999\n")],
    (errno.EPERM, "ok"): [
        *(("mkdir", f"gold/{path}") for path in ("a", "mon_data/a", "mon_data/mon_L3_00/a", "mon_groups/mon_groups")),
        *(("mkdir", f"gold/mon_groups/g/{path}") for path in ("a", "mon_groups", "mon_data/a")),
        *(("mkdir", path) for path in ("mon_groups/mon_groups", "mon_data/a", "mon_data/mon_L3_00/a")),
    ],
    (errno.EPERM, Resctrl.POISON): [("rmdir", path) for path in (*FOLDERS, "gold/mon_groups/g/mon_data")],
    (errno.EPERM, None): [("unlink",), ("symlink",), ("link",)],
    (errno.ENOENT, None): [("mkdir", "nope/mon_groups/a"), ("mkdir", "mon_groups/nope/a")],
    (errno.EACCES, None): [
        *(("create",), ("create in root",)),
        *(("write", path, "") for path in ("size", "info/last_cmd_status", "mon_data/mon_L3_00/llc_occupancy")),
    ],
    (errno.EINVAL, "Schemata overlaps"): [("write", "gold/mode", "exclusive\n")],
    (errno.EINVAL, "Unknown or unsupported mode"): [
        ("write", "gold/mode", text) for text in ("nonsense\n", " exclusive\n", "\n")
    ],
    (errno.EINVAL, "Bad CPU list/mask"): [
        *(("write", "gold/cpus_list", text) for text in ("x\n", "1-0\n", "none\n", "0x1\n")),
        *(("write", "gold/cpus", text) for text in ("x\n", "0x1\n", "0-1\n")),
    ],
    (errno.ERANGE, "Bad CPU list/mask"): [("write", "gold/cpus_list", text) for text in ("99999\n", "0-99999\n")],
    (errno.EOVERFLOW, "Bad CPU list/mask"): [("write", "gold/cpus", f"{','.join(['ffffffff'] * 5)}\n")],
    (errno.EINVAL, "Can only add CPUs to mongroup that belong to parent"): [
        ("write", "gold/mon_groups/g/cpus_list", "0\n")
    ],
    (errno.EINVAL, None): [
        *(("write", "tasks", text) for text in ("junk", "1 1", "1\n1\n", "09", "0b1", "1_0", "1.0", "0x", "+", "- 1")),
        *(("write", "tasks", text) for text in ("2147483648", "-2147483649", "99999999999999", "\u0661")),
    ],
    (errno.E2BIG, None): [("write", "mon_groups/a/tasks", "0" * (os.sysconf("SC_PAGESIZE") + 1))],
}
RENAMES: dict[tuple[int, str | None], list[tuple[str, ...]]] = {
    (errno.EEXIST, "ok"): [("mon_groups/a", "mon_groups/b"), ("mon_groups/a", "gold/mon_groups/g")],
    (errno.ENOENT, Resctrl.POISON): [("info", "mon_groups/x"), ("info/L3", "mon_groups/x"), ("mon_groups/a", "info/x")],
    (errno.EPERM, "Source must be a MON group"): [
        *(("gold", "silver"), ("gold", "mon_groups/gold"), ("mon_groups", "gold/x")),
        *((old, "mon_groups/x") for old in ("mon_data", "mon_data/mon_L3_00", "gold/mon_groups")),
    ],
    (errno.EPERM, "Destination must be a mon_groups subdirectory"): [
        ("mon_groups/a", new)
        for new in ("silver", "gold/x", "gold/mon_data/x", "mon_groups/mon_groups", "gold/mon_groups/g/x")
    ],
    (errno.EPERM, "Source and destination must be directories"): [
        ("mon_groups/a/tasks", "mon_groups/a/t"),
        ("mon_groups/a/tasks", "mon_groups/t"),
    ],
}


def check_refusal(resctrl: Resctrl, words: tuple[str, ...], why: tuple[int, str | None]) -> None:
    """Hold a refused operation to its errno and words, and see that it changes nothing."""
    operation, *arguments = words
    resctrl.make("gold", "gold/mon_groups/g", "mon_groups/a", "mon_groups/b")
    resctrl.write("gold/cpus_list", "1\n")

    def state() -> list[object]:
        files = ("schemata", "gold/schemata", "gold/mode", "cpus_list", "gold/cpus_list", SIZE)
        folders = ("", "mon_groups", "gold/mon_groups", "mon_groups/a")
        return [*(resctrl.read(file) for file in files), *(resctrl.names(folder) for folder in folders)]

    before = state()
    resctrl.poison()
    with resctrl.refused(*why):
        LINKS[operation](resctrl) if operation in LINKS else getattr(resctrl, operation)(*arguments)
    assert state() == before


def cases(table: dict[tuple[int, str | None], list[tuple[str, ...]]]) -> list[object]:
    return [pytest.param(words, why, id=ascii(words)[:40]) for why, rows in table.items() for words in rows]


@pytest.mark.parametrize("words, why", cases(REFUSED))
def test_operation_is_refused_and_changes_nothing(
    resctrl: Resctrl, words: tuple[str, ...], why: tuple[int, str | None]
) -> None:
    check_refusal(resctrl, words, why)


@pytest.mark.parametrize("words, why", cases(RENAMES))
def test_rename_is_refused_and_changes_nothing(
    resctrl: Resctrl, words: tuple[str, ...], why: tuple[int, str | None]
) -> None:
    check_refusal(resctrl, ("rename", *words), why)


def test_rename_into_another_class_removes_tasks_from_old_one(resctrl: Resctrl, task: int) -> None:
    resctrl.make("gold", "mon_groups/a", "mon_groups/b")
    resctrl.write("mon_groups/a/tasks", str(task))
    resctrl.poison()
    resctrl.rename("mon_groups/a", "gold/mon_groups/c")
    assert resctrl.status == "ok"
    assert (resctrl.names("mon_groups"), resctrl.names("gold/mon_groups")) == ({"b"}, {"c"})
    with resctrl.refused(errno.EINVAL):
        resctrl.write("mon_groups/b/tasks", str(task))
    assert resctrl.tasks("gold/mon_groups/c") == resctrl.tasks("gold") == {task}
    assert task not in resctrl.tasks()
    resctrl.rename("gold/mon_groups/c", "mon_groups/c")
    assert resctrl.tasks("gold") == set()
    assert task in resctrl.tasks()
    resctrl.rename("mon_groups/c", "mon_groups/d")
    assert (resctrl.names("mon_groups"), resctrl.tasks("mon_groups/d")) == ({"b", "d"}, {task})


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


def test_rename_of_a_group_with_cpus_stays_in_its_class(resctrl: Resctrl) -> None:
    resctrl.make("gold", "mon_groups/a")
    resctrl.write("mon_groups/a/cpus_list", "0\n")
    with resctrl.refused(errno.EPERM, "Cannot move a MON group that monitors CPUs"):
        resctrl.rename("mon_groups/a", "gold/mon_groups/a")
    resctrl.rename("mon_groups/a", "mon_groups/b")
    assert resctrl.lines("mon_groups/b", "cpus_list") == ["0"]
