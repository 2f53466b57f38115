"""One read of a group's counters: the existing files and their contents."""

import posix

from ..host.files import GONE
from .counters import ERROR, UNASSIGNED, UNAVAILABLE, Domain, Slot, counter_named, domain_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .counters import Raw

_MOST = 4096  # files of one group; a real machine has about ten per domain
LONGEST = 64
"""Characters of a counter: 20 digits, or a word."""
FOLDER_FLAGS = posix.O_RDONLY | posix.O_DIRECTORY
_WORDS = {word.encode(): word for word in (UNAVAILABLE, UNASSIGNED, ERROR)}


def layout(mon_data: str, known: "Sequence[Slot] | None" = None) -> "list[Slot]":
    """Return the files of a ``mon_data`` folder in order, equal for all groups; empty without such a folder.

    Args:
        mon_data: the folder.
        known: the files of the last read, which replace those of a folder that exists and cannot be listed now. With
            None such a folder has none.

    Raises:
        OSError: with ``known``, a folder cannot be listed now, and its files are not known.
    """
    slots: "list[Slot]" = []
    try:
        names = sorted(posix.listdir(mon_data))
    except OSError as error:
        return _instead(error, "", known)
    for name in names:
        domain = domain_named(name)
        if domain is not None:
            slots += _slots(f"{mon_data}/{name}", domain, known)
    return slots[:_MOST]


def _slots(folder: str, domain: Domain, known: "Sequence[Slot] | None") -> "list[Slot]":
    slots: "list[Slot]" = []
    try:
        names = sorted(posix.listdir(folder))
    except OSError as error:
        return _instead(error, f"{domain.folder}/", known)
    for name in names:
        part = None if domain.node is not None else domain_named(name, domain)
        if part is None:
            slots.append(Slot(domain, counter_named(name)))
        else:
            slots += _slots(f"{folder}/{name}", part, known)
    return slots


def _instead(error: OSError, below: str, known: "Sequence[Slot] | None") -> "list[Slot]":
    """Return the files of a folder that could not be listed: none of an offline domain or a removed group."""
    if error.errno in GONE or known is None:
        return []
    slots = [slot for slot in known if slot.path.startswith(below)]
    if not slots:
        raise error
    return slots


def read_group(folder: str, slots: "Sequence[Slot]") -> "tuple[str, list[Raw]]":
    """Return a group's identity, and each file's value: a number, a state, or None if the file does not exist.

    The identity is the folder's device and inode number, which survive a rename but not a removal. The files are read
    through the open folder, so that both belong to the same group.

    Raises:
        OSError: the group does not exist (`GONE`), or cannot be read now.
    """
    group = posix.open(folder, FOLDER_FLAGS)
    try:
        found = posix.fstat(group)
        values = [_read(group, slot.file) for slot in slots]
    finally:
        posix.close(group)
    return identity_of(found), values


def identity_of(found: "posix.stat_result") -> str:
    """Return the identity of a group by the state of its folder."""
    return f"{found.st_dev:x}:{found.st_ino:x}"


def _read(
    group: int, file: str, open_: "Any" = posix.open, read: "Any" = posix.read, close: "Any" = posix.close
) -> "Raw":
    # Bound once: each lookup costs microseconds for thousands of files per scrape.
    try:
        fd = open_(file, posix.O_RDONLY, dir_fd=group)
    except OSError as error:
        return None if error.errno in GONE else ERROR
    try:
        text = read(fd, LONGEST)
    except OSError as error:
        return None if error.errno in GONE else ERROR
    finally:
        close(fd)
    return value_of(text)


def value_of(text: bytes) -> "int | float | str":
    """Return the value of a counter file's content: a number or a state."""
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
