"""Reads that fail, or that return contents without meaning: both say nothing about the file."""

import errno

import pytest

ERRORS = (errno.EIO, errno.EMFILE, errno.EACCES, errno.ENOMEM)
ANSWERS = {"empty": b"", "a line": b"\n", "no text": b"\xff\xfe\0garbage\n\n0::", "digits": b"9" * 5000}
"""Contents that no file of the kernel has."""


@pytest.fixture(params=ERRORS, ids=lambda number: errno.errorcode[number])
def no_answer(request: pytest.FixtureRequest) -> OSError:
    """An error that says nothing about the file."""
    return OSError(request.param, "no answer", "/some/file")


@pytest.fixture(params=[*ANSWERS.values()], ids=[*ANSWERS])
def answer(request: pytest.FixtureRequest) -> bytes:
    """An answer without meaning."""
    return bytes(request.param)
