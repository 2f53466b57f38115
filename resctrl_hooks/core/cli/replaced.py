"""Replaces a text file as a whole, so that a reader never sees a part of it."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO


@contextmanager
def replacing(path: str, mode: int | None = None) -> Iterator[IO[str]]:
    """Yield a new file beside ``path`` that replaces it at the end. After an error, the file is as before.

    Args:
        path: the file; a link is followed. A pipe, a device, or a file in a foreign folder is written directly.
        mode: its permissions; None: those and the owner of the replaced file, or of any new file.

    Raises:
        OSError: it cannot be written.
    """
    try:
        there = os.stat(path)
    except FileNotFoundError:
        there = None
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if there is not None and not (stat.S_ISREG(there.st_mode) and os.access(folder, os.W_OK)):
        with open(path, "w", encoding="utf-8", newline="") as file:
            yield file
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="", dir=folder, suffix=".new", delete=False) as new:
        try:
            yield new
            new.flush()
            if there is not None and mode is None:
                with suppress(PermissionError):  # of another user's file in a shared folder
                    os.fchown(new.fileno(), there.st_uid, there.st_gid)
            os.fchmod(new.fileno(), _mode(there) if mode is None else mode)
            os.rename(new.name, target)
        except BaseException:
            os.unlink(new.name)
            raise


def _mode(there: os.stat_result | None) -> int:
    if there is not None:
        return stat.S_IMODE(there.st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
