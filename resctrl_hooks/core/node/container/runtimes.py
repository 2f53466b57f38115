"""The containers that run on this node, from the state directories of the OCI runtimes runc, crun and containerd.

runc writes ``<root>/<id>/state.json`` (libcontainer's state), crun ``<root>/<id>/status``. Both write it after the
createRuntime hooks, so a container without such a file may be just starting.
"""

from ..errors import HookError
from ..host.files import list_folder, parse_json, read_file
from ..host.procfs import lives
from ..names import valid_container_id
from .oci import LARGEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from typing import Any

    from ..settings import Settings

    Kind = tuple[str, Callable[[dict[str, Any]], tuple[Any, Any, Any]]]

# The default state directories of root's containers. CRI-O and Podman use the runtimes' own defaults.
DEFAULT_ROOTS = (
    "/run/runc",
    "/run/crun",
    "/run/containerd/runc/k8s.io",
    "/run/containerd/runc/default",
)


class Found:
    """A container that a runtime knows and whose init process is alive."""

    __slots__ = ("bundle", "id", "pid", "start")

    def __init__(self, id_: str, pid: int, start: int, bundle: str) -> None:
        self.id = id_
        self.pid = pid
        self.start = start
        self.bundle = bundle


def roots_of(settings: "Settings") -> "list[str]":
    """Return the runtimes' state directories."""
    configured = settings.runtime_roots.values()
    folders = [path for value in configured for path in (value if isinstance(value, list) else [value])]
    return folders or list(DEFAULT_ROOTS)


def living_containers(settings: "Settings", proc: str, known: "Container[str]" = ()) -> "list[Found]":
    """Return every container of every runtime whose init process is the one that the runtime started.

    The files of those in ``known`` are not read.

    Raises:
        HookError: a runtime's folder can't be read.
    """
    found: "dict[str, Found]" = {}
    for root in roots_of(settings):
        kinds = list(_KINDS)
        for id_ in _names(root):
            if id_ not in known and valid_container_id(id_):
                container = _read(f"{root}/{id_}", id_, kinds)
                if container is not None and lives(proc, container.pid, container.start):
                    found[id_] = container
    return list(found.values())


def known_ids(settings: "Settings") -> "set[str]":
    """Return the ids of all containers that have a folder in a runtime's state directory, dead ones too.

    Raises:
        HookError: a runtime's folder can't be read.
    """
    return {id_ for root in roots_of(settings) for id_ in _names(root)}


def bundle_of(container: str, settings: "Settings") -> str:
    """Return the path of a container's bundle, as its runtime's state names it; empty if no state does."""
    states = (_read(f"{root}/{container}", container, list(_KINDS)) for root in roots_of(settings))
    return next((found.bundle for found in states if found is not None and found.bundle), "")


def _names(root: str) -> "list[str]":
    try:
        return list_folder(root)
    except OSError as error:
        raise HookError.of_file(error, f"{root}, the runtime's state directory", "read") from error


def _read(folder: str, id_: str, kinds: "list[Kind]") -> "Found | None":
    """Read a container's state in the format of any runtime; the matching format is tried first the next time."""
    for kind in tuple(kinds):
        name, read = kind
        try:
            value = parse_json(read_file(f"{folder}/{name}", LARGEST))
            pid, start, bundle = read(value)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        if kinds[0] is not kind:
            kinds.remove(kind)
            kinds.insert(0, kind)
        if isinstance(pid, int) and isinstance(start, int) and isinstance(bundle, str) and pid > 0 and start > 0:
            return Found(id_, pid, start, bundle)
    return None


def _runc(state: "dict[str, Any]") -> "tuple[Any, Any, Any]":
    # The last one is runc's (runc, libcontainer/specconv); the others are annotations, of which one may be "bundle".
    labels = reversed(state["config"].get("labels") or [])
    bundle = next((label[len("bundle=") :] for label in labels if label.startswith("bundle=")), "")
    return state["init_process_pid"], state["init_process_start"], bundle


def _crun(status: "dict[str, Any]") -> "tuple[Any, Any, Any]":
    return status["pid"], status["process-start-time"], status["bundle"]


_KINDS: "tuple[Kind, ...]" = (("state.json", _runc), ("status", _crun))
