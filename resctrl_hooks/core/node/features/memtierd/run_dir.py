"""The run folder of a container's memtierd: RUNDIR/NAMESPACE/POD/CONTAINER/ID, private to root.

Every part is checked and opened below its parent without following links, so that neither a name nor another user's
write access leads elsewhere.
"""

import errno
import posix

from ...errors import HookError
from ...host.files import check_owner, list_folder, make_folder, read_all
from ...names import valid_container_id

CONFIG = "memtierd.config.yaml"
OUTPUT = "memtierd.output"
PID = "memtierd.pid"
STATS = "memtierd.stats"
NOBODY = "_"  # in place of a name for containers without a pod; not a valid Kubernetes name
_PRIVATE = 0o700
_FILE = 0o600
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_LONGEST_NAME = 253  # a pod's name is a DNS subdomain (RFC 1123)
_TRIES = 5
_FLAGS = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW
_LARGEST_FILE = 1 << 22
_DEPTH = 4


class RunFolderError(HookError):
    """A run folder cannot be created, used or removed."""

    reason = "run-folder"


class RunFolder:
    """One container's run folder; ``names`` are its namespace's, pod's and container's, empty if missing.

    Raises:
        RunFolderError: a name is not a valid path component.
    """

    def __init__(self, root: str, names: "tuple[str, str, str]", container: str) -> None:
        for name in names:
            if name and not _valid_name(name):
                raise RunFolderError(f"{name[:80]!r} is not a valid directory name", hint="memtierd is not started")
        if root[:1] != "/" or "/../" in f"{root}/":
            raise RunFolderError(f"not an absolute path: {root[:200]!r}", hint="memtierd is not started")
        if not valid_container_id(container):
            raise RunFolderError(f"{container[:80]!r} is not a valid directory name", hint="memtierd is not started")
        self.root = root
        self.parts = (*(name or NOBODY for name in names), container)
        self.path = "/".join((root, *self.parts))

    def make(self) -> "Opened":
        """Create the folder and its parents, and open it.

        Raises:
            RunFolderError: one of them is a link, or another user owns or can write it.
        """
        tries = _TRIES
        while True:
            try:
                make_folder(self.root, _PRIVATE)
                return Opened(self._walk(make=True), self.path)
            except OSError as error:
                # The end of another container may just have removed a shared parent.
                tries -= 1
                if not tries or error.errno != errno.ENOENT:
                    raise self._error(error) from error

    def open(self) -> "Opened | None":
        """Open the folder; return None if it does not exist.

        Raises:
            RunFolderError: as `make`.
        """
        try:
            return Opened(self._walk(make=False), self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._error(error) from error

    def remove(self) -> bool:
        """Remove the folder with its files, and empty parents; return whether it existed.

        Raises:
            RunFolderError: an entry cannot be removed.
        """
        opened = self.open()
        if opened is None:
            return False
        try:
            opened.clear()
            posix.rmdir(self.path)
        except OSError as error:
            raise self._error(error) from error
        finally:
            opened.close()
        try:
            for depth in range(len(self.parts) - 1, 0, -1):
                posix.rmdir("/".join((self.root, *self.parts[:depth])))
        except OSError as error:
            # Not empty: other containers. Missing: another hook removed it.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise self._error(error) from error
        return True

    def _walk(self, *, make: bool) -> int:
        here = posix.open(self.root, _FLAGS)
        try:
            check_owner(posix.fstat(here), self.root)
            for part in self.parts:
                if make:
                    try:
                        posix.mkdir(part, _PRIVATE, dir_fd=here)
                    except FileExistsError:
                        pass
                below = posix.open(part, _FLAGS, dir_fd=here)
                posix.close(here)
                here = below
                check_owner(posix.fstat(here), part)
        except BaseException:
            posix.close(here)
            raise
        return here

    def _error(self, error: OSError) -> RunFolderError:
        return RunFolderError.of_file(error, self.path)


class Opened:
    """An open run folder; its files are accessed through it, whatever happens to the path."""

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.path = path

    def write(self, name: str, data: bytes) -> None:
        """Replace a file atomically."""
        temporary = f"{name}.new"
        flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NOFOLLOW
        fd = posix.open(temporary, flags, _FILE, dir_fd=self.fd)
        try:
            while data:
                data = data[posix.write(fd, data) :]
        finally:
            posix.close(fd)
        posix.rename(temporary, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def read(self, name: str) -> bytes:
        """Return a file's content, empty if it does not exist."""
        try:
            fd = posix.open(name, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK, dir_fd=self.fd)
        except FileNotFoundError:
            return b""
        try:
            return read_all(fd, _LARGEST_FILE, name)
        finally:
            posix.close(fd)

    def clear(self) -> None:
        """Remove the files in it."""
        for name in posix.listdir(self.fd):
            posix.unlink(name, dir_fd=self.fd)

    def close(self) -> None:
        """Close it."""
        posix.close(self.fd)


def run_folders(root: str) -> "list[RunFolder]":
    """Return every container's run folder below ``root``."""
    found: "list[tuple[str, ...]]" = [()]
    for _ in range(_DEPTH):
        found = [(*parts, name) for parts in found for name in list_folder("/".join((root, *parts)))]
    folders = []
    for namespace, pod, name, container in found:
        try:
            folders.append(RunFolder(root, (namespace, pod, name), container))
        except RunFolderError:
            continue  # not a name of this program
    return folders


def _valid_name(name: str) -> bool:
    return len(name) <= _LONGEST_NAME and name[0] != "." and _LETTERS.issuperset(name)
