"""Mount of a FUSE filesystem at an empty directory, with errors that name the remedy. mfusepy is an extra."""

import contextlib
import ctypes
import errno
import os
import subprocess
from types import MappingProxyType
from typing import Any

from resctrl_hooks.extras import remedy

DEVICE = "/dev/fuse"
_MNT_DETACH = 2  # umount(2)

_OPTIONS = MappingProxyType(
    {
        "foreground": True,
        # One request at a time: each takes microseconds, and several threads would only wait for each other.
        "nothreads": True,
        "direct_io": True,
        "fsname": "resctrl",
        "negative_timeout": 0,
        "nosuid": True,
        "nodev": True,
        "noexec": True,
    }
)


class MountError(Exception):
    """A filesystem cannot be mounted; the text has the cause and the remedy."""


def detach(mountpoint: str) -> None:
    """Unmount a path, in use or not. The caller checks the result."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(os.fsencode(mountpoint), _MNT_DETACH) == 0:
        return
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(["fusermount3", "-u", "-z", "-q", mountpoint], check=False)


def prepare(mountpoint: str) -> str:
    """Make the mountpoint an empty directory without a mount, and return its absolute path.

    A mount would hide a directory's files. A mount whose process is gone (each access answers ENOTCONN) is removed; a
    working mount is left alone.

    Raises:
        MountError: Another filesystem is mounted there, it has files, or it cannot be made a directory.
    """
    path = os.path.abspath(mountpoint)
    try:
        os.listdir(path)  # the kernel answers stat from memory
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    except OSError as error:
        if error.errno != errno.ENOTCONN:
            raise MountError(f"cannot access {path}: {error.strerror}") from None
        detach(path)
    try:
        os.makedirs(path, exist_ok=True)
        mounted_on = os.path.ismount(path)
        has_files = not mounted_on and bool(os.listdir(path))
    except OSError as error:
        raise MountError(f"cannot create the mount point {path}: {error.strerror}") from None
    if mounted_on:
        raise MountError(f"{path} is already a mount point; run `umount {path}` first, or choose another path")
    if has_files:
        raise MountError(f"{path} is not empty; choose an empty or a new directory, a mount hides files")
    return path


def check_fuse() -> None:
    """Report missing requirements in better words than libfuse's.

    Raises:
        MountError: /dev/fuse, mfusepy or libfuse is missing.
    """
    if not os.path.exists(DEVICE):
        raise MountError("/dev/fuse is missing: run `modprobe fuse`, or add the device to the container")
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        raise MountError("no permission for /dev/fuse: run as root (or `chmod 666 /dev/fuse`)")
    try:
        import mfusepy  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise MountError(f"mounting requires mfusepy: {remedy('simulation')}") from None
    except OSError as error:
        raise MountError(f"libfuse is missing ({error}); on Debian, run `apt-get install fuse3`") from None


def serve(path: str, filesystem: Any, **options: Any) -> None:
    """Mount a FUSE filesystem and serve it in this process, until it is unmounted or a signal ends it.

    ``filesystem`` has mfusepy's operations; its `mounted` is whether the mount succeeded. ``options`` are further mount
    options.

    Raises:
        MountError: It cannot be mounted.
    """
    import mfusepy  # noqa: PLC0415 - an extra; see `check_fuse`

    # Only root may use allow_other without user_allow_other in fuse.conf.
    root = os.getuid() == 0
    try:
        mfusepy.FUSE(filesystem, path, **_OPTIONS, **options, allow_other=root, default_permissions=root)
    except RuntimeError as error:
        # libfuse returns the same for a failed mount and for one that a signal has ended.
        if not filesystem.mounted:
            hint = "" if root else "; without root, install the package fuse3"
            raise MountError(f"libfuse cannot mount at {path} (status {error}){hint}") from None
