"""A runtime's input to a hook: the OCI state on stdin, and the relevant parts of the bundle's config.json.

Pod authors choose parts of both, so sizes are bounded and every type is checked. Source: OCI runtime specification,
runtime.md ("State"), config.md ("POSIX-platform Hooks") and config-linux.md ("IntelRdt").
"""

from .. import errors
from ..host.files import parse_json, read_file
from ..names import valid_container_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LARGEST = STATE_LIMIT = BUNDLE_LIMIT = 64 << 20
"""Bytes of any file in which a runtime repeats what a pod's author writes.

No running container has more: the API server accepts 1.5 MB for a pod. CRI-O writes a handler's command as JSON in
JSON twice, with up to 16 bytes for each character, and its variables, of which exec(2) accepts 6 MB, with up to 6.
"""

CREATE_RUNTIME = "createRuntime"
POSTSTOP = "poststop"
HOOK = "hook"  # either, depending on the state's status

# A hook's JSON has one command for all stages. runc's status is "creating" where crun's is "created".
STAGES = {
    "creating": CREATE_RUNTIME,
    "created": CREATE_RUNTIME,
    "running": CREATE_RUNTIME,
    "stopped": POSTSTOP,
}

# Scheduling policies and I/O classes (OCI runtime specification, config.md, "Scheduler" and "IOPriority").
_POLICIES = {
    "SCHED_OTHER": "normal",
    "SCHED_FIFO": "fifo",
    "SCHED_RR": "rr",
    "SCHED_BATCH": "batch",
    "SCHED_IDLE": "idle",
}
_IO_CLASSES = {"IOPRIO_CLASS_RT": "realtime", "IOPRIO_CLASS_BE": "best-effort", "IOPRIO_CLASS_IDLE": "idle"}


class State:
    """A validated container state, as a runtime writes it to its hooks."""

    __slots__ = ("annotations", "bundle", "id", "pid", "status")

    def __init__(self, id_: str, status: str, pid: int, bundle: str, annotations: "dict[str, str]") -> None:
        self.id = id_
        self.status = status
        self.pid = pid
        self.bundle = bundle
        self.annotations = annotations

    @property
    def stage(self) -> str:
        """The hook stage for this status."""
        return STAGES[self.status]


_SCHEMATA = ("schemata", "l3CacheSchema", "memBwSchema")


class Bundle:
    """The relevant parts of a bundle's config.json; empty for an unreadable bundle.

    ``scheduled`` are the scheduler and the I/O priority, in the words of a scheduling class. ``linux.resources`` may be
    a function that returns them, and ``linux.devices`` and ``process.env`` too: few features read them.
    """

    __slots__ = (
        "_config",
        "_resources",
        "annotations",
        "cgroups_path",
        "class_name",
        "has_own_class",
        "has_rdt",
        "makes_class",
        "monitored",
        "scheduled",
    )

    def __init__(self, config: "dict[str, Any]") -> None:
        self._config = config
        linux = _field(config, "linux", dict, {})
        rdt = _field(linux, "intelRdt", dict, {})
        self.has_rdt = any(rdt.values())
        asked: str = _field(rdt, "closID", str, "")
        self.class_name = asked.strip("/")
        # Its runtime creates a class named by the container's id: runtime-spec, config-linux.md, "intelRdt".
        self.has_own_class = self.has_rdt and not asked
        self.makes_class = self.has_rdt and (not asked or any(rdt.get(name) for name in _SCHEMATA))
        # Before runtime-spec 1.3, enableMonitoring was called enableCMT and enableMBM.
        self.monitored = any(rdt.get(name) is True for name in ("enableMonitoring", "enableCMT", "enableMBM"))
        self.cgroups_path: str = _field(linux, "cgroupsPath", str, "")
        self._resources: "Any" = linux.get("resources")
        if not callable(self._resources):
            _field(linux, "resources", dict, {})
        self.annotations = _strings(config.get("annotations"), "config.json: annotations")
        self.scheduled = _scheduled(_field(config, "process", dict, {}))

    @property
    def takes_rmid(self) -> bool:
        """Whether the runtime creates a group or a class for this container alone.

        Source: runtime-spec, config-linux.md, "intelRdt".
        """
        return self.monitored or self.has_own_class

    @property
    def resources(self) -> "dict[str, Any]":
        """``linux.resources``; empty for none."""
        if callable(self._resources):
            self._resources = self._resources()
        found: "dict[str, Any]" = self._resources or {}
        return found

    @property
    def devices(self) -> "list[Any]":
        """``linux.devices``, unchecked."""
        return _list_in(self._config.get("linux"), "devices")

    @property
    def variables(self) -> "list[str]":
        """``process.env``."""
        return [one for one in _list_in(self._config.get("process"), "env") if isinstance(one, str)]


