"""Groups: creation, removal and content."""

import errno
import os
import stat

import pytest

from .filesystem import Resctrl

MON_FILES = {"cpus", "cpus_list", "mon_data", "tasks"}
CTRL_FILES = MON_FILES | {"mode", "mon_groups", "schemata", "size"}


def test_mkdir_creates_classes_and_mon_groups_with_their_files(resctrl: Resctrl) -> None:
    group = resctrl.make("mon_groups/a")
    assert resctrl.names(group) >= MON_FILES
    assert not resctrl.names(group) & {"mon_groups", "schemata"}
    assert resctrl.names(resctrl.make("gold")) >= CTRL_FILES
    assert resctrl.names("gold/mon_groups") == set()
    resctrl.make("gold/mon_groups/a")
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


@pytest.mark.parametrize("path", ["gold", "mon_groups/a", "gold/mon_groups/a"])
def test_new_group_has_neither_tasks_nor_cpus(resctrl: Resctrl, path: str) -> None:
    resctrl.make("gold")
    if path != "gold":
        resctrl.make(path)
    assert resctrl.tasks(path) == set()
    assert resctrl.lines(path, "cpus_list") in ([], [""])


def test_files_and_folders_have_usual_modes(resctrl: Resctrl) -> None:
    resctrl.make("gold", "gold/mon_groups/a")
    modes = {
        "gold": 0o40755,
        "gold/mon_groups": 0o40755,
        "gold/mon_groups/a": 0o40755,
        "gold/tasks": 0o100644,
        "gold/schemata": 0o100644,
        "gold/size": 0o100444,
        "gold/mon_groups/a/tasks": 0o100644,
    }
    assert {path: os.stat(resctrl.path(path)).st_mode for path in modes} == modes
    assert os.stat(resctrl.path("gold/tasks")).st_size == 0


def test_existing_group_is_eexist(resctrl: Resctrl) -> None:
    resctrl.make("gold", "mon_groups/a")
    for path in ("gold", "mon_groups/a", "tasks", "info", "mon_groups", "gold/mon_groups", "mon_data"):
        with resctrl.refused(errno.EEXIST):
            resctrl.mkdir(path)


REFUSED: dict[tuple[int, str | None], list[str]] = {
    (errno.EINVAL, Resctrl.POISON): ["new\nline", "mon_groups/new\nline"],
    (errno.EPERM, "ok"): [
        "gold/a",
        "gold/mon_data/a",
        "gold/mon_data/mon_L3_00/a",
        "gold/mon_groups/g/a",
        "gold/mon_groups/g/mon_groups",
        "gold/mon_groups/g/mon_data/a",
        "gold/mon_groups/mon_groups",
        "mon_groups/mon_groups",
        "mon_data/a",
        "mon_data/mon_L3_00/a",
    ],
    (errno.ENOENT, None): ["nope/mon_groups/a", "mon_groups/nope/a"],
}


@pytest.mark.parametrize("path, why", [(path, why) for why, paths in REFUSED.items() for path in paths])
def test_mkdir_of_or_in_other_folders_is_refused(resctrl: Resctrl, path: str, why: tuple[int, str | None]) -> None:
    resctrl.make("gold", "gold/mon_groups/g")
    resctrl.poison()
    with resctrl.refused(*why):
        resctrl.mkdir(path)


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


OTHERS = ["info", "info/L3", "mon_data", "mon_data/mon_L3_00", "mon_groups", "gold/mon_groups", "gold/mon_data"]


@pytest.mark.parametrize("path", [*OTHERS, "gold/mon_groups/g/mon_data"])
def test_rmdir_of_other_folder_is_eperm_without_words(resctrl: Resctrl, path: str) -> None:
    resctrl.make("gold", "gold/mon_groups/g")
    resctrl.poison()
    with resctrl.refused(errno.EPERM, Resctrl.POISON):
        resctrl.rmdir(path)


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
    with resctrl.opened(os.O_WRONLY, "gold/tasks") as descriptor:
        resctrl.rmdir("gold")
        with resctrl.refused(errno.ENODEV):
            os.write(descriptor, b"0")


@pytest.mark.kernel_only
def test_open_folder_of_removed_group_is_empty(resctrl: Resctrl) -> None:
    # FUSE's high-level interface forgets removed folders: it answers ESTALE.
    resctrl.make("gold")
    with resctrl.opened(os.O_RDONLY, "gold") as descriptor:
        resctrl.rmdir("gold")
        assert os.listdir(descriptor) == []


def test_mkdir_in_open_folder_of_removed_group_fails(resctrl: Resctrl) -> None:
    resctrl.make("gold")
    with resctrl.opened(os.O_RDONLY, "gold") as descriptor:
        resctrl.rmdir("gold")
        with resctrl.refused(errno.ENOENT):
            os.mkdir("a", dir_fd=descriptor)


@pytest.mark.parametrize("path", ["mon_groups/a/new", "new"])
def test_file_creation_is_refused(resctrl: Resctrl, path: str) -> None:
    resctrl.make("mon_groups/a")
    with resctrl.refused(errno.EACCES):
        os.open(resctrl.path(path), os.O_WRONLY | os.O_CREAT, 0o644)


def test_unlink_and_link_are_refused(resctrl: Resctrl) -> None:
    with resctrl.refused(errno.EPERM):
        os.unlink(resctrl.path("tasks"))
    with resctrl.refused(errno.EPERM):
        os.symlink("tasks", resctrl.path("other"))
    with resctrl.refused(errno.EPERM):
        os.link(resctrl.path("tasks"), resctrl.path("other"))


@pytest.mark.parametrize("path", ["size", "info/last_cmd_status", "mon_data/mon_L3_00/llc_occupancy"])
def test_root_cannot_write_read_only_file(resctrl: Resctrl, path: str) -> None:
    for flags in (os.O_WRONLY, os.O_RDWR):
        with resctrl.refused(errno.EACCES):
            os.open(resctrl.path(path), flags)


def test_writing_may_truncate_and_append(resctrl: Resctrl, task: int) -> None:
    group = resctrl.make("mon_groups/a")
    for flags in (os.O_TRUNC, os.O_APPEND, os.O_CREAT | os.O_TRUNC):
        descriptor = os.open(resctrl.path(group, "tasks"), os.O_WRONLY | flags, 0o644)
        os.write(descriptor, str(task).encode())
        os.close(descriptor)
        assert resctrl.tasks(group) == {task}


def test_permissions_and_owners_can_be_changed(resctrl: Resctrl) -> None:
    tasks = resctrl.path(resctrl.make("mon_groups/a"), "tasks")
    os.chmod(tasks, 0o600)
    os.chown(tasks, 1, 2)
    seen = os.stat(tasks)
    assert (stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid) == (0o600, 1, 2)
