"""Detection of running runtimes that do not see new files in their hooks' folder.

CRI-O reads its folders at startup, skips missing ones, and watches the others by inotify (containers/common,
pkg/hooks), so it silently ignores a folder created later or again. Podman reads its folders for each container.
"""

import os
from collections.abc import Iterator
from typing import Final

import psutil

from resctrl_hooks.core.programs import output

from .runtime import Runtime
from .tree import Tree

LOOKS_PAST: Final = "{name} started before {folder} was created and does not read it"
_WATCHES: Final = "crio"
_INOTIFY: Final = "inotify "
_SECONDS: Final = 10


def looks_past(runtime: Runtime, tree: Tree, folder: str) -> bool:
    """Return whether a running runtime started before its hooks' folder was created, and so never reads it.

    Only a process that has this very folder at that path counts: an image's folders belong to no running process. An
    unknown answer, for example without root, is false.
    """
    real = tree.real(folder)
    try:
        inode = os.stat(real).st_ino
    except OSError:
        return False
    return any(
        inode not in _watched(process.pid) and _made(real) > process.create_time()
        for process in _processes(runtime)
        if _has(process.pid, folder, real)
    )


def _processes(runtime: Runtime) -> Iterator[psutil.Process]:
    for process in psutil.process_iter(["name"]) if runtime.name == _WATCHES else ():
        if process.info["name"] == _WATCHES:
            yield process


def _has(pid: int, folder: str, real: str) -> bool:
    try:
        return os.path.samefile(f"/proc/{pid}/root{folder}", real)
    except OSError:
        return False


def _watched(pid: int) -> set[int]:
    """Return the inodes that a process watches by inotify: proc_pid_fdinfo(5)."""
    found = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fdinfo"):
            with open(f"/proc/{pid}/fdinfo/{name}", encoding="ascii", errors="replace") as file:
                lines = [line.split() for line in file if line.startswith(_INOTIFY)]
            found |= {int(word[len("ino:") :], 16) for words in lines for word in words if word.startswith("ino:")}
    except (OSError, ValueError):
        pass  # the process or its descriptor is gone
    return found


def _made(path: str) -> float:
    """Return a folder's creation time in seconds since 1970; 0 if unknown to the file system.

    Python has no statx(2).
    """
    try:
        return float(output("stat", "--format=%.9W", path, seconds=_SECONDS))
    except ValueError:
        return 0.0