def _list_in(value: "Any", name: str) -> "list[Any]":
    found = value.get(name) if isinstance(value, dict) else None
    found = found() if callable(found) else found
    return found if isinstance(found, list) else []


def parse_state(data: bytes) -> State:
    """Parse the state that a runtime passes to its hooks.

    Raises:
        InputError: it is not JSON, not a state, or has a container id that no runtime accepts.
    """
    try:
        value = parse_json(data)
    except ValueError as error:
        raise errors.InputError(f"the container state on stdin is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise errors.InputError("the container state on stdin is not a JSON object")
    id_ = _field(value, "id", str, "")
    if not valid_container_id(id_):
        raise errors.InputError(f"the container state has no valid id: {id_[:80]!r}")
    status = _field(value, "status", str, "")
    if status not in STAGES:
        raise errors.InputError(f"the container state has an unexpected status: {status[:80]!r}")
    pid = _field(value, "pid", int, 0)
    if isinstance(pid, bool) or not 0 <= pid < 1 << 31:
        raise errors.InputError(f"the container state has no valid pid: {pid!r}")
    bundle = _field(value, "bundle", str, "")
    if bundle and (bundle[0] != "/" or "\0" in bundle or "/../" in f"{bundle}/"):
        raise errors.InputError(f"the bundle is not an absolute path: {bundle[:200]!r}")
    return State(id_, status, pid, bundle.rstrip("/"), _strings(value.get("annotations"), "annotations"))


def read_bundle(path: str) -> Bundle:
    """Read ``config.json`` of a bundle folder.

    Raises:
        InputError: it is missing, unreadable, too large, or not a configuration.
    """
    if not path:
        raise errors.InputError("the container state has no bundle")
    try:
        config = parse_json(read_file(f"{path}/config.json", BUNDLE_LIMIT))
    except OSError as error:
        raise errors.InputError.of_file(error, f"{path[:200]}/config.json", "read") from error
    except ValueError as error:
        raise errors.InputError(f"{path[:200]}/config.json is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise errors.InputError(f"{path[:200]}/config.json is not a JSON object")
    return Bundle(config)


def _scheduled(process: "dict[str, Any]") -> "dict[str, Any]":
    """Return the specified scheduler and I/O priority, in the words of a scheduling class; empty for none."""
    found: "dict[str, Any]" = {}
    scheduler, io = _field(process, "scheduler", dict, {}), _field(process, "ioPriority", dict, {})
    if scheduler.get("policy"):
        policy = str(scheduler["policy"])
        found["policy"] = _POLICIES.get(policy, policy)
        found.update((name, scheduler[name]) for name in ("priority", "nice") if isinstance(scheduler.get(name), int))
    if io.get("class"):
        found["ioClass"] = _IO_CLASSES.get(str(io["class"]), str(io["class"]))
        found["ioPriority"] = io["priority"] if isinstance(io.get("priority"), int) else 0
    return found


def _field(value: "dict[str, Any]", name: str, kind: type, default: "Any") -> "Any":
    found = value.get(name)
    if found is None:
        return default
    if not isinstance(found, kind):
        raise errors.InputError(f"{name!r} should be {kind.__name__}, not {type(found).__name__}")
    return found


def _strings(value: "Any", what: str) -> "dict[str, str]":
    if value is None:
        return {}
    if not isinstance(value, dict) or not {str}.issuperset(map(type, value.values())):
        raise errors.InputError(f"{what} should be an object of strings")
    return value
