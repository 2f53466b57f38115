"""Safe file access for root: bounded reads that follow no link, atomic writes, and JSON.

JSON uses the C scanner and encoder of ``_json`` directly: the ``json`` package imports ``re``, which alone would double
a hook's start-up time. `posix.open` sets close-on-exec itself (PEP 446).
"""

import errno
import posix
from _json import encode_basestring_ascii, make_encoder, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# inode(7); the stat module is an import.
S_IFMT, S_IFREG, S_IFDIR, S_IFBLK, S_IFCHR, S_IFLNK = 0o170000, 0o100000, 0o040000, 0o060000, 0o020000, 0o120000
S_IWGRP, S_IWOTH = 0o020, 0o002
_READABLE = 0o755
_PAGE = 4096
_SEEK_END = 2  # only os defines it
_LARGEST_KERNEL_FILE = 1 << 26
_PIPE = 1 << 16  # a pipe's size on Linux
_AT_ONCE = 1 << 20
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ESRCH)  # a missing file, cgroup, group or task
UNFINISHED = "~"  # marks an unfinished file; no id or key contains it
ASIDE = ".damaged"
"""The end of the name of a damaged file that was set aside, for `doctor` and people to look at."""
_LONGEST_INTEGER = 32  # more digits than any number in an OCI file; int() of a million digits takes seconds


def _integer(digits: str) -> int:
    if len(digits) > _LONGEST_INTEGER:
        raise ValueError("number with too many digits")
    return int(digits)


def _constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


