"""Atomic writing and removal of single files on a host, or below the root folder of an image.

Each file is replaced durably: an empty hook JSON after a power failure would keep CRI-O from starting.
"""

import contextlib
import errno
import os
import re
import stat
from typing import Final

from resctrl_hooks.core.node.host.durable import replace_file, sync_folder
from resctrl_hooks.core.node.host.unfinished import DURABLE

_FOLDER_MODE: Final = 0o755
_TEMPORARY: Final = re.compile(rf"\.(.+)\.[0-9]+\.{DURABLE}")


class Tree:
    """The files below a root; an empty root is the host. Paths are as seen from the root."""

    def __init__(self, root: str = "") -> None:
        self.root = root.rstrip("/")

    def real(self, path: str) -> str:
        """Return the real path below the root."""
        return self.root + path

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""
        return os.path.lexists(self.real(path))

    def read(self, path: str) -> bytes | None:
        """Return a file's content; None if it does not exist."""
        try:
            fd = os.open(self.real(path), os.O_RDONLY | os.O_NONBLOCK)
            with os.fdopen(fd, "rb") as file:  # EISDIR if a folder has the file's name
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise OSError(errno.EINVAL, "not a regular file: remove it", self.real(path))
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, path: str) -> list[str]:
        """Return a folder's names, sorted; empty if it does not exist."""
        try:
            return sorted(os.listdir(self.real(path)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def write(self, path: str, data: bytes, mode: int) -> bool:
        """Write a file; return whether it changed.

        Raises:
            OSError: from the kernel; the previous file is unchanged.
        """
        real = self.real(path)
        if self.read(path) == data and not os.path.islink(real) and os.stat(real).st_mode & 0o7777 == mode:
            return False
        self._inside(os.path.dirname(real))
        replace_file(real, data, mode)
        return True

    def make_folder(self, path: str) -> None:
        """Create one folder, whose parent exists."""
        self._inside(os.path.dirname(self.real(path)))
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.real(path), _FOLDER_MODE)
            os.chmod(self.real(path), _FOLDER_MODE)

    def _inside(self, folder: str) -> None:
        """Refuse links that lead from below the root to this machine's files.

        Links in an image may be absolute.
        """
        root = os.path.realpath(self.root or "/").rstrip("/")
        if not f"{os.path.realpath(folder)}/".startswith(f"{root}/"):
            what = f"a link leads out of {self.root}, to {os.path.realpath(folder)}; run this in a chroot"
            raise OSError(errno.EXDEV, what, folder)

    def missing_folders(self, path: str) -> list[str]:
        """Return the missing parent folders of a file, outermost first."""
        missing: list[str] = []
        folder = os.path.dirname(path)
        while folder != "/" and not os.path.isdir(self.real(folder)):
            missing.insert(0, folder)
            folder = os.path.dirname(folder)
        return missing

    def link(self, path: str, target: str) -> None:
        """Create a symbolic link, or replace one."""
        real = self.real(path)
        self._inside(os.path.dirname(real))
        if os.path.islink(real) and os.readlink(real) == target:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(real)
        os.symlink(target, real)

    def remove(self, path: str) -> bool:
        """Remove a file or link durably; return whether it existed."""
        self._inside(os.path.dirname(self.real(path)))
        try:
            os.unlink(self.real(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        sync_folder(os.path.dirname(self.real(path)))
        return True

    def remove_folder(self, path: str) -> bool:
        """Remove a folder if empty; return whether it was removed."""
        try:
            os.rmdir(self.real(path))
        except OSError:
            return False
        return True

    def remove_all(self, path: str) -> None:
        """Remove a folder with its contents; links are removed, not followed."""
        for name in self.names(path):
            inner = f"{path}/{name}"
            if os.path.isdir(self.real(inner)) and not os.path.islink(self.real(inner)):
                self.remove_all(inner)
            else:
                self.remove(inner)
        self.remove_folder(path)

    def sweep(self, folder: str, names: set[str]) -> None:
        """Remove the temporary files that interrupted calls of `write` left for these names."""
        for name in self.names(folder):
            found = _TEMPORARY.fullmatch(name)
            if found and found[1] in names:
                self.remove(f"{folder}/{name}")
