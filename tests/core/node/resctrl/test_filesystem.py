import errno
import os
import subprocess
from collections.abc import Callable

import pytest
from conftest import Host

from resctrl_hooks.core.node.errors import (
    BadClassError,
    ClassMismatchError,
    GroupExistsError,
    NoMonitoringError,
    NoRMIDsError,
    NotArrivedError,
    NotMountedError,
    NotPermittedError,
    ReadOnlyError,
    ResctrlError,
    RMIDsBusyError,
    TaskGoneError,
)
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem, Resctrl
from resctrl_hooks.core.node.resctrl.kernel_refusals import last_cmd_status


class Refusing(Filesystem):
    """A file system that answers calls with errnos, and records them."""

    def __init__(self, **numbers: int) -> None:
        self.numbers = numbers
        self.asked: list[tuple[str, str]] = []

    def _ask(self, call: str, path: str) -> None:
        self.asked.append((call, path))
        if call in self.numbers:
            raise OSError(self.numbers[call], os.strerror(self.numbers[call]), path)

    def mkdir(self, path: str) -> None:
        self._ask("mkdir", path)
        super().mkdir(path)

    def rmdir(self, path: str) -> None:
        self._ask("rmdir", path)
        super().rmdir(path)

    def rename(self, old: str, new: str) -> None:
        self._ask("rename", old)
        super().rename(old, new)

    def write(self, path: str, value: bytes) -> None:
        self._ask("write", path)
        super().write(path, value)

    def is_folder(self, path: str) -> bool:
        if path.endswith("/k"):
            self._ask("is_folder", path)
        return super().is_folder(path)


class Losing(Filesystem):
    """Takes thread ids and does nothing with them."""

    def write(self, path: str, value: bytes) -> None:
        return


def resctrl(host: Host, fs: Filesystem | None = None) -> Resctrl:
    return Resctrl(str(host.resctrl), fs, str(host.proc))


BY_NUMBER = [
    (errno.ENOSPC, NoRMIDsError),
    (errno.EBUSY, RMIDsBusyError),
    (errno.EINVAL, ClassMismatchError),
    (errno.EEXIST, GroupExistsError),
    (errno.EACCES, NotPermittedError),
    (errno.EPERM, NotPermittedError),
    (errno.EROFS, ReadOnlyError),
    (errno.EIO, ResctrlError),
    (errno.ENOENT, ResctrlError),
]


@pytest.mark.parametrize("number, kind", BY_NUMBER)
@pytest.mark.parametrize(
    "call, use",
    [
        ("mkdir", lambda r: r.create("", "k")),
        ("rmdir", lambda r: r.remove("", "k")),
        ("write", lambda r: r.add_tasks("", "k", [7])),
        ("is_folder", lambda r: r.exists("", "k")),
    ],
)
def test_each_errno_has_its_type(
    host: Host, call: str, use: Callable[[Resctrl], object], number: int, kind: type[ResctrlError]
) -> None:
    if (call, number) == ("rmdir", errno.ENOENT):
        assert use(resctrl(host)) is False
        return
    (host.resctrl / "info/last_cmd_status").write_text("its words\n")
    with pytest.raises(ResctrlError) as caught:
        use(resctrl(host, Refusing(**{call: number})))
    assert type(caught.value) is kind
    assert (caught.value.errno, caught.value.kernel) == (number, "its words")
    assert errno.errorcode[number] in str(caught.value)


def test_ok_status_is_not_a_kernel_message(host: Host) -> None:
    assert last_cmd_status(resctrl(host)) == ""
    (host.resctrl / "info/last_cmd_status").write_text("ok\n")
    assert last_cmd_status(resctrl(host)) == ""


def test_allocation_only_resctrl_is_recognized(host: Host) -> None:
    (host.root / "allocation/info/L3").mkdir(parents=True)
    only = Resctrl(str(host.root / "allocation"), proc=str(host.proc))
    with pytest.raises(NoMonitoringError, match="has no monitoring"):
        only.create("", "k")
    assert only.groups("") == []


def test_unmounted_resctrl_is_reported(host: Host) -> None:
    there_is_none = Resctrl(str(host.root / "none"), proc=str(host.proc))
    with pytest.raises(NotMountedError, match="resctrl is not mounted at"):
        there_is_none.create("", "k")
    with pytest.raises(NotMountedError):
        there_is_none.classes()
    assert there_is_none.groups("") == []
    assert there_is_none.tasks("", "k") == set()
    assert there_is_none.remove("", "k") is False


def test_groups_are_created_and_removed(host: Host) -> None:
    host.add_class("gold")
    on = resctrl(host)
    on.create("gold", "k")
    assert on.exists("gold", "k")
    assert not on.exists("", "k")
    assert on.groups("gold") == ["k"]
    assert on.classes() == ["gold"]
    on.add_tasks("gold", "k", [7, 8])
    assert on.tasks("gold", "k") == {7, 8}
    assert on.remove("gold", "k")
    assert not on.remove("gold", "k")


def test_class_folder_is_never_created(host: Host) -> None:
    with pytest.raises(BadClassError, match="RDT class 'gold' does not exist"):
        resctrl(host).create("gold", "k")
    assert not (host.resctrl / "gold").exists()


