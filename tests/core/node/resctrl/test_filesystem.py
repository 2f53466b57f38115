"""resctrl by its interface on a plain tree: answers of the kernel, and moves of processes."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, always
from hosts.faults import Fail, failing
from hosts.shared_node import SharedNode

from resctrl_hooks.core.node import errors
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem, Resctrl
from resctrl_hooks.core.node.resctrl.renaming import can_rename, rename

LOST = "the kernel takes thread ids and does nothing with them"
NAMED = (
    *(
        (errno.ENOSPC, errors.NoRMIDsError),
        (errno.EBUSY, errors.RMIDsBusyError),
        (errno.EINVAL, errors.ClassMismatchError),
    ),
    *((errno.EEXIST, errors.GroupExistsError), (errno.EROFS, errors.ReadOnlyError)),
    *((number, errors.NotPermittedError) for number in (errno.EACCES, errno.EPERM)),
    *((number, errors.ResctrlError) for number in (errno.EIO, errno.ENOENT)),
)


class Kernel(Filesystem):
    """A file system that acts before a write, which may lose it."""

    def __init__(self, before_write: Callable[[int], object]) -> None:
        self.before_write = before_write

    def write(self, path: str, value: bytes) -> None:
        if self.before_write(int(value)) is not LOST:
            super().write(path, value)


def refusing(call: str, number: int) -> Any:
    """Let one call of the file system fail; only a look at group k, of those at folders."""
    error = OSError(number, os.strerror(number))
    return failing(Filesystem, call, error, when=lambda _, path, *_more: call != "is_folder" or path.endswith("/k"))


def on(host: Host, fs: Filesystem | None = None) -> Resctrl:
    return Resctrl(str(host.resctrl), fs, str(host.proc))


@pytest.mark.parametrize("number, kind", NAMED)
def test_each_errno_has_its_type(host: Host, number: int, kind: type[errors.ResctrlError]) -> None:
    (host.resctrl / "info/last_cmd_status").write_text("its words\n")
    uses: dict[str, Callable[[Resctrl], object]] = {
        "mkdir": lambda resctrl: resctrl.create("", "k"),
        "rmdir": lambda resctrl: resctrl.remove("", "k"),
        "write": lambda resctrl: resctrl.add_tasks("", "k", [7]),
        "is_folder": lambda resctrl: resctrl.exists("", "k"),
    }
    for call, use in uses.items():
        with refusing(call, number):
            if (call, number) == ("rmdir", errno.ENOENT):
                assert use(on(host)) is False
                continue
            with pytest.raises(errors.ResctrlError) as caught:
                use(on(host))
        assert (type(caught.value), caught.value.errno, caught.value.kernel) == (kind, number, "its words")
        assert errno.errorcode[number] in str(caught.value)


def test_missing_mount_or_monitoring_is_reported(host: Host) -> None:
    other = Resctrl(str(host.root / "other"), proc=str(host.proc))
    with pytest.raises(errors.NotMountedError):
        other.classes()
    for error, words in ((errors.NotMountedError, "not mounted at"), (errors.NoMonitoringError, "has no monitoring")):
        with pytest.raises(error, match=words):
            other.create("", "k")
        assert (other.groups(""), other.tasks("", "k"), other.remove("", "k")) == ([], set(), False)
        (host.root / "other/info/L3").mkdir(parents=True, exist_ok=True)


@pytest.mark.parametrize("name", ["..", "a/b", "info", "mon_groups", "mon_data", "\n", "\0"])
def test_invalid_class_is_refused(host: Host, name: str) -> None:
    for use in (on(host).create, on(host).remove, on(host).exists, on(host).tasks):
        with pytest.raises(errors.BadClassError, match="invalid RDT class name"):
            use(name, "k")


@pytest.mark.houses("lab")
@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV, errno.EROFS])
@pytest.mark.parametrize("never", [True, False])
def test_only_a_kernel_that_renames_nothing_is_remembered(tmp_path: Path, fail: Fail, number: int, never: bool) -> None:
    node = SharedNode(tmp_path, rmids=8)
    one, other = node.start(), node.start()
    refused = OSError(number, "Cannot move a MON group that monitors CPUs")
    fail(node.kernel, "rename", refused, when=lambda old, _: never or old.endswith(one.key))
    of = node.context().monitor
    assert can_rename(of)
    if number == errno.EROFS:
        with pytest.raises(errors.ReadOnlyError):
            rename(of, "", one.key, "", "one")
        return
    assert not rename(of, "", one.key, "", "one")
    assert can_rename(of) is not never
    if not never:
        assert rename(of, "", other.key, "", "other")
        assert node.kernel.groups() == {("", one.key), ("", "other")}
    of.boot = "another boot"
    assert can_rename(of)


@pytest.fixture
def process(host: Host) -> Host:
    """Return a host with process 7 of three threads, and group k in the root class."""
    host.process(7, threads=(8, 9))
    on(host).create("", "k")
    return host


@pytest.mark.parametrize("last, least, most", [(9, 4, 4), (1000, 20, 60)], ids=["one thread", "endlessly"])
def test_threads_that_start_later_are_found_without_blocking(process: Host, last: int, least: int, most: int) -> None:
    def breed(tid: int) -> None:
        if tid <= last:
            process.process(7, threads=tuple(range(8, tid + 4 if last > 9 else 11)))

    assert least <= on(process, Kernel(breed)).assign("", "k", 7) <= most


def test_ended_thread_is_skipped_and_an_ended_process_reported(process: Host) -> None:
    def end(tid: int) -> None:
        if tid == 8:
            (process.proc / "7/task/8").rmdir()
            raise OSError(errno.ESRCH, "No such process")

    assert on(process, Kernel(end)).assign("", "k", 7)
    assert process.tasks("mon_groups/k") == [7, 9]
    for number in (7, 77):
        with pytest.raises(errors.TaskGoneError, match=f"process {number} has ended"), refusing("write", errno.ESRCH):
            on(process).assign("", "k", number)


@pytest.mark.parametrize("where", ["res:/\nmon:other\n", "res:gold\nmon:k\n", "res:/\nmon:\n", None])
def test_threads_that_did_not_arrive_are_reported(process: Host, where: str | None) -> None:
    if where:
        (process.proc / "7/task/7/cpu_resctrl_groups").write_text(where)
    with pytest.raises(errors.NotArrivedError, match="of process 7 was moved"):
        on(process, Kernel(always(LOST))).assign("", "k", 7)
