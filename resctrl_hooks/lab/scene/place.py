"""The folder of a simulated node: who may use it, which process runs there, and what an interrupted start has left.

A start holds a lock on the mark file, and `_READY` exists once the node judges pods. A folder without it and without a
lock is that of a start that ended early: all that it left is removed first.
"""

import fcntl
import os
import shutil
import stat
from contextlib import suppress
from typing import Final

import psutil

from resctrl_hooks.core.fuse import MountError, prepare

RESCTRL: Final = "resctrl"
"""The mount point of the node's simulation."""
ENVIRONMENT: Final = "RESCTRL_HOOKS_NODE"
"""The variable in the environment of all processes of a node: its folder."""
_MARK, _READY = ".resctrl-node", "ready"
_SECONDS_TO_END, _ATTEMPTS = 5, 4


class Place:
    """The folder of a node, locked by its start until `close`.

    Args:
        folder: its absolute path; created if missing. Files and processes of an earlier node in it are removed.
        own: names of files and folders that a node writes into it; other ones are the user's.

    Raises:
        MountError: something else is in the folder, another user can write to it, or a process is starting a node.
    """

    def __init__(self, folder: str, own: tuple[str, ...]) -> None:
        self._folder = folder
        try:
            os.makedirs(folder, 0o755, exist_ok=True)
            names = os.listdir(folder)
        except OSError as error:
            raise MountError(f"cannot create {folder}: {error.strerror}") from None
        _check_own(folder)
        if names and _MARK not in names:
            raise MountError(f"{folder} has other files: name an empty or a new folder")
        self._lock = os.open(f"{folder}/{_MARK}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            self._take()
            with suppress(FileNotFoundError):
                os.remove(f"{folder}/{_READY}")  # first: what follows may be interrupted
            if names:
                _end_processes(folder)
            prepare(f"{folder}/{RESCTRL}")
            for name in own:
                path = f"{folder}/{name}"
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path)
                elif os.path.lexists(path):
                    os.remove(path)
        except BaseException:
            self.close()
            raise

    def _take(self) -> None:
        """Lock the folder, and write who did.

        Raises:
            MountError: another process holds it, or its node has become ready meanwhile.
        """
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(self._lock, 20, 0).decode(errors="replace").strip()
            raise MountError(
                f"process {pid or '(unknown)'} is starting a node in {self._folder}: wait for it"
            ) from None
        if runs := running(self._folder):
            raise MountError(f"process {runs} runs a node in {self._folder}: repeat the command")
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def complete(self, pid: int) -> None:
        """Mark the node as ready; ``pid`` is the process of its simulation."""
        path = f"{self._folder}/{_READY}"
        with open(f"{path}~", "w", encoding="ascii") as file:
            file.write(f"{pid}\n")
        os.replace(f"{path}~", path)

    def close(self) -> None:
        """Release the lock."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


def running(folder: str) -> int:
    """Return the process of the node that runs in a folder of this user, and judges pods; 0 for none.

    Raises:
        MountError: other users can write to the folder, or it is a link.
    """
    if not os.path.lexists(folder):
        return 0
    _check_own(folder)
    try:
        os.listdir(f"{folder}/{RESCTRL}")
        with open(f"{folder}/{_READY}", encoding="ascii") as file:
            pid = int(file.read())
    except (OSError, ValueError):
        return 0  # such as of a killed simulation
    return pid if os.path.ismount(f"{folder}/{RESCTRL}") else 0


def _check_own(folder: str) -> None:
    """Check that only this user writes to a folder: what root writes there could otherwise end elsewhere.

    Raises:
        MountError: it is a link, or other users can write to it.
    """
    found = os.lstat(folder)
    if stat.S_ISLNK(found.st_mode):
        raise MountError(f"{folder} is a link: name a folder of your own")
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise MountError(f"other users can write to {folder}: name a folder of your own")


def _end_processes(folder: str) -> None:
    """End all processes of an earlier node in a folder: its pods would live on with the new one.

    Raises:
        MountError: they do not end.
    """
    for _ in range(_ATTEMPTS):
        left = [one for one in psutil.process_iter() if _is_of(one, folder)]
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if not left:
            return
        psutil.wait_procs(left, _SECONDS_TO_END)
    raise MountError(f"processes of an earlier node in {folder} do not end")


def _is_of(process: psutil.Process, folder: str) -> bool:
    try:
        return process.pid != os.getpid() and process.environ().get(ENVIRONMENT) == folder
    except (psutil.Error, OSError):
        return False