@pytest.mark.parametrize("name", ["..", "a/b", "info", "mon_groups", "mon_data", "\n", "\0"])
def test_invalid_class_is_refused(host: Host, name: str) -> None:
    for use in (resctrl(host).create, resctrl(host).remove, resctrl(host).exists, resctrl(host).tasks):
        with pytest.raises(BadClassError, match="invalid RDT class name"):
            use(name, "k")


def test_class_with_unprintable_name_is_skipped(host: Host) -> None:
    """The kernel takes any name without a line feed; one such must not keep `list` and metrics from the others."""
    for name in (b"gold", b"\xff", b"a\tb"):
        os.makedirs(os.path.join(os.fsencode(host.resctrl), name, b"mon_groups"))
    resctrl = Resctrl(str(host.resctrl))
    assert resctrl.classes() == ["gold"]


def test_group_can_move_to_another_class(host: Host) -> None:
    host.add_class("gold")
    resctrl(host).create("", "k")
    assert resctrl(host).move("", "k", "gold")
    assert host.groups() == ["gold/mon_groups/k"]
    for number in (errno.EPERM, errno.EXDEV, errno.EOPNOTSUPP):
        assert not resctrl(host, Refusing(rename=number)).move("gold", "k", "")
    with pytest.raises(ReadOnlyError):
        resctrl(host, Refusing(rename=errno.EROFS)).move("gold", "k", "")


# Moving processes


def test_all_threads_are_moved_with_one_write_each(host: Host) -> None:
    host.process(7, threads=(8, 9))
    fs = Refusing()
    resctrl(host, fs).create("", "k")
    assert resctrl(host, fs).assign("", "k", 7) == 3
    assert [call for call, _ in fs.asked].count("write") == 3
    assert host.tasks("mon_groups/k") == [7, 8, 9]


@pytest.mark.parametrize("last, moved", [(7, 2), (1000, 20)], ids=["one thread", "endlessly"])
def test_threads_that_start_meanwhile_are_found_without_blocking(host: Host, last: int, moved: int) -> None:
    host.process(7)

    class Breeding(Filesystem):
        def write(self, path: str, value: bytes) -> None:
            super().write(path, value)
            if int(value) <= last:
                host.process(7, threads=(int(value) + 1,))

    resctrl(host).create("", "k")
    assert resctrl(host, Breeding()).assign("", "k", 7) == moved


def test_ended_thread_is_skipped(host: Host) -> None:
    host.process(7, threads=(8,))

    class Ending(Filesystem):
        def write(self, path: str, value: bytes) -> None:
            if value == b"8\n":
                (host.proc / "7/task/8").rmdir()
                raise OSError(errno.ESRCH, "No such process")
            super().write(path, value)

    resctrl(host).create("", "k")
    resctrl(host, Ending()).assign("", "k", 7)
    assert host.tasks("mon_groups/k") == [7]


@pytest.mark.parametrize("gone", [True, False])
def test_ended_process_is_reported(host: Host, gone: bool) -> None:
    if not gone:
        host.process(7)
    resctrl(host).create("", "k")
    with pytest.raises(TaskGoneError, match="process 7 has ended"):
        resctrl(host, Refusing(write=errno.ESRCH)).assign("", "k", 7)


@pytest.mark.parametrize("where", ["res:/\nmon:other\n", "res:gold\nmon:k\n", "res:/\nmon:\n"])
def test_threads_that_did_not_arrive_are_reported(host: Host, where: str) -> None:
    host.process(7)
    (host.proc / "7/task/7/cpu_resctrl_groups").write_text(where)
    resctrl(host).create("", "k")
    with pytest.raises(NotArrivedError, match="thread 7 of process 7 was moved"):
        resctrl(host, Losing()).assign("", "k", 7)


def test_arrival_is_checked_in_proc_or_tasks(host: Host) -> None:
    host.process(7)
    resctrl(host).create("", "k")
    assert resctrl(host).assign("", "k", 7) == 1
    resctrl(host).create("", "other")
    with pytest.raises(NotArrivedError, match="is in another group"):
        resctrl(host, Losing()).assign("", "other", 7)
    (host.proc / "7/task/7/cpu_resctrl_groups").write_text("res:/\nmon:other\n")
    assert resctrl(host, Losing()).assign("", "other", 7) == 1


def test_simulation_next_to_host_resctrl_is_not_confused(host: Host) -> None:
    host.process(7)
    (host.proc / "7/task/7/cpu_resctrl_groups").write_text("res:/\nmon:\n")
    resctrl(host).create("", "k")
    assert resctrl(host).assign("", "k", 7) == 1


def test_real_process_with_threads_is_moved(host: Host) -> None:
    script = (
        "import threading, time\n"
        "for _ in range(5): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen(["/usr/bin/python3", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        real = Resctrl(str(host.resctrl))
        real.create("", "k")
        assert real.assign("", "k", process.pid) == 6
        process.kill()


def test_plain_tree_removes_only_its_own_file(host: Host) -> None:
    on = resctrl(host)
    on.create("", "k")
    (host.resctrl / "mon_groups/k/foreign").touch()
    with pytest.raises(ResctrlError, match="ENOTEMPTY"):
        on.remove("", "k")
