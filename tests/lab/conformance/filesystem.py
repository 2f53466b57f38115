"""A mounted resctrl as the tests use it: paths below its root, each write one system call, as the kernel wants."""

import ctypes
import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

import pytest

T = TypeVar("T")
MS_REMOUNT = 32
MOUNT_FLAGS = {os.ST_NOSUID: 2, os.ST_NODEV: 4, os.ST_NOEXEC: 8, os.ST_RELATIME: 1 << 21}
"""Flags of mount(2) by those of statvfs(3), to keep a mount's options."""

PATIENCE = 30.0
"""Seconds to wait for asynchronous changes, such as RMIDs in limbo or growing counters. Never a measured quantity."""

NEWEST = (7, 2)  # the kernel that the tests describe, and the simulation follows
FORGETS = (7, 2)  # every command replaces the words in `last_cmd_status`; 6.12's mkdir, for one, adds to them
NAMES_THE_TASK = (6, 7)  # with lists of thread ids came a line that names the one that failed


def eventually(look: Callable[[], T | None]) -> T:
    """Look again and again until there is something to see."""
    end = time.monotonic() + PATIENCE
    while True:
        seen = look()
        if seen:
            return seen
        assert time.monotonic() < end, f"waited {PATIENCE} s in vain"
        time.sleep(0.05)


def visit(cpu: int) -> None:
    """Run on a CPU for a moment: a process that was waited for may still be leaving it."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    os.sched_setaffinity(0, allowed)


class Resctrl:
    """The filesystem at a path. Paths are below it; files written and groups made are those of one test."""

    def __init__(self, root: str, kernel: tuple[int, int] = NEWEST) -> None:
        self.root = root
        self.kernel = kernel

    def path(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    def read(self, *parts: str) -> str:
        with open(self.path(*parts), encoding="utf-8") as file:
            return file.read()

    def lines(self, *parts: str) -> list[str]:
        """Return the lines of a file without the blanks around them, sorted: kernels order resources differently."""
        return sorted(line.strip() for line in self.read(*parts).splitlines())

    def write(self, path: str, text: str | bytes) -> int:
        """Write a file in one call; return the result of write(2)."""
        with self.opened(os.O_WRONLY, path) as descriptor:
            return os.write(descriptor, text if isinstance(text, bytes) else text.encode())

    @property
    def status(self) -> str:
        """The kernel's message on the last command, without its last newline."""
        return self.read("info/last_cmd_status").removesuffix("\n")

    POISON = "Unknown or unsupported resource name 'poison'"

    @contextmanager
    def opened(self, flags: int, *parts: str) -> Iterator[int]:
        descriptor = os.open(self.path(*parts), flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def poison(self) -> None:
        """Leave words in `last_cmd_status`, and on all kernels no others, to see whether a command changes them."""
        with pytest.raises(OSError, match="Invalid argument"):
            self.write("schemata", "poison:0=1\n")
        assert self.status == self.POISON

    @contextmanager
    def refused(self, number: int, words: str | None = None) -> Iterator[None]:
        """Expect a command to fail with this errno and, unless None, these words in `last_cmd_status`."""
        if words is not None and self.kernel < FORGETS:
            self.poison()
        with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is looked at below
            yield
        assert errno.errorcode[caught.value.errno or 0] == errno.errorcode[number]
        if words is not None:
            assert self.status in self.as_said(words)

    def as_said(self, words: str) -> set[str]:
        if self.kernel < NAMES_THE_TASK:
            lines = [line for line in words.splitlines() if not line.startswith("Error while processing task")]
            words = "\n".join(lines)
        if self.kernel < FORGETS:  # some commands forget the words before theirs, some don't
            return {words, f"{self.POISON}\n{words}"} | ({self.POISON} if words == "ok" else set())
        return {words}

    def mkdir(self, path: str | bytes) -> None:
        os.mkdir(os.path.join(os.fsencode(self.root), os.fsencode(path)))

    def make(self, *paths: str) -> str:
        """Make groups, and wait for RMIDs that earlier tests have left in limbo. Returns the last path."""

        def attempt(path: str) -> bool:
            try:
                self.mkdir(path)
            except OSError as error:
                if error.errno == errno.EBUSY:
                    return False
                raise
            return True

        for path in paths:
            eventually(partial(attempt, path))
        return paths[-1]

    def rmdir(self, path: str) -> None:
        os.rmdir(self.path(path))

    def rename(self, old: str, new: str) -> None:
        os.rename(self.path(old), self.path(new))

    def drop_dentries(self) -> None:
        """Let the kernel forget every path of this mount that is not in use, as it does when memory is short.

        A remount does so (fs/super.c, reconfigure_super: shrink_dcache_sb), and for no other file system.
        """
        libc = ctypes.CDLL(None, use_errno=True)
        flags = sum(MOUNT_FLAGS[bit] for bit in MOUNT_FLAGS if os.statvfs(self.root).f_flag & bit)
        if libc.mount(None, os.fsencode(self.root), None, MS_REMOUNT | flags, None):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), self.root)

    def tasks(self, group: str = "") -> set[int]:
        """Return the thread ids in a group's `tasks`."""
        return {int(line) for line in self.read(group, "tasks").split()}

    def names(self, path: str = "") -> set[str]:
        return set(os.listdir(self.path(path)))

    def classes(self) -> list[str]:
        fixed = {"info", "mon_data", "mon_groups"}
        return sorted(name for name in self.names() - fixed if os.path.isdir(self.path(name)))

    def clean(self) -> None:
        """Remove all classes and groups, also while another program removes some."""
        for path in (*self.classes(), *(f"mon_groups/{name}" for name in sorted(self.names("mon_groups")))):
            with suppress(FileNotFoundError):
                self.rmdir(path)

    @property
    def rmids(self) -> int:
        """How many groups there can be, the root group too: the smallest number of any monitoring resource."""
        resources = [name for name in self.names("info") if name.endswith("_MON")]
        return min(int(self.read("info", name, "num_rmids")) for name in resources)

    @property
    def closids(self) -> int:
        resources = [name for name in self.names("info") if os.path.exists(self.path("info", name, "num_closids"))]
        return min(int(self.read("info", name, "num_closids")) for name in resources)

    def fill(self, folder: str = "mon_groups") -> list[str]:
        """Make groups until the RMIDs have run out, with none in limbo."""
        made: list[str] = []

        def full() -> bool:
            path = f"{folder}/fill{len(made)}"
            try:
                self.mkdir(path)
            except OSError as error:
                if error.errno not in (errno.EBUSY, errno.ENOSPC):
                    raise
                time.sleep(0.05 * (error.errno == errno.EBUSY))
                return error.errno == errno.ENOSPC
            made.append(path)
            return False

        end = time.monotonic() + PATIENCE
        while not full():
            assert time.monotonic() < end
        return made
