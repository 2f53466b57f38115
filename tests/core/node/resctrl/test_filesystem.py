"""resctrl by its interface: the kernel's answers, and moves of processes, on a plain tree."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Host, always
from hosts.shared_node import SharedNode

from resctrl_hooks.core.node import errors
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem, Resctrl
from resctrl_hooks.core.node.resctrl.renaming import can_rename, rename

LOST = "the kernel takes thread ids and does nothing with them"


class Kernel(Filesystem):
    """A file system that answers some calls with errnos, records them, and acts before a write."""

    def __init__(self, before_write: Callable[[int], object] = int, **numbers: int) -> None:
        self.numbers = numbers
        self.before_write = before_write
        self.calls: list[str] = []

    def _ask(self, call: str, path: str) -> None:
        self.calls.append(call)
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
        if self.before_write(int(value)) is not LOST:
            super().write(path, value)

    def is_folder(self, path: str) -> bool:
        if path.endswith("/k"):
            self._ask("is_folder", path)
        return super().is_folder(path)


def on(host: Host, fs: Filesystem | None = None) -> Resctrl:
    return Resctrl(str(host.resctrl), fs, str(host.proc))


# The kernel's answers


@pytest.mark.parametrize(
    "number, kind",
    [
        (errno.ENOSPC, errors.NoRMIDsError),
        (errno.EBUSY, errors.RMIDsBusyError),
        (errno.EINVAL, errors.ClassMismatchError),
        (errno.EEXIST, errors.GroupExistsError),
        (errno.EACCES, errors.NotPermittedError),
        (errno.EPERM, errors.NotPermittedError),
        (errno.EROFS, errors.ReadOnlyError),
        (errno.EIO, errors.ResctrlError),
        (errno.ENOENT, errors.ResctrlError),
    ],
)
def test_each_errno_has_its_type(host: Host, number: int, kind: type[errors.ResctrlError]) -> None:
    (host.resctrl / "info/last_cmd_status").write_text("its words\n")
    uses: dict[str, Callable[[Resctrl], object]] = {
        "mkdir": lambda resctrl: resctrl.create("", "k"),
        "rmdir": lambda resctrl: resctrl.remove("", "k"),
        "write": lambda resctrl: resctrl.add_tasks("", "k", [7]),
        "is_folder": lambda resctrl: resctrl.exists("", "k"),
    }
    for call, use in uses.items():
        resctrl = on(host, Kernel(int, **{call: number}))
        if (call, number) == ("rmdir", errno.ENOENT):
            assert use(resctrl) is False
            continue
        with pytest.raises(errors.ResctrlError) as caught:
            use(resctrl)
        assert (type(caught.value), caught.value.errno, caught.value.kernel) == (kind, number, "its words")
        assert errno.errorcode[number] in str(caught.value)


@pytest.mark.parametrize(
    "folders, error", [("info/L3", errors.NoMonitoringError), ("", errors.NotMountedError)], ids=["no monitoring", ""]
)
def test_missing_mount_or_monitoring_is_reported(host: Host, folders: str, error: type[Exception]) -> None:
    if folders:
        (host.root / "other" / folders).mkdir(parents=True)
    other = Resctrl(str(host.root / "other"), proc=str(host.proc))
    with pytest.raises(error, match="has no monitoring" if folders else "resctrl is not mounted at"):
        other.create("", "k")
    if not folders:
        with pytest.raises(errors.NotMountedError):
            other.classes()
    assert (other.groups(""), other.tasks("", "k"), other.remove("", "k")) == ([], set(), False)


@pytest.mark.parametrize("name", ["..", "a/b", "info", "mon_groups", "mon_data", "\n", "\0"])
def test_invalid_class_is_refused(host: Host, name: str) -> None:
    for use in (on(host).create, on(host).remove, on(host).exists, on(host).tasks):
        with pytest.raises(errors.BadClassError, match="invalid RDT class name"):
            use(name, "k")


def test_group_can_move_to_another_class(host: Host) -> None:
    host.add_class("gold")
    on(host).create("", "k")
    assert on(host).move("", "k", "gold")
    assert host.groups() == ["gold/mon_groups/k"]
    for number in (errno.EPERM, errno.EXDEV, errno.EOPNOTSUPP):
        assert not on(host, Kernel(rename=number)).move("gold", "k", "")
    with pytest.raises(errors.ReadOnlyError):
        on(host, Kernel(rename=errno.EROFS)).move("gold", "k", "")


@pytest.mark.houses("lab")
@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV])
@pytest.mark.parametrize("all_refused", [True, False])
def test_only_a_kernel_that_renames_nothing_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, all_refused: bool
) -> None:
    node = SharedNode(tmp_path, rmids=8)
    one, other = node.start(), node.start()
    move = node.kernel.rename

    def refuse(old: str, new: str) -> None:
        if all_refused or old.endswith(one.key):  # one that monitors CPUs
            raise OSError(number, "Cannot move a MON group that monitors CPUs", old)
        move(old, new)

    monkeypatch.setattr(node.kernel, "rename", refuse)
    of = node.context().monitor
    assert can_rename(of)
    assert not rename(of, "", one.key, "", "one")
    assert can_rename(of) is not all_refused
    if not all_refused:
        assert rename(of, "", other.key, "", "other")
        assert node.kernel.groups() == {("", one.key), ("", "other")}
    of.boot = "another boot"
    assert can_rename(of)


# Moves of processes


@pytest.fixture
def process(host: Host) -> Host:
    """Return a host with process 7 of three threads, and group k in the root class."""
    host.process(7, threads=(8, 9))
    on(host).create("", "k")
    return host


@pytest.mark.parametrize("last, moved", [(9, 4), (1000, 60)], ids=["one thread", "endlessly"])
def test_threads_that_start_meanwhile_are_found_without_blocking(process: Host, last: int, moved: int) -> None:
    def breed(tid: int) -> None:
        if tid <= last:
            process.process(7, threads=tuple(range(8, tid + 4 if last > 9 else 11)))

    found = on(process, Kernel(breed)).assign("", "k", 7)
    assert found == moved if last == 9 else 20 <= found <= moved


def test_ended_thread_is_skipped_and_an_ended_process_reported(process: Host) -> None:
    def end(tid: int) -> None:
        if tid == 8:
            (process.proc / "7/task/8").rmdir()
            raise OSError(errno.ESRCH, "No such process")

    assert on(process, Kernel(end)).assign("", "k", 7)
    assert process.tasks("mon_groups/k") == [7, 9]
    for number in (7, 77):
        with pytest.raises(errors.TaskGoneError, match=f"process {number} has ended"):
            on(process, Kernel(write=errno.ESRCH)).assign("", "k", number)


@pytest.mark.parametrize("where", ["res:/\nmon:other\n", "res:gold\nmon:k\n", "res:/\nmon:\n", None])
def test_threads_that_did_not_arrive_are_reported(process: Host, where: str | None) -> None:
    if where:
        (process.proc / "7/task/7/cpu_resctrl_groups").write_text(where)
    with pytest.raises(errors.NotArrivedError, match="of process 7 was moved"):
        on(process, Kernel(always(LOST))).assign("", "k", 7)
