import errno
import json
import os
import posix
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from hosts.faults import Fail
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.host import files
from resctrl_hooks.core.node.host.files import (
    format_json,
    is_folder,
    is_there,
    kernel_text,
    list_folder,
    make_folder,
    parse_json,
    read_all,
    read_file,
    read_kernel_file,
    read_small_file,
    remove_file,
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


@pytest.mark.parametrize(
    "data, words",
    [
        (b"", "expected a JSON value at character 0"),
        (b"   ", "expected a JSON value"),
        (b"{} {}", "unexpected text after the JSON value at character 2"),
        (b"\xff", "decode"),
        (b"\xef\xbb\xbf{}", "expected a JSON value"),
        (b"NaN", "NaN is not JSON"),
        (b"[Infinity]", "Infinity is not JSON"),
        (b"9" * 5000, "many digits"),  # time is quadratic in them; in a text of a page it is nothing
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'"\x01"', "control character"),
        (b'{"a" 1}', "delimiter"),
    ],
)
def test_invalid_json_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_json(data)


def test_record_accepts_plain_values_only() -> None:
    with pytest.raises(TypeError, match="set cannot be stored in a record"):
        format_json({"a": {1}})
    with pytest.raises(TypeError, match="keys must be"):
        format_json({(1,): 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        format_json({"a": float("nan")})


def test_record_is_one_line_in_key_order() -> None:
    assert format_json({"b": [True, None, 0.5], "a": {"ü": 1}}) == b'{"b": [true, null, 0.5], "a": {"\\u00fc": 1}}\n'


def test_no_file_stays_open(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        write_file(path, b"x")
        read_file(path, 10)
        read_kernel_file(path)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_read_size_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 100_000)
    assert read_file(str(path), 100_000) == b"x" * 100_000
    with pytest.raises(OSError, match="larger than 99999 bytes") as caught:
        read_file(str(path), 99_999)
    assert caught.value.errno == errno.EFBIG


@pytest.mark.parametrize("size", [0, 10, 4096, 5000])
def test_pipe_is_read_to_its_end_or_bound(size: int) -> None:
    def piped(limit: int) -> bytes:
        reading, writing = os.pipe()
        os.write(writing, b"x" * size)
        os.close(writing)
        try:
            return read_all(reading, limit, "the pipe")
        finally:
            os.close(reading)

    assert piped(size) == b"x" * size
    for limit in {size - 1, min(size - 1, 4096)} - {-1}:
        with pytest.raises(OSError, match=f"larger than {limit} bytes: 'the pipe'"):
            piped(limit)


@pytest.mark.parametrize("size", [0, 2047, 2048, 3000, 4096, 10_000])
def test_kernel_file_is_read_whole(tmp_path: Path, size: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * size)
    assert read_kernel_file(str(path)) == b"x" * size


def test_kernel_file_text_is_stripped(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b" two words\n\xff")
    assert kernel_text(str(path)) == "two words\n\ufffd"
    path.write_bytes(b" 7\n")
    assert kernel_text(str(path)) == "7"
    assert kernel_text(str(tmp_path / "none")) == ""


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


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_file_writable_by_others_is_not_trusted(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "f"
    path.write_text("x")
    assert read_file(str(path), 10, trusted=True) == b"x"
    path.chmod(mode)
    assert read_file(str(path), 10) == b"x"
    with pytest.raises(PermissionError, match="other than root"):
        read_file(str(path), 10, trusted=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_file_owned_by_others_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("x")
    os.chown(path, 65534, 65534)
    with pytest.raises(PermissionError):
        read_file(str(path), 10, trusted=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes what is root's")
def test_file_owned_by_root_is_trusted_by_every_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_text("x")
    monkeypatch.setattr(posix, "geteuid", lambda: 65534)
    assert read_file(str(tmp_path / "f"), 10, trusted=True) == b"x"


def test_write_replaces_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    old_mask = os.umask(0)
    try:
        write_file(str(path), b"one")
        assert path.stat().st_mode & 0o777 == 0o600
        write_file(str(path), b"two" * 100_000, 0o644)
    finally:
        os.umask(old_mask)
    assert path.read_bytes() == b"two" * 100_000
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == ["f"]


def test_failed_write_keeps_previous_file(tmp_path: Path, fail: Fail) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    fail(posix, "write", OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OSError, match="No space"):
        write_file(str(path), b"new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]


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


def test_folders_are_created_and_removed(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    (tmp_path / "d").mkdir()
    (tmp_path / "l").symlink_to("d")
    assert [is_folder(str(tmp_path / name)) for name in ("d", "l", "f", "f/x", "none")] == [
        True,
        False,
        False,
        False,
        False,
    ]
    assert list_folder(str(tmp_path / "none")) == list_folder(str(tmp_path / "f")) == []
    assert sorted(list_folder(str(tmp_path))) == ["d", "f", "l"]
    assert remove_file(str(tmp_path / "f")) is True
    assert remove_file(str(tmp_path / "f")) is False


def test_dangling_link_exists(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to("none")
    assert [is_there(str(tmp_path / name)) for name in ("l", ".", "none", "l/x")] == [True, True, False, False]


def test_parent_folders_are_created(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, int]] = []
    monkeypatch.setattr(posix, "mkdir", lambda path, mode: made.append((path, mode)))
    monkeypatch.setattr(posix, "chmod", lambda *_: None)
    assert make_folder("/a/b/c", 0o700) is True
    assert made == [("/a", 0o755), ("/a/b", 0o755), ("/a/b/c", 0o700)]


@pytest.mark.parametrize("mask", [0, 0o077])
def test_folder_and_parents_are_created_under_any_umask(tmp_path: Path, mask: int) -> None:
    (tmp_path / "there").mkdir(mode=0o711)
    (tmp_path / "link").symlink_to("there")
    old_mask = os.umask(mask)
    try:
        assert make_folder(f"{tmp_path}/link/above/own", 0o700) is True
        assert make_folder(f"{tmp_path}/link/above/own", 0o755) is False
    finally:
        os.umask(old_mask)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("there", "there/above", "there/above/own")]
    assert modes == [0o711, 0o755, 0o700]


def test_kernel_files_have_no_size() -> None:
    assert b"Name:" in read_kernel_file("/proc/self/status")


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


def test_modes_match_kernel_numbers() -> None:
    for name in ("S_IFMT", "S_IFREG", "S_IFDIR", "S_IFBLK", "S_IFCHR", "S_IFLNK"):
        assert getattr(files, name) == (0o170000 if name == "S_IFMT" else getattr(stat, name)), name


def test_integer_in_large_text_has_32_digits_at_most() -> None:
    large = b" " * (1 << 16)
    assert parse_json(b"[" + large + b"1" * 32 + b"]") == [int("1" * 32)]
    with pytest.raises(ValueError, match="number with too many digits"):
        parse_json(b"[" + large + b"1" * 33 + b"]")


def test_file_that_cannot_be_renamed_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "pod").mkdir()
    with pytest.raises(IsADirectoryError):
        write_file(str(tmp_path / "pod"), b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["pod"]
