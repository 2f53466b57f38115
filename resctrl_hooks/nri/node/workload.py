"""A container from an NRI message: the same `Workload` that a hook derives from state and bundle.

Pod, namespace, names and labels are fields of the message, set by the runtime: nothing of them is read from what a
pod's author writes.
"""

from ...core.node.container.oci import Bundle, State
from ...core.node.container.workload import CONTAINERD, CRIO, derive
from ...core.node.errors import InputError
from ...core.node.host.files import is_folder
from ...core.node.host.procfs import Cgroup, cgroups_of
from ...core.node.names import valid_container_id
from .protobuf import WireError, decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...core.node.container.workload import Workload
    from ...core.node.settings import Settings

_DIALECTS = {"cri-o": CRIO, "containerd": CONTAINERD}
_MOST_PID = 1 << 31
_INIT = 1
READ = b"PCIDEVICE_"
"""The beginning of the variables that features read."""
_POLICIES = {1: "SCHED_OTHER", 2: "SCHED_FIFO", 3: "SCHED_RR", 4: "SCHED_BATCH", 5: "SCHED_ISO", 6: "SCHED_IDLE"}
_IO_CLASSES = {1: "IOPRIO_CLASS_RT", 2: "IOPRIO_CLASS_BE", 3: "IOPRIO_CLASS_IDLE"}


def workload_of(pod: "dict[str, Any]", container: "dict[str, Any]", runtime: str, settings: "Settings") -> "Workload":
    """Return the container of a message; ``runtime`` is what Configure called it.

    Without a process it has no cgroup yet.

    Raises:
        InputError: the message names no container.
        BadKeyError: the pod's UID is malformed, or is not that of the pod in whose cgroup the process is.
    """
    id_ = container.get("id", "")
    pid = container.get("pid", 0)
    if not valid_container_id(id_):
        raise InputError(f"the runtime sent no valid container id: {id_[:80]!r}")
    if not pid < _MOST_PID:
        raise InputError(f"the runtime sent no valid pid: {pid}")
    dialect = _DIALECTS.get(runtime, CONTAINERD)
    annotations = {
        **pod.get("annotations", {}),
        **container.get("annotations", {}),
        dialect.uid: pod.get("uid", ""),
        dialect.namespace: pod.get("namespace", ""),
        dialect.pod: pod.get("name", ""),
        dialect.container: container.get("name", ""),
        dialect.kind: "container",
    }
    state = State(id_, "created", pid, "", annotations)
    if pid:
        cgroups = cgroups_of(settings.proc_path, pid)
    else:
        cgroups = _future_cgroups(pod.get("linux", {}).get("cgroup_parent", ""), settings)
    config = _as_oci(container.get("linux", {}), created=bool(pid))
    if container.get("env"):
        config["process"]["env"] = lambda: [one.decode(errors="replace") for one in container["env"]]
    workload = derive(state, Bundle(config), cgroups, settings.cgroup_path, dialect)
    workload.labels = pod.get("labels", {})
    return workload


def _future_cgroups(parent: str, settings: "Settings") -> "list[Cgroup]":
    """Return the cgroups in which a process of a pod will be, as far as its pod has them: several in version 1."""
    path = cgroup_of(parent)
    hierarchies = [cgroup.hierarchy for cgroup in cgroups_of(settings.proc_path, _INIT)]
    cgroups = [Cgroup(hierarchy, path) for hierarchy in hierarchies]
    return [one for one in cgroups if is_folder(one.folder(settings.cgroup_path))] or [Cgroup("", path)]


def cgroup_of(parent: str) -> str:
    """Return a pod's cgroup by its ``cgroup_parent``: a path, or a slice, whose name contains its parent slices.

    Source: systemd.slice(5).
    """
    if "/" in parent or not parent.endswith(".slice"):
        return f"/{parent.strip('/')}"
    words = parent[: -len(".slice")].split("-")
    return "".join(f"/{'-'.join(words[: end + 1])}.slice" for end in range(len(words)))


def _as_oci(linux: "dict[str, Any]", *, created: bool) -> "dict[str, Any]":
    """Return the part of a bundle's config.json that the message contains.

    Before a container is ``created``, the RDT class is the one that an earlier plugin has asked for; afterwards its
    process shows the class, since a runtime without RDT support takes the value and does nothing.
    """
    config: "dict[str, Any]" = {"cgroupsPath": linux.get("cgroups_path", ""), "resources": lambda: _resources(linux)}
    if not created and (asked := _value(resources_of(linux).get("rdt_class", {}))):
        config["intelRdt"] = {"closID": asked}
    if "rdt" in linux:
        rdt = linux["rdt"]
        config["intelRdt"] = {
            "closID": _value(rdt.get("clos_id", {})) or "",
            "enableMonitoring": bool(_value(rdt.get("enable_monitoring", {}))),
        }
    if linux.get("devices"):
        config["devices"] = lambda: [_device(one) for one in linux["devices"]]
    return {"linux": config, "process": _process(linux)}


def _device(data: bytes) -> "dict[str, Any]":
    """Return a LinuxDevice as an entry of linux.devices of a bundle."""
    return _decoded("LinuxDevice", data, "a device of the container")


def resources_of(linux: "dict[str, Any]") -> "dict[str, Any]":
    """Return the LinuxResources of a container.

    Raises:
        InputError: they are malformed.
    """
    return _decoded("LinuxResources", linux.get("resources", b""), "the container's resources")


def _decoded(kind: str, data: bytes, what: str) -> "dict[str, Any]":
    try:
        return decode(kind, data)
    except WireError as error:
        raise InputError(f"cannot parse {what}: {error}") from error


def _resources(linux: "dict[str, Any]") -> "dict[str, Any]":
    """Return a container's LinuxResources as linux.resources of a bundle."""
    given = resources_of(linux)
    resources: "dict[str, Any]" = {
        "cpu": {name: _value(value) for name, value in given.get("cpu", {}).items()},
        "memory": {name: _value(value) for name, value in given.get("memory", {}).items()},
        "unified": given.get("unified", {}),
    }
    if _value(given.get("blockio_class", {})):
        resources["blockIO"] = {"class": given["blockio_class"]["value"]}
    return resources


def _process(linux: "dict[str, Any]") -> "dict[str, Any]":
    """Return scheduler and I/O priority in the words of a bundle; the enums are those of NRI's api.proto."""
    scheduler, io = linux.get("scheduler") or {}, linux.get("io_priority") or {}
    return {
        "scheduler": {**scheduler, "policy": _POLICIES.get(scheduler.get("policy", 0), "")},
        "ioPriority": {**io, "class": _IO_CLASSES.get(io.get("class", 0), "")},
    }


def _value(value: "Any") -> "Any":
    """Return the content of an optional value; a zero is left out."""
    return value.get("value", 0) if isinstance(value, dict) else value
