"""The FUSE adapter: translates the kernel's requests to a mounted simulation into calls of the `Tree`, with mfusepy."""

import errno
import itertools
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import mfusepy

from .counters import WORDS
from .files import File
from .model import Resctrl
from .tree import Node, Tree

XATTR = "user.resctrl.reading"
"""The extended attribute that sets a counter's content: `Unavailable`, `Unassigned`, `Error`, or a number."""

_PAGE = 4096
_PERIOD = 0.25
"""Seconds between two looks at all tasks: a task that ended counts until the next look."""
_PERIOD_OF_WORK = 0.05
"""The same with the work of pods, whose counters in cgroups are written then."""
_PAUSE = 20
"""The least pause between two looks, in times of the last one: at most 5 % of a CPU."""


@dataclass(slots=True, eq=False)
class Handle:
    """An open file: its text is created by a read from the start, and kept for the following reads."""

    node: Node
    text: bytes = b""


class Filesystem(mfusepy.Operations):  # type: ignore[misc]
    """A resctrl filesystem for FUSE; ``ready`` is called after the mount."""

    use_ns = True
    # Open files are identified by their handle: a group can be renamed or removed while they are open.
    flag_nopath = True
    flag_nullpath_ok = True

    def __init__(self, resctrl: Resctrl, ready: Callable[[], None]) -> None:
        self._resctrl = resctrl
        self._tree = Tree(resctrl)
        self._ready = ready
        self.mounted = False
        self._open: dict[int, Handle] = {}
        self._numbers = itertools.count(1)
        self._inodes = itertools.count(1)
        self._owner = (os.getuid(), os.getgid())
        self._born = time.time_ns()

    def init(self, path: str) -> None:
        """Report the mount."""
        self.mounted = True
        threading.Thread(target=self._settle, daemon=True).start()
        self._ready()

    def _settle(self) -> NoReturn:
        """Look at all tasks again and again: a file system does not see their end."""
        period = _PERIOD if self._resctrl.load is None else _PERIOD_OF_WORK
        while True:
            begun = time.thread_time()
            with self._resctrl.lock:
                self._resctrl.settle()
            time.sleep(max(period, _PAUSE * (time.thread_time() - begun)))

    def _node(self, path: str | None, fh: int | None = None) -> Node:
        if fh and fh in self._open:
            return self._open[fh].node
        if path is None:  # fchmod and fchown: mfusepy does not pass the handle
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return self._tree.find(path)

    def getattr(self, path: str | None, fh: int | None = None) -> dict[str, Any]:
        """Answer stat."""
        with self._resctrl.lock:
            node = self._node(path, fh)
            mode, uid, gid = self._attributes(node)
            subfolders = sum(not isinstance(entry, File) for entry in self._tree.entries(node).values())
            inode = self._inode(node)
        return {
            "st_ino": inode,
            "st_mode": mode,
            "st_nlink": 1 if isinstance(node.entry, File) else 2 + subfolders,
            "st_uid": uid,
            "st_gid": gid,
            "st_size": 0,
            "st_mtime": self._born,
            "st_ctime": self._born,
            "st_atime": self._born,
        }

    def _attributes(self, node: Node) -> tuple[int, int, int]:
        return node.group.attributes.get(node.path, (node.mode, *self._owner))

    def _inode(self, node: Node) -> int:
        """Return a number that is unique for the group's lifetime and never reused, as in kernfs."""
        inodes = node.group.inodes
        if node.path not in inodes:
            inodes[node.path] = next(self._inodes)
        return inodes[node.path]

    def chmod(self, path: str | None, mode: int) -> int:
        """Change permissions."""
        with self._resctrl.lock:
            node = self._node(path)
            old, uid, gid = self._attributes(node)
            node.group.attributes[node.path] = (stat.S_IFMT(old) | stat.S_IMODE(mode), uid, gid)
        return 0

    def chown(self, path: str | None, uid: int, gid: int) -> int:
        """Change the owner; -1 leaves it."""
        with self._resctrl.lock:
            node = self._node(path)
            mode, old_uid, old_gid = self._attributes(node)
            owner = (old_uid if uid < 0 else uid, old_gid if gid < 0 else gid)
            node.group.attributes[node.path] = (mode, *owner)
        return 0

    def _accept(self, *_: Any, **__: Any) -> int:
        """Do nothing, as the kernel does."""
        return 0

    truncate = utimens = _accept

    def _handle(self, node: Node) -> int:
        number = next(self._numbers)
        self._open[number] = Handle(node)
        return number

    def opendir(self, path: str) -> int:
        """Open a directory."""
        with self._resctrl.lock:
            return self._handle(self._tree.find(path))

    def readdir(self, path: str | None, fh: int) -> Iterable[tuple[str, dict[str, int], int]]:
        """List a directory, with inode numbers: the C library skips a name whose number is 0."""
        with self._resctrl.lock:
            node = self._open[fh].node
            nodes = [(name, node.child(name, entry)) for name, entry in self._tree.entries(node).items()]
            return [(name, {"st_ino": self._inode(one)}, 0) for name, one in [(".", node), ("..", node), *nodes]]

    def mkdir(self, path: str, mode: int) -> int:
        """Create a group."""
        with self._resctrl.lock:
            self._tree.make(path)
        return 0

    def rmdir(self, path: str) -> int:
        """Remove a group."""
        with self._resctrl.lock:
            self._tree.remove(path)
        return 0

    def rename(self, old: str, new: str) -> int:
        """Rename a MON group."""
        with self._resctrl.lock:
            self._tree.rename(old, new)
        return 0

    def open(self, path: str, flags: int) -> int:
        """Open a file. Not even root can open a read-only one for writing."""
        with self._resctrl.lock:
            node = self._tree.find(path)
            writes = flags & os.O_ACCMODE != os.O_RDONLY
            if writes and (node.file.write is None or not self._attributes(node)[0] & 0o222):
                raise PermissionError(errno.EACCES, path)
            return self._handle(node)

    def release(self, path: str | None, fh: int) -> int:
        """Close a file."""
        self._open.pop(fh, None)
        return 0

    releasedir = release

    def read(self, path: str | None, size: int, offset: int, fh: int) -> bytes:
        """Read a file."""
        with self._resctrl.lock:
            handle = self._open[fh]
            node = handle.node
            if node.group.deleted:
                raise OSError(errno.ENODEV, node.path)
            if offset == 0:
                handle.text = os.fsencode(node.file.read(node.group))
            return handle.text[offset : offset + size]

    def write(self, path: str | None, data: bytes, offset: int, fh: int) -> int:
        """Write a file; each write is a separate command, whatever its offset."""
        uid, _, tid = mfusepy.fuse_get_context()
        with self._resctrl.lock:
            node = self._open[fh].node
            if node.group.deleted:
                raise OSError(errno.ENODEV, node.path)
            if len(data) > _PAGE:
                raise OSError(errno.E2BIG, node.path)
            assert node.file.write is not None
            node.file.write(node.group, data.decode(errors="surrogateescape"), (tid, uid))
        return len(data)

    def statfs(self, path: str) -> dict[str, int]:
        """Answer statfs."""
        return {"f_bsize": _PAGE, "f_frsize": _PAGE, "f_namemax": 255}

    def _refuse(self, *_: Any) -> NoReturn:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    unlink = symlink = link = _refuse

    def _refuse_file(self, path: str, *_: Any) -> NoReturn:
        raise PermissionError(errno.EACCES, path)

    create = mknod = _refuse_file

    def _counter(self, path: str, name: str) -> tuple[dict[tuple[str, str], str], tuple[str, str]]:
        """Return the fixed contents of a group's counters, and the counter at a path."""
        node = self._tree.find(path)
        if name != XATTR or not isinstance(node.entry, File) or node.entry.counter is None:
            raise OSError(errno.ENOTSUP, path)
        return node.group.readings, node.entry.counter

    def setxattr(self, path: str, name: str, value: bytes, options: int, position: int = 0) -> int:
        """Set a counter's content, independent of its count; see `XATTR`."""
        text = value.decode(errors="replace")
        if text not in WORDS and not text.replace(".", "", 1).isdecimal():
            raise OSError(errno.EINVAL, path)
        with self._resctrl.lock:
            readings, counter = self._counter(path, name)
            readings[counter] = text
        return 0

    def removexattr(self, path: str, name: str) -> int:
        """Return a counter to its count."""
        with self._resctrl.lock:
            readings, counter = self._counter(path, name)
            if readings.pop(counter, None) is None:
                raise OSError(errno.ENODATA, path)
        return 0
