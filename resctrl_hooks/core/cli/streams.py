"""The standard streams of a command: closed ones, and an output that cannot be written."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STDOUT = 1


class OutputError(OSError):
    """Stdout accepts no more, as on a full disk."""


class _Output(io.FileIO):
    """Stdout. Its failures differ from those of all other files, so that the message can name it."""

    def write(self, data: "ReadableBuffer", /) -> int | None:  # type: ignore[override]  # None: it would block
        """Write bytes."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise  # the reader closed the pipe, which is usual
        except OSError as error:
            raise OutputError(error.errno, error.strerror) from error


@contextmanager
def standard_streams() -> Iterator[None]:
    """Prepare the standard streams for a command, and discard output that stdout did not accept."""
    _open_closed_streams()
    given: TextIO = sys.stdout
    ours = sys.stdout = _named(given)
    for stream in (ours, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # the terminal's encoding has no sort arrows; sort works without them
            stream.reconfigure(errors="replace")
    try:
        yield
    finally:
        _drop_unwritten(ours)  # click may have replaced sys.stdout
        sys.stdout = given


def _open_closed_streams() -> None:
    """Open /dev/null for each closed standard stream; else a file of the command would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # open until the process ends


def _named(stdout: TextIO) -> TextIO:
    """Return stdout with the errors of `_Output`; a stream of another program, such as a test's, stays."""
    try:
        if not isinstance(stdout, io.TextIOWrapper) or stdout.fileno() != _STDOUT:
            return stdout
    except OSError:
        return stdout
    stdout.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Output(_STDOUT, "wb", closefd=False)),
        encoding=stdout.encoding,
        line_buffering=stdout.line_buffering,
        write_through=stdout.write_through,
    )


def _drop_unwritten(stdout: TextIO) -> None:
    """Discard output that stdout did not accept; the interpreter would report it a second time at exit."""
    try:
        stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stdout.fileno())
        os.close(nowhere)
