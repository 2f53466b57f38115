"""Writers of values that the kernel changes or refuses, as each of them must notice."""

import errno
import os
import posix
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import Host

from resctrl_hooks.core.node.errors import HookError

AfterWrites = Callable[[str, Callable[[Path], object]], None]


class Writer(NamedTuple):
    write: Callable[[Host], str]  # returns what it tells or records
    ending: str  # the end of the file's path
    kept: str  # the kernel's own value
    trace: str  # the kernel's value in what the writer tells


@pytest.fixture
def after_writes(monkeypatch: pytest.MonkeyPatch) -> AfterWrites:
    """Return a function that lets the kernel do something after each write to files with an ending."""

    def after_writes(ending: str, do: Callable[[Path], object]) -> None:
        write = posix.write

        def written(fd: int, data: bytes) -> int:
            path = Path(os.readlink(f"/proc/self/fd/{fd}"))
            count = write(fd, data)
            if str(path).endswith(f"/{ending}"):
                do(path)
            return count

        monkeypatch.setattr(posix, "write", written)

    return after_writes


def told_by(write: Callable[[Host], str], host: Host) -> str:
    """Return what a writer tells, by its result or its error."""
    try:
        return write(host)
    except HookError as error:
        return str(error)


def check_kept(host: Host, after_writes: AfterWrites, writer: Writer) -> None:
    """Check that a writer tells the value that the kernel keeps instead."""
    after_writes(writer.ending, lambda path: path.write_text(writer.kept))
    assert writer.trace in told_by(writer.write, host)


def check_refused(host: Host, after_writes: AfterWrites, writer: Writer) -> None:
    """Check that a writer tells a refusal."""

    def refuse(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error", str(path))

    after_writes(writer.ending, refuse)
    assert "EIO" in told_by(writer.write, host)