class _Decoder:
    """The options that `_json.make_scanner` reads; the attributes are those of json.JSONDecoder."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = staticmethod(_integer)
    parse_constant = staticmethod(_constant)


_scan = make_scanner(_Decoder)  # type: ignore[arg-type]  # it reads attributes, from whatever has them
_Decoder.parse_int = int  # type: ignore[assignment]  # in a small text no number can be long, and int() itself is faster
_scan_small = make_scanner(_Decoder)  # type: ignore[arg-type]  # as above


def parse_json(data: bytes, *, trusted: bool = False) -> "Any":
    """Return the JSON value in UTF-8 ``data``. ``trusted`` data, which only root can write, is read faster.

    Raises:
        ValueError: not UTF-8, not JSON, nested too deeply, or followed by something else.
    """
    text = data.decode().strip(" \t\r\n")
    try:
        value, end = (_scan_small if trusted or len(data) < _PAGE else _scan)(text, 0)
    except StopIteration as stop:
        raise ValueError(f"expected a JSON value at character {stop.value}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except SystemError:
        # Until Python 3.12 the C scanner takes its error's type from json.decoder, if something has imported that.
        raise ValueError("malformed JSON") from None
    if end != len(text):
        raise ValueError(f"unexpected text after the JSON value at character {end}")
    return value


def _no_json(value: "Any") -> "Any":
    raise TypeError(f"{type(value).__name__} cannot be stored in a record")


_encode = make_encoder(None, _no_json, encode_basestring_ascii, None, ": ", ", ", False, False, False)  # noqa: FBT003  # the C function takes no names


def format_json(value: "Any") -> bytes:
    """Return ``value`` as one line of ASCII JSON; lone surrogates of hostile input become escapes."""
    return ("".join(_encode(value, 0)) + "\n").encode()


def read_file(path: str, limit: int, *, trusted: bool = False, follow: bool = False) -> bytes:
    """Read a regular file of at most ``limit`` bytes without following a link in its last part.

    With ``trusted``, only a file that only root (or the calling user) owns and can write is read, because its
    content is obeyed. A FIFO or device in the file's place is refused: waiting for it could block.

    Raises:
        OSError: from the kernel, or EFBIG (too large), ELOOP (a link), EPERM (not trusted), EINVAL (no regular file).
    """
    flags = posix.O_RDONLY | posix.O_NONBLOCK | (0 if follow else posix.O_NOFOLLOW)
    fd = posix.open(path, flags)
    try:
        found = posix.fstat(fd)
        if found.st_mode & S_IFMT != S_IFREG:
            raise OSError(errno.EINVAL, "not a regular file", path)
        if trusted:
            check_owner(found, path)
        size = found.st_size
        if size > limit:
            raise OSError(errno.EFBIG, f"larger than {limit} bytes", path)
        data = posix.read(fd, size + 1)
        return data if len(data) == size else data + read_all(fd, limit - len(data), path)
    finally:
        posix.close(fd)


def read_small_file(path: str, limit: int) -> bytes:
    """Read a file as `read_file` does, with one system call less if the file is shorter than a page."""
    fd = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_NOFOLLOW)
    try:
        data = posix.read(fd, _PAGE)
    finally:
        posix.close(fd)
    return data if 0 < len(data) < _PAGE and len(data) <= limit else read_file(path, limit)


def is_roots_alone(found: "posix.stat_result") -> bool:
    """Return whether a file is owned and writable only by root or the calling user, by its status."""
    return not found.st_mode & (S_IWGRP | S_IWOTH) and found.st_uid in (0, posix.geteuid())


def check_owner(found: "posix.stat_result", path: str) -> None:
    """Raise OSError EPERM if other users own the file or can write to it: root is about to obey its content."""
    if not is_roots_alone(found):
        raise OSError(errno.EPERM, "it is owned or writable by a user other than root", path)


def read_all(fd: int, limit: int, what: str) -> bytes:
    """Read ``fd`` to its end; raise OSError EFBIG, which names ``what``, for more than ``limit`` bytes."""
    data = read_beginning(fd, limit)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes", what)
    return data


def read_beginning(fd: int, limit: int) -> bytes:
    """Read ``fd`` to its end, or until the data exceeds ``limit`` bytes.

    The first read is a page: the kernel clears a buffer of the requested size for /proc/sys.
    """
    data = bytearray(posix.read(fd, _PAGE))  # bytes would be copied whole for each addition
    size = 0
    while size < len(data) <= limit:
        size = len(data)
        data += posix.read(fd, max(_PAGE, min(size, _AT_ONCE)))
    return bytes(data)


def read_to_end(fd: int) -> None:
    """Read ``fd`` to its end and drop the data: SIGPIPE kills a program that writes to a closed pipe, as crun does."""
    try:
        while posix.read(fd, _PIPE):
            pass
    except OSError:
        pass  # there is nothing to read


def read_kernel_file(path: str) -> bytes:
    """Read a small file of procfs, sysfs, cgroupfs or resctrl, whose size is only known by reading."""
    fd = posix.open(path, posix.O_RDONLY)
    try:
        data = posix.read(fd, _PAGE)
        # The kernel fills a buffer with whole records, of which none here is near that long: so this was the last.
        return data if len(data) < _PAGE // 2 else data + read_all(fd, _LARGEST_KERNEL_FILE, path)
    finally:
        posix.close(fd)


def write_kernel_file(path: str, value: str) -> None:
    """Write a value to such a file. It is in effect only if the file reads so afterwards: the kernel may keep another.

    The file is never created, and the write never waits: a memory.high below the current use would block the writer
    until the kernel has reclaimed the rest (kernel, Documentation/admin-guide/cgroup-v2.rst, "memory.high").
    """
    # O_TRUNC has no effect on the kernel's files, and makes a simulated host's plain files behave alike.
    fd = posix.open(path, posix.O_WRONLY | posix.O_TRUNC | posix.O_NONBLOCK | posix.O_NOFOLLOW)
    try:
        posix.write(fd, value.encode())
    finally:
        posix.close(fd)


def kernel_text(path: str) -> str:
    """Return the text of such a file without surrounding blanks; empty if it cannot be read."""
    try:
        return read_kernel_file(path).decode("ascii", "replace").strip()
    except OSError:
        return ""


def write_file(path: str, data: bytes, mode: int = 0o600) -> None:
    """Replace ``path`` by ``data`` atomically: after a kill at any moment, it has the old content or the new content.

    There is no fsync: every file that is written this way describes one boot and is void after the next.

    Raises:
        OSError: from the kernel; the old content is kept.
    """
    temporary = f"{path}{UNFINISHED}{posix.getpid()}"
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NOFOLLOW
    fd = posix.open(temporary, flags, mode)
    try:
        try:
            while data:
                data = data[posix.write(fd, data) :]
        finally:
            posix.close(fd)
        posix.rename(temporary, path)
    except OSError:
        remove_file(temporary)
        raise


def append_line(path: str, line: bytes, most: int) -> bool:
    """Append a whole line, without a lock, to a file of at most ``most`` bytes; return false if that is full.

    Raises:
        OSError: from the kernel.
    """
    flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_NONBLOCK
    fd = posix.open(path, flags, 0o600)
    try:
        if posix.lseek(fd, 0, _SEEK_END) + len(line) > most:
            return False
        posix.write(fd, line)
        return True
    finally:
        posix.close(fd)


def make_folder(path: str, mode: int) -> bool:
    """Create a folder, and missing parents readable by all users; return whether the folder was missing.

    The path begins with a slash. Existing folders stay unchanged, and may be links, as /var/run is.
    """
    parts = path.split("/")
    for depth in range(2, len(parts)):
        above = "/".join(parts[:depth])
        try:
            posix.mkdir(above, _READABLE)
            posix.chmod(above, _READABLE)  # whatever the umask is
        except FileExistsError:
            continue
    try:
        posix.mkdir(path, mode)
    except FileExistsError:
        return False
    return True


def remove_file(path: str) -> bool:
    """Remove ``path`` if it exists, and return whether it existed."""
    try:
        posix.unlink(path)
    except FileNotFoundError:
        return False
    return True


def list_folder(path: str) -> "list[str]":
    """Return the names in a folder; empty if it does not exist."""
    try:
        return posix.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def is_folder(path: str) -> bool:
    """Return whether ``path`` is a folder, and not a link to one."""
    try:
        return posix.lstat(path).st_mode & S_IFMT == S_IFDIR
    except (FileNotFoundError, NotADirectoryError):
        return False


def stamp(path: str) -> "tuple[int, int, int] | None":
    """Return a value that changes with a file; None without one, as while an upgrade replaces it."""
    try:
        found = posix.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def is_there(path: str) -> bool:
    """Return whether ``path`` exists; a dangling link exists."""
    try:
        posix.lstat(path)
    except OSError:
        return False
    return True
