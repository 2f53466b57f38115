"""Mount and unmount of simulations: in this process, in a separate one, and after a crash."""

import contextlib
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

from resctrl_hooks.core.fuse import MountError, check_fuse, detach, prepare, serve

from .machine import Machine

# The process must find this package even if it is not installed.
_PACKAGES = os.path.abspath(__file__).removesuffix(f"{__name__.replace('.', os.sep)}.py")

_SECONDS_TO_MOUNT = 30
_SECONDS_TO_END = 10
_FOREVER = 1_000_000_000
"""Seconds. All changes go through the mount, so the kernel's cached names and attributes never become stale."""
_OPTIONS = MappingProxyType(
    {"use_ino": True, "subtype": "resctrl", "entry_timeout": _FOREVER, "attr_timeout": _FOREVER}
)


def serve_here(mountpoint: str, machine: Machine, ready: Callable[[], None] = lambda: None, load: str = "") -> None:
    """Mount a simulation and serve it in this process, until it is unmounted or SIGTERM, SIGINT or SIGHUP comes.

    ``ready`` is called after the mount. ``load`` is the file of the pods' work (`load.py`); empty for none.

    Raises:
        MountError: It cannot be mounted.
    """
    path = prepare(mountpoint)
    check_fuse()
    from .filesystem import Filesystem  # noqa: PLC0415 - imports mfusepy
    from .load import Load  # noqa: PLC0415 - as above, for a quick error
    from .model import Resctrl  # noqa: PLC0415 - as above

    resctrl = Resctrl(machine, load=Load(load, machine) if load else None)
    serve(path, Filesystem(resctrl, ready), **_OPTIONS)


def start(mountpoint: str, machine: Machine, load: str = "") -> subprocess.Popen[bytes]:
    """Mount a simulation in a process of its own, in its own session and without this one's pipes.

    ``load`` is that of `serve_here`.

    Returns:
        The process, once the simulation is mounted. It outlives this one.

    Raises:
        MountError: It cannot be mounted.
    """
    path = prepare(mountpoint)
    check_fuse()
    reader, writer = os.pipe()
    try:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "resctrl_hooks.lab.simulation",
                path,
                json.dumps(asdict(machine)),
                str(writer),
                load,
            ],
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
        byte = os.read(reader, 1) if answered else b""
    finally:
        os.close(reader)
    assert process.stderr is not None
    if byte:
        process.stderr.close()
        return process
    process.kill()
    _, errors = process.communicate()
    message = "; ".join(errors.decode(errors="replace").split("\n")).strip("; ")
    raise MountError(message or f"no answer from the process that mounts the simulation at {path}")


def stop(process: subprocess.Popen[bytes], mountpoint: str) -> None:
    """Unmount what `start` mounted, and wait for its process."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if os.path.lexists(mountpoint) and _is_left(mountpoint):
        detach(mountpoint)


def _is_left(mountpoint: str) -> bool:
    try:
        return os.path.ismount(mountpoint)
    except OSError:
        return True


@contextlib.contextmanager
def mounted(mountpoint: str | os.PathLike[str], load: str = "", **hardware: Any) -> Iterator[str]:
    """Yield a simulation at `mountpoint`, for tests, and unmount it at the end.

    Args:
        mountpoint: The mountpoint; created if missing.
        load: That of `serve_here`.
        hardware: Arguments of `Machine`, such as `rmids`, `closids`, `limbo` and `vendor`.

    Yields:
        The absolute path.

    Raises:
        MountError: It cannot be mounted.
    """
    path = os.path.abspath(mountpoint)
    process = start(path, Machine(**hardware), load)
    try:
        yield path
    finally:
        stop(process, path)
