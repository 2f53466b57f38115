"""The guest's cache: one folder for each part, named by a stamp of the part's sources.

A part is made in a temporary folder and renamed when it is complete, under a lock. A user of a part holds its folder
open and locked, so the removal of old parts, perhaps by another checkout, never removes one in use.
"""

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator

VARIABLE = "RESCTRL_VM_CACHE"
KEEP_PARTS = 2  # of each part, how many stamps stay: two checkouts that differ don't rebuild in turns
KEEP_RUNS = 20


class VmError(Exception):
    """An error that a person can fix; the message names the cause."""


def say(text: str) -> None:
    """Report progress on standard error; standard output belongs to the tests."""
    print(f"vm: {text}", file=sys.stderr, flush=True)  # a command's own voice


def folder() -> str:
    """Return the cache folder: $RESCTRL_VM_CACHE, else $XDG_CACHE_HOME/resctrl-hooks, else /var/cache/resctrl-hooks."""
    if own := os.environ.get(VARIABLE):
        path = os.path.abspath(own)
    elif xdg := os.environ.get("XDG_CACHE_HOME"):
        path = os.path.join(os.path.abspath(xdg), "resctrl-hooks")
    else:
        path = "/var/cache/resctrl-hooks"
    os.makedirs(path, exist_ok=True)
    return path


def stamp_of(files: Iterable[str], *more: object) -> str:
    """Return twelve hex digits that change with the content of `files` or with `more`, which needs a stable repr."""
    digest = hashlib.sha256(repr(more).encode())
    for path in files:
        with open(path, "rb") as source:
            digest.update(hashlib.sha256(source.read()).digest())
    return digest.hexdigest()[:12]


def remove(path: str) -> None:
    """Remove a tree, never crossing into a file system that is mounted in it."""
    subprocess.run(["rm", "-rf", "--one-file-system", "--", path], check=True)


@contextlib.contextmanager
def locked(path: str, waiting: str) -> Iterator[None]:
    """Hold an exclusive lock on the file `path`; print `waiting` if another process holds it."""
    with open(path, "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(waiting)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def part(name: str, stamp: str, make: Callable[[str], None]) -> Iterator[str]:
    """Yield the folder of part `name`, which stays in use (safe from removal) while the context lasts.

    Args:
        name: the part, such as `guest`.
        stamp: the stamp of its sources; another stamp is another folder.
        make: called with an empty temporary folder if the part does not exist yet.
    """
    cache = folder()
    final = os.path.join(cache, f"{name}-{stamp}")
    with locked(os.path.join(cache, f"{name}.lock"), f"waiting for another build of the {name}"):
        if not os.path.isdir(final):
            for entry in os.listdir(cache):
                if entry.startswith(f".{name}-"):  # left by an interrupted build: we hold the lock, so no build uses it
                    remove(os.path.join(cache, entry))
            temporary = tempfile.mkdtemp(prefix=f".{name}-", dir=cache)
            try:
                make(temporary)
                os.chmod(temporary, 0o755)
                os.rename(temporary, final)
            finally:
                remove(temporary)
        in_use = os.open(final, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(in_use, fcntl.LOCK_SH)
        os.utime(final)
        _forget_old(cache, name)
    try:
        yield final
    finally:
        os.close(in_use)


def _forget_old(cache: str, name: str) -> None:
    stamps = [os.path.join(cache, entry) for entry in os.listdir(cache) if entry.startswith(f"{name}-")]
    for path in sorted(stamps, key=os.path.getmtime, reverse=True)[KEEP_PARTS:]:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(path)
        except BlockingIOError:
            say(f"{path} is old, but in use")
        finally:
            os.close(descriptor)


def new_run() -> str:
    """Return a new folder for one run's logs and reports; remove the oldest ones."""
    runs = os.path.join(folder(), "runs")
    os.makedirs(runs, exist_ok=True)
    for old in sorted(os.listdir(runs))[: -KEEP_RUNS + 1]:
        remove(os.path.join(runs, old))
    return tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=runs)
