"""Ways to break the guest's host, each for the duration of a context; `core.install.breakages` an installation's."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from kernel.runtimes import run

PYTHON = Path("/usr/bin/python3")


@contextlib.contextmanager
def interpreter_gone() -> Iterator[None]:
    """Take away the host's Python."""
    away = PYTHON.rename(f"{PYTHON}.away")
    try:
        yield
    finally:
        away.rename(PYTHON)


@contextlib.contextmanager
def disk_full(folder: Path) -> Iterator[None]:
    """Mount a full file system on a folder, which is created if it is missing."""
    folder.mkdir(exist_ok=True)
    run(["mount", "-t", "tmpfs", "-o", "mode=700,size=16k,nr_inodes=4", "full", str(folder)])
    with contextlib.suppress(OSError):
        (folder / "filler").write_bytes(b"x" * 65536)
    try:
        yield
    finally:
        run(["umount", str(folder)])


@contextlib.contextmanager
def unmounted() -> Iterator[None]:
    """Unmount resctrl."""
    root = os.environ["RESCTRL_ROOT"]
    run(["umount", root])
    try:
        yield
    finally:
        run(["mount", "-t", "resctrl", "resctrl", root])
