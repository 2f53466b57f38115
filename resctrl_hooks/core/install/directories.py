"""The hook directory that a runtime reads by its own configuration, and the drop-in that adds one.

Sources: cri-o's crio.conf(5), containers-common's containers.conf(5), and NRI's hook-injector plugin, which containerd
needs to run OCI hooks at all.
"""

import os
import tomllib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from resctrl_hooks.core.parts import load, parts

from .paths import ADMIN_HOOKS, VENDOR_HOOKS
from .runtime import Runtime


class RuntimeConfigError(ValueError):
    """Invalid TOML in a runtime's own configuration, with file and position."""


_BY_HOOKS: Final = (
    Runtime(
        "crio",
        ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d/"),
        ("crio", "runtime", "hooks_dir"),
        (VENDOR_HOOKS,),
        "/etc/crio/crio.conf.d/90-resctrl-hooks.conf",
        "systemctl restart crio",
    ),
    Runtime(
        "podman",
        (
            "/usr/share/containers/containers.conf",
            "/usr/share/containers/containers.conf.d/",
            "/etc/containers/containers.conf",
            "/etc/containers/containers.conf.d/",
        ),
        ("engine", "hooks_dir"),
        (VENDOR_HOOKS,),
        "/etc/containers/containers.conf.d/90-resctrl-hooks.conf",
        "",
    ),
)
_BY_SERVICES: Final = (runtime for part in parts() if part.runtimes for runtime in load(part.runtimes))
RUNTIMES: Final[dict[str, Runtime]] = {runtime.name: runtime for runtime in (*_BY_HOOKS, *_BY_SERVICES)}
"""Those that call OCI hooks, and those that the service of a house serves."""


class Directory(NamedTuple):
    """The directory for the hook, and the drop-in (path and text) that makes the runtime read it, if needed."""

    path: str
    read: tuple[str, ...]
    """All directories that the runtime reads now."""
    drop_in: tuple[str, bytes] | None = None


def choose(name: str, root: str = "") -> Directory:
    """Return the hook's directory for a runtime on the host below ``root``.

    The administrator's directory if the runtime reads it, else the last writable one that it reads, else the
    administrator's with a drop-in.

    Raises:
        OSError, RuntimeConfigError: the runtime's configuration is unreadable.
    """
    runtime = RUNTIMES[name]
    read = directories(runtime, root, ours=False)
    if ADMIN_HOOKS in read:
        return Directory(ADMIN_HOOKS, read)
    for path in reversed(read):
        if _writable(root + path):
            return Directory(path, read)
    if not runtime.drop_in:
        return Directory(read[-1], read)
    return Directory(ADMIN_HOOKS, read, (runtime.drop_in, _drop_in(runtime, (*read, ADMIN_HOOKS))))


def directories(runtime: Runtime, root: str = "", *, ours: bool = True) -> tuple[str, ...]:
    """Return the hook directories in a runtime's configuration, the one with precedence last.

    Without ``ours``, ignore the installer's own drop-in.

    Raises:
        OSError, RuntimeConfigError: the runtime's configuration is unreadable.
    """
    found = runtime.default
    for path in _configuration_files(runtime, root):
        if ours or path != root + runtime.drop_in:
            value: Any = read_toml(path)
            for key in runtime.keys:
                value = value.get(key) if isinstance(value, dict) else None
            found = _after(found, value)
    return found


def read_toml(path: str) -> dict[str, Any]:
    """Return the content of a runtime's configuration file.

    Raises:
        OSError, RuntimeConfigError: it is unreadable.
    """
    with open(path, "rb") as file:
        try:
            return tomllib.load(file)
        except ValueError as error:  # includes bytes that are not UTF-8
            raise RuntimeConfigError(f"{path}: {error}") from error


def _after(before: tuple[str, ...], value: Any) -> tuple[str, ...]:
    """Return the list after a later file: it replaces the list, unless it contains ``{append = true}``."""
    if not isinstance(value, list):
        return before
    paths = tuple(item for item in value if isinstance(item, str) and item)
    appends = any(isinstance(item, dict) and item.get("append") for item in value)
    return (*before, *paths) if appends else paths or before


def _configuration_files(runtime: Runtime, root: str) -> Iterator[str]:
    for path in runtime.files:
        if path.endswith("/"):
            names = os.listdir(root + path) if os.path.isdir(root + path) else []
            yield from (f"{root}{path}{name}" for name in sorted(names) if name.endswith(".conf"))
        elif os.path.isfile(root + path):
            yield root + path


def _drop_in(runtime: Runtime, paths: tuple[str, ...]) -> bytes:
    listed = ", ".join(f'"{path}"' for path in paths)
    table = ".".join(runtime.keys[:-1])
    text = f"# Written by resctrl-hooks: its hook is in {paths[-1]}.\n[{table}]\n{runtime.keys[-1]} = [{listed}]\n"
    return text.encode()


def _writable(path: str) -> bool:
    """Return whether a folder, or its nearest existing parent, is writable."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return os.access(path, os.W_OK)
