"""The FUSE adapter of the view: read-only, with all files from one moment."""

import errno
import itertools
import os
import stat
import time
from collections.abc import Callable
from typing import Any

import mfusepy

from resctrl_hooks.core.node.errors import HookError

from .contents import GROUPS, Files

_ALWAYS = ("", "mon_data", GROUPS)
_SECONDS = 0.5
"""Seconds for which one read of the node is served: a reader of many files needs all of one moment."""


class Filesystem(mfusepy.Operations):  # type: ignore[misc]
    """A filesystem of the view's files.

    Args:
        read: returns all files' texts.
        output: prints a line: the mount is ready; or the node is unreadable, so that all files answer EIO.
    """

    use_ns = True

    def __init__(self, read: Callable[[], Files], output: Callable[[str], None]) -> None:
        self._read, self._output = read, output
        self.mounted = False
        self._files: Files = {}
        self._folders: dict[str, set[str]] = {}
        self._when, self._problem = float("-inf"), ""
        self._texts: dict[int, bytes] = {}
        self._numbers = itertools.count(1)
        self._born = time.time_ns()

    def init(self, path: str) -> None:
        """Report the mount."""
        self.mounted = True
        self._output("pods' totals are mounted")

    def _refresh(self) -> None:
        if time.monotonic() - self._when < _SECONDS:
            return
        try:
            self._files = self._read()
        except HookError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                self._output(self._problem)
            raise OSError(errno.EIO, os.strerror(errno.EIO)) from None
        self._problem = ""
        self._folders = {folder: set() for folder in _ALWAYS}
        for path in [*_ALWAYS[1:], *self._files]:
            while path:
                above, _, name = path.rpartition("/")
                self._folders.setdefault(above, set()).add(name)
                path = above  # noqa: PLW2901 - up to the root
        self._when = time.monotonic()

    def _find(self, path: str) -> str | set[str]:
        """Return the text of a file or the names in a folder."""
        self._refresh()
        found = self._folders.get(path.strip("/")) or self._files.get(path.strip("/"))
        if found is None and path.strip("/") not in self._folders:
            raise OSError(errno.ENOENT, path)
        return set() if found is None else found

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        """Answer stat."""
        folder = isinstance(self._find(path), set)
        times = dict.fromkeys(("st_mtime", "st_ctime", "st_atime"), self._born)
        mode = stat.S_IFDIR | 0o555 if folder else stat.S_IFREG | 0o444
        return {"st_mode": mode, "st_nlink": 2 if folder else 1, "st_size": 0, **times}

    def readdir(self, path: str, fh: int) -> list[str]:
        """List a folder."""
        return [".", "..", *sorted(self._find(path))]

    def open(self, path: str, flags: int) -> int:
        """Open a file; its content is of this moment."""
        text = self._find(path)
        if flags & os.O_ACCMODE != os.O_RDONLY:
            raise OSError(errno.EROFS, path)
        number = next(self._numbers)
        self._texts[number] = str(text).encode()
        return number

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Read an open file."""
        return self._texts[fh][offset : offset + size]

    def release(self, path: str, fh: int) -> int:
        """Close a file."""
        self._texts.pop(fh, None)
        return 0
