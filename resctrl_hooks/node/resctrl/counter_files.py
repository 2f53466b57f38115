"""One read of a group's counters: the existing files and their contents."""

import posix

from .counters import ERROR, UNASSIGNED, UNAVAILABLE, Domain, Slot, counter_named, domain_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .counters import Raw

_MOST = 4096  # files of one group; a real machine has about ten per domain
_LONGEST = 64  # characters of a counter: 20 digits, or a word
_FOLDER_FLAGS = posix.O_RDONLY | posix.O_DIRECTORY
_WORDS = {word.encode(): word for word in (UNAVAILABLE, UNASSIGNED, ERROR)}


def layout(mon_data: str) -> "list[Slot]":
    """Return the files of a ``mon_data`` folder in order, equal for all groups; empty without such a folder."""
    slots: "list[Slot]" = []
    for name in _names(mon_data):
        domain = domain_named(name)
        if domain is not None:
            slots += _slots(f"{mon_data}/{name}", domain)
    return slots[:_MOST]


def _slots(folder: str, domain: Domain) -> "list[Slot]":
    slots = []
    for name in _names(folder):
        part = domain_named(name, domain)
        if part is None:
            slots.append(Slot(domain, counter_named(name)))
        else:
            slots += [Slot(part, counter_named(counter)) for counter in _names(f"{folder}/{name}")]
    return slots


def _names(folder: str) -> "list[str]":
    try:
        return sorted(posix.listdir(folder))
    except OSError:
        return []  # an offline domain, or a removed group


def read_group(folder: str, slots: "Sequence[Slot]") -> "tuple[str, list[Raw]]":
    """Return a group's identity, and each file's value: a number, a state, or None if the file does not exist.

    The identity is the folder's device and inode number, which survive a rename but not a removal. The files are read
    through the open folder, so that both belong to the same group.

    Raises:
        OSError: the group does not exist.
    """
    group = posix.open(folder, _FOLDER_FLAGS)
    try:
        found = posix.fstat(group)
        values = [_read(group, slot.file) for slot in slots]
    finally:
        posix.close(group)
    return f"{found.st_dev:x}:{found.st_ino:x}", values


def _read(
    group: int, file: str, open_: "Any" = posix.open, read: "Any" = posix.read, close: "Any" = posix.close
) -> "Raw":
    # Bound once: each lookup costs microseconds for thousands of files per scrape.
    try:
        fd = open_(file, posix.O_RDONLY, dir_fd=group)
    except OSError:
        return None
    try:
        text = read(fd, _LONGEST)
    except OSError:
        text = b""
    close(fd)
    return _value_of(text)


class OpenFiles:
    """Counter files that stay open, for programs that read often: each read is one system call.

    A group's files are kept under its identity: a renamed group keeps them, and a new group of the same name gets its
    own. While files are open resctrl can't be unmounted.

    Args:
        most: how many files to keep open; those of further groups are opened for each read.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: "dict[str, list[int]]" = {}
        self._files: "list[str]" = []
        self._seen: "set[str]" = set()
        self._number = 0

    def read_group(self, folder: str, slots: "Sequence[Slot]") -> "tuple[str, list[Raw]]":
        """Read a group as the function of that name does."""
        files = [slot.file for slot in slots]
        if files != self._files:
            self.close()
            self._files = files
        found = posix.stat(folder)
        identity = f"{found.st_dev:x}:{found.st_ino:x}"
        self._seen.add(identity)
        if identity not in self._open and self._number + len(files) <= self._most:
            self._keep(folder, identity)
        if identity in self._open:
            try:
                values = [None if fd < 0 else _value_of(posix.pread(fd, _LONGEST, 0)) for fd in self._open[identity]]
            except OSError:  # ENODEV: the group is gone, or one of its domains was offline
                self._drop(identity)
            else:
                return identity, values
        return read_group(folder, slots)

    def forget_unseen(self) -> None:
        """Close the files of groups that were not read since the last call."""
        for identity in self._open.keys() - self._seen:
            self._drop(identity)
        self._seen.clear()

    def close(self) -> None:
        """Close all."""
        for identity in list(self._open):
            self._drop(identity)

    def __del__(self) -> None:
        self.close()

    def _keep(self, folder: str, identity: str) -> None:
        group = posix.open(folder, _FOLDER_FLAGS)
        try:
            found = posix.fstat(group)
            if f"{found.st_dev:x}:{found.st_ino:x}" == identity:
                self._open[identity] = [_opened(group, file) for file in self._files]
                self._number += len(self._files)
        finally:
            posix.close(group)

    def _drop(self, identity: str) -> None:
        for fd in self._open.pop(identity):
            if fd >= 0:
                posix.close(fd)
        self._number -= len(self._files)


def _opened(group: int, file: str) -> int:
    """Return a descriptor of a group's file; -1 if it does not exist."""
    try:
        return posix.open(file, posix.O_RDONLY | posix.O_CLOEXEC, dir_fd=group)
    except OSError:
        return -1


def _value_of(text: bytes) -> "int | float | str":
    try:
        return int(text)
    except ValueError:
        return _no_integer(text)


def _no_integer(text: bytes) -> "float | str":
    text = text.strip()
    if text in _WORDS:
        return _WORDS[text]
    try:
        value = float(text)
    except ValueError:
        return ERROR
    return value if 0 <= value < float("inf") else ERROR
