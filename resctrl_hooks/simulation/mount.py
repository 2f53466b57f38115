"""Mount and unmount of simulations: in this process, in a separate one, and after a crash."""

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from resctrl_hooks.extras import remedy

from .machine import Machine

# The process must find this package even if it is not installed.
_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

DEVICE = "/dev/fuse"
_MNT_DETACH = 2
_SECONDS_TO_MOUNT = 30
_SECONDS_TO_END = 10
_FOREVER = 1_000_000_000
"""Seconds. All changes go through the mount, so the kernel's cached names and attributes never become stale."""

_OPTIONS = MappingProxyType(
    {
        "foreground": True,
        # One request at a time: each takes microseconds, and several threads would only wait for each other.
        "nothreads": True,
        "direct_io": True,
        "use_ino": True,
        "fsname": "resctrl",
        "subtype": "resctrl",
        "entry_timeout": _FOREVER,
        "attr_timeout": _FOREVER,
        "negative_timeout": 0,
        "nosuid": True,
        "nodev": True,
        "noexec": True,
    }
)


class SimulationError(Exception):
    """A simulation cannot be mounted; the text has the cause and the remedy."""


def _detach(mountpoint: str) -> None:
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
        SimulationError: Another filesystem is mounted there, it has files, or it cannot be made a directory.
    """
    path = os.path.abspath(mountpoint)
    try:
        os.stat(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno != errno.ENOTCONN:
            raise SimulationError(f"cannot access {path}: {error.strerror}") from None
        _detach(path)
    try:
        os.makedirs(path, exist_ok=True)
        mounted_on = os.path.ismount(path)
        has_files = not mounted_on and bool(os.listdir(path))
    except OSError as error:
        raise SimulationError(f"cannot create the mount point {path}: {error.strerror}") from None
    if mounted_on:
        raise SimulationError(f"{path} is already a mount point; run `umount {path}` first, or choose another path")
    if has_files:
        raise SimulationError(f"{path} is not empty; choose an empty or a new directory, a mount hides files")
    return path


def check_fuse() -> None:
    """Report missing requirements in better words than libfuse's.

    Raises:
        SimulationError: /dev/fuse, mfusepy or libfuse is missing.
    """
    if not os.path.exists(DEVICE):
        raise SimulationError("/dev/fuse is missing: run `modprobe fuse`, or add the device to the container")
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        raise SimulationError("no permission for /dev/fuse: run as root (or `chmod 666 /dev/fuse`)")
    try:
        import mfusepy  # noqa: F401, PLC0415 - an extra that only simulations need
    except ImportError:
        raise SimulationError(f"mounting requires mfusepy: {remedy('simulation')}") from None
    except OSError as error:
        raise SimulationError(f"libfuse is missing ({error}); on Debian, run `apt-get install fuse3`") from None


def serve_here(mountpoint: str, machine: Machine, ready: Callable[[], None] = lambda: None) -> None:
    """Mount a simulation and serve it in this process, until it is unmounted or SIGTERM, SIGINT or SIGHUP comes.

    ``ready`` is called after the mount.

    Raises:
        SimulationError: It cannot be mounted.
    """
    path = prepare(mountpoint)
    check_fuse()
    from .filesystem import Filesystem  # noqa: PLC0415 - imports mfusepy
    from .model import Resctrl  # noqa: PLC0415 - as above, for a quick error

    serve(path, Filesystem(Resctrl(machine), ready))


def serve(path: str, filesystem: Any, **options: Any) -> None:
    """Mount a FUSE filesystem and serve it in this process, until it is unmounted or a signal ends it.

    ``filesystem`` has mfusepy's operations; its `mounted` is whether the mount succeeded. ``options`` are mount options
    other than a simulation's.

    Raises:
        SimulationError: It cannot be mounted.
    """
    import mfusepy  # noqa: PLC0415 - an extra; see `check_fuse`

    # Only root may use allow_other without user_allow_other in fuse.conf.
    root = os.getuid() == 0
    try:
        mfusepy.FUSE(filesystem, path, **{**_OPTIONS, **options}, allow_other=root, default_permissions=root)
    except RuntimeError as error:
        # libfuse returns the same for a failed mount and for one that a signal has ended.
        if not filesystem.mounted:
            hint = "" if root else "; without root, install the package fuse3"
            raise SimulationError(f"libfuse cannot mount at {path} (status {error}){hint}") from None


def start(mountpoint: str, machine: Machine) -> subprocess.Popen[bytes]:
    """Mount a simulation in a process of its own, in its own session and without this one's pipes.

    Returns:
        The process, once the simulation is mounted. It outlives this one.

    Raises:
        SimulationError: It cannot be mounted.
    """
    path = prepare(mountpoint)
    check_fuse()
    reader, writer = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "resctrl_hooks.simulation", path, json.dumps(asdict(machine)), str(writer)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[writer],
            start_new_session=True,
            cwd="/",
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join([_PACKAGES, *filter(None, [os.environ.get("PYTHONPATH")])])},
        )
        os.close(writer)
        # The pipe yields the byte, or ends with the process.
        answered, _, _ = select.select([reader], [], [], _SECONDS_TO_MOUNT)
        told = os.read(reader, 1) if answered else b""
    finally:
        os.close(reader)
    assert process.stderr is not None
    if told:
        process.stderr.close()
        return process
    process.kill()
    _, errors = process.communicate()
    said = "; ".join(errors.decode(errors="replace").split("\n")).strip("; ")
    raise SimulationError(said or f"no answer from the process that mounts the simulation at {path}")


def stop(process: subprocess.Popen[bytes], mountpoint: str) -> None:
    """Unmount what `start` mounted, and wait for its process."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if os.path.lexists(mountpoint) and _is_left(mountpoint):
        _detach(mountpoint)


def _is_left(mountpoint: str) -> bool:
    try:
        return os.path.ismount(mountpoint)
    except OSError:
        return True


@contextlib.contextmanager
def mounted(mountpoint: str | os.PathLike[str], **hardware: Any) -> Iterator[str]:
    """Yield a simulation at `mountpoint`, for tests, and unmount it at the end.

    Args:
        mountpoint: The mountpoint; created if missing.
        hardware: Arguments of `Machine`, such as `rmids`, `closids`, `limbo` and `vendor`.

    Yields:
        The absolute path.

    Raises:
        SimulationError: It cannot be mounted.
    """
    path = os.path.abspath(mountpoint)
    process = start(path, Machine(**hardware))
    try:
        yield path
    finally:
        stop(process, path)
