"""Safe file access: bounded reads that follow no link, atomic writes, folders, and JSON."""

import errno
import json
import os
import posix
import re
from pathlib import Path
from typing import Any

import pytest
from hosts.faults import Fail
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.host.files import (
    format_json,
    parse_json,
    read_all,
    read_file,
    read_kernel_file,
    read_small_file,
    write_file,
)

SCALARS = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(st.characters(codec=None), max_size=20)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_json_round_trip_is_identical(value: Any) -> None:
    data = format_json(value)
    assert data.isascii()
    assert data.count(b"\n") == 1
    assert parse_json(data) == value == json.loads(data)


def no_number(name: str) -> None:
    raise ValueError(name)


@given(st.binary(max_size=60) | st.text('[]{}",:0123eE.-tfn \\u', max_size=40).map(str.encode))
def test_reader_agrees_with_json_package(data: bytes) -> None:
    """Only a number of more than 32 digits is refused here and read there."""
    try:
        expected = json.loads(data.decode(), parse_constant=no_number)
    except (ValueError, RecursionError):
        with pytest.raises(ValueError, match=r"."):
            parse_json(data)
    else:
        assert re.search(rb"\d{33}", data) or parse_json(data) == expected


LARGE = b" " * (1 << 16)


@pytest.mark.parametrize("data, words", [
    (b"", "expected a JSON value at character 0"), (b"{} {}", "unexpected text after the JSON value at character 2"),
    (b"\xff", "decode"), (b"\xef\xbb\xbf{}", "expected a JSON value"), (b"NaN", "NaN is not JSON"),
    (b"[Infinity]", "Infinity is not JSON"), (b"9" * 5000, "many digits"), (b"[" * 100_000, "nested too deeply"),
    (b'{"a":' * 100_000, "nested too deeply"), (b'"\x01"', "control character"), (b'{"a" 1}', "delimiter"),
    (b"[" + LARGE + b"1" * 33 + b"]", "number with too many digits"),
])  # fmt: skip
def test_invalid_json_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_json(data)


def test_record_is_one_line_of_plain_values_in_key_order() -> None:
    assert format_json({"b": [True, None, 0.5], "a": {"ü": 1}}) == b'{"b": [true, null, 0.5], "a": {"\\u00fc": 1}}\n'
    assert parse_json(b"[" + LARGE + b"1" * 32 + b"]") == [int("1" * 32)]
    for value, kind, words in (
        ({"a": {1}}, TypeError, "set cannot be stored in a record"),
        ({(1,): 1}, TypeError, "keys must be"),
        ({"a": float("nan")}, ValueError, "not JSON compliant"),
    ):
        with pytest.raises(kind, match=words):
            format_json(value)


def test_no_file_stays_open(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    before = os.listdir("/proc/self/fd")
    write_file(path, b"x")
    read_file(path, 10)
    read_kernel_file(path)
    for refused in (tmp_path, path):
        with pytest.raises(OSError, match=r"."):
            read_file(str(refused), 0)
    assert len(os.listdir("/proc/self/fd")) == len(before)


SIZES = st.one_of(*(st.integers(around - 1, around + 1) for around in (1, 2048, 4096, 8192)), st.integers(0, 20_000))


@given(SIZES, st.integers(-1, 1) | st.integers(-20_000, 20_000))
def test_each_reader_returns_all_data_up_to_its_bound(size: int, more: int) -> None:
    data, limit = os.urandom(size), max(size + more, 0)

    def piped() -> bytes:
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        try:
            return read_all(reading, limit, "it")
        finally:
            os.close(reading)

    path = f"/dev/shm/reader-{os.getpid()}"
    Path(path).write_bytes(data)
    try:
        assert read_kernel_file(path) == data
        for read in (piped, lambda: read_file(path, limit), lambda: read_small_file(path, limit)):
            if size <= limit:
                assert read() == data
            else:
                with pytest.raises(OSError, match=f"larger than {limit} bytes") as caught:
                    read()
                assert caught.value.errno == errno.EFBIG
    finally:
        os.unlink(path)


def test_special_file_is_neither_read_nor_waited_for(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("f")
    (tmp_path / "f").write_text("x")
    os.mkfifo(tmp_path / "fifo")
    for name, number in (("link", errno.ELOOP), ("fifo", errno.EINVAL), (".", errno.EINVAL), ("none", errno.ENOENT)):
        with pytest.raises(OSError, match=r".") as caught:
            read_file(str(tmp_path / name), 10)
        assert caught.value.errno == number
    assert read_file(str(link), 10, follow=True) == b"x"
    with pytest.raises(OSError, match="not a regular file"):
        read_small_file(str(tmp_path / "fifo"), 10)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("mode, owner, reader, trusted", [
    (0o600, 0, 0, True), (0o644, 0, 65534, True), (0o600, 65534, 65534, True),
    (0o620, 0, 0, False), (0o602, 0, 0, False), (0o600, 65534, 0, False), (0o600, 1, 65534, False),
])  # fmt: skip
def test_only_files_of_root_and_of_the_reader_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, reader: int, *, trusted: bool
) -> None:
    path = tmp_path / "f"
    path.write_text("x")
    path.chmod(mode)
    os.chown(path, owner, owner)
    monkeypatch.setattr(posix, "geteuid", lambda: reader)
    assert read_file(str(path), 10) == b"x"
    if trusted:
        assert read_file(str(path), 10, trusted=True) == b"x"
    else:
        with pytest.raises(PermissionError, match="other than root"):
            read_file(str(path), 10, trusted=True)


@pytest.mark.usefixtures("open_umask")
def test_write_replaces_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for data, mode in ((b"one", 0o600), (b"two" * 100_000, 0o644)):
        write_file(str(path), data, mode)
        assert (path.read_bytes(), path.stat().st_mode & 0o777) == (data, mode)
    assert os.listdir(tmp_path) == ["f"]


def test_failed_write_keeps_previous_content_and_leaves_nothing(tmp_path: Path, fail: Fail) -> None:
    (tmp_path / "pod").mkdir()
    with pytest.raises(IsADirectoryError):
        write_file(str(tmp_path / "pod"), b"x")
    (tmp_path / "f").write_text("old")
    fail(posix, "write", OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OSError, match="No space"):
        write_file(str(tmp_path / "f"), b"new")
    assert (tmp_path / "f").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["f", "pod"]


def test_link_in_place_of_temporary_file_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = os.open

    def spy(path: str, flags: int, mode: int) -> int:
        seen.append(path)
        os.symlink("/nonexistent/target", path)
        return real(path, flags, mode)

    monkeypatch.setattr(posix, "open", spy)
    with pytest.raises(OSError, match=r"symbolic link|loop"):
        write_file(str(tmp_path / "f"), b"x")
    assert len(seen) == 1


def test_file_growing_during_read_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    fstat = posix.fstat

    def growing(fd: int) -> os.stat_result:
        found = fstat(fd)
        with path.open("ab") as file:
            file.write(b" and after")
        return found

    monkeypatch.setattr(posix, "fstat", growing)
    assert read_file(str(path), 100) == b"before and after"
    with pytest.raises(OSError, match="larger than"):
        read_file(str(path), 20)
