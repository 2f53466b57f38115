"""The plugin's changes to a container's specification: values of features, and additions of a class.

A feature sets its values again when the container starts, so a runtime that ignores some loses nothing. Sources:
containerd/nri, pkg/api/api.proto; docs/nri.md lists the runtime versions of each field.
"""

import posix

from ...core.node.classes.memory import choice_or_default
from ...core.node.errors import HookError
from ...core.node.feature import SKIP
from ...core.node.features.scheduling import IO_PRIORITY_UNSET
from ...core.node.host.files import S_IFBLK, S_IFCHR, S_IFLNK, S_IFMT, S_IWGRP, S_IWOTH
from ...core.node.permissions import check_allowed
from .requested import BROUGHT
from .workload import resources_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from ...core.node.container.workload import Workload
    from ...core.node.feature import Feature, Step
    from ...core.node.settings import Settings

    Adjustment = dict[str, Any]
    Steps = list[tuple[Feature, Step]]

# The kernel's numbers (uapi/linux/sched.h, ioprio.h) are not NRI's: these are the enums of its api.proto.
_POLICIES = {"normal": 1, "fifo": 2, "rr": 3, "batch": 4, "idle": 6}
_IO_CLASSES = {"realtime": 1, "best-effort": 2, "idle": 3}
_SCHEDULER_SINCE, _IO_PRIORITY_SINCE = (0, 11), (0, 10)
_TREES = ("linux", "resources", "unified", "cpu")
"""Parts whose fields belong to one plugin each; others are fields themselves."""
_ADDED = ("env", "mounts", "devices", "memory_policy")
"""Fields that do not replace those of others."""
MOUNT_OPTIONS: "Final" = ("rbind", "ro", "nosuid", "nodev")


class AdjustmentError(HookError):
    """A class has an addition that must not be given to a container."""

    reason = "adjustment"


def adjustment(
    workload: "Workload", steps: "Steps", settings: "Settings", version: str, container: "Adjustment"
) -> "tuple[Adjustment, list[str]]":
    """Return the changes to a container, empty for none, and its values that differ from them and stay.

    Args:
        workload: the container.
        steps: what its features plan for it, each with the feature.
        settings: the active ones.
        version: the NRI version of the runtime.
        container: the message's container, after earlier plugins.

    Raises:
        AdjustmentError: a path of the class is not private to root.
        HookError: the class is unavailable.
    """
    enabled = settings.sections["nri"].get("adjust") or []
    linux: "Adjustment" = {"resources": {"unified": {}, "cpu": {}}}
    since = _parsed(version)
    for feature, step in steps:
        if step.feature in enabled and step.action != SKIP:
            for name, value in feature.resources(step).items():
                linux["resources"].setdefault(name, {}).update(value)
            linux.update(_of_process(step.parameters.get("process") or {}, since))
    cpu = {**workload.bundle.resources.get("cpu", {}), **linux["resources"]["cpu"]}
    brought = _of_class(workload, settings, since, cpu)
    linux.update(brought.pop("linux", {}))
    return respecting({**brought, "linux": linux}, container)


def respecting(adjusted: "Adjustment", container: "Adjustment") -> "tuple[Adjustment, list[str]]":
    """Return an adjustment without values that the container already has, and the container's differing values.

    An earlier plugin or the runtime's client has set them. Two plugins that set one field make the creation fail, even
    with the same value. Empty parts are left out.
    """
    linux = container.get("linux", {})
    differing: "list[str]" = []
    theirs = {"linux": {**linux, "resources": resources_of(linux)}}
    return _without(theirs, adjusted, differing), differing


def _without(theirs: "Adjustment", ours: "Adjustment", differing: "list[str]") -> "Adjustment":
    left: "Adjustment" = {}
    for name in ours:
        value, their = ours[name], theirs.get(name)
        if name in _TREES:
            value = _without(their or {}, value, differing)
        elif name not in _ADDED and their not in (None, "", {}):
            if value != their:
                differing.append(f"{name} is {_text(their)} instead of {_text(value)}")
            continue
        if value:
            left[name] = value
    return left


def _text(value: "Any") -> str:
    return str(value.get("value", value) if isinstance(value, dict) else value)[:80]


def _of_process(process: "Adjustment", version: "tuple[int, int]") -> "Adjustment":
    """Return the scheduler and the I/O priority that a runtime of this version knows."""
    found: "Adjustment" = {}
    if version >= _SCHEDULER_SINCE and (process.get("policy") or process.get("nice") is not None):
        scheduler = {
            "policy": _POLICIES[process.get("policy") or "normal"],
            "nice": process.get("nice"),
            "priority": process.get("priority"),
        }
        found["scheduler"] = {name: value for name, value in scheduler.items() if value}
    if version >= _IO_PRIORITY_SINCE and process.get("ioClass"):
        priority = process.get("ioPriority", IO_PRIORITY_UNSET) if process["ioClass"] != "idle" else 0
        found["io_priority"] = {"class": _IO_CLASSES[process["ioClass"]], "priority": priority}
    return found


def _parsed(version: str) -> "tuple[int, int]":
    """Return the first two numbers of an NRI version; NRI 0.9 and earlier do not send theirs, and count as 0.0."""
    major, _, rest = version.lstrip("v").partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)


def _of_class(
    workload: "Workload", settings: "Settings", version: "tuple[int, int]", cpu: "Adjustment"
) -> "Adjustment":
    """Return what the container's class brings, if allowed for its namespace; ``cpu`` has its CPUs and memory nodes."""
    if not any(spec.get(name) for spec in settings.classes for name in BROUGHT):
        return {}
    choice = choice_or_default(workload, settings)
    brings = {name: choice.spec.get(name) for name in BROUGHT}
    if not any(brings.values()):
        return {}
    what = f"use the devices, mounts, variables or policy of class {choice.name[:80]!r}"
    check_allowed(settings, "nri.allow", workload, choice.name, what, AdjustmentError)
    linux: "Adjustment" = {"devices": [_device(one) for one in brings["devices"] or []]}
    if brings["policy"]:
        from .memory_policy import memory_policy  # few nodes use one

        linux["memory_policy"] = memory_policy(brings["policy"], version, cpu, settings.sys_path)
    return {
        "env": [{"key": key, "value": value} for key, value in (brings["env"] or {}).items()],
        "mounts": [_mount(one) for one in brings["mounts"] or []],
        "linux": linux,
    }


def _mount(spec: "dict[str, Any]") -> "Adjustment":
    check_owner(spec["source"])
    options = spec.get("options") or [*MOUNT_OPTIONS]
    return {"destination": spec["destination"], "type": "bind", "source": spec["source"], "options": options}


def _device(spec: "dict[str, Any]") -> "Adjustment":
    path: str = spec["path"]
    check_owner(path, device=True)
    found = posix.stat(path)
    kind = found.st_mode & S_IFMT
    if kind not in (S_IFBLK, S_IFCHR):
        raise AdjustmentError(f"{path} is not a device", hint="correct `devices` of the memory class")
    return {
        "path": path,
        "type": "b" if kind == S_IFBLK else "c",
        "major": posix.major(found.st_rdev),
        "minor": posix.minor(found.st_rdev),
        "file_mode": {"value": found.st_mode & 0o777},
        "uid": {"value": found.st_uid},
        "gid": {"value": found.st_gid},
    }


def check_owner(path: str, *, device: bool = False) -> None:
    """Check that a path and its parents belong to root, are writable by root only, and are not links.

    A device itself may be writable by others; that is the purpose of devices.

    Raises:
        AdjustmentError: a check fails, or the path does not exist.
    """
    at = ""
    parts = path.strip("/").split("/")
    for depth, part in enumerate(parts, 1):
        at += f"/{part}"
        try:
            found = posix.lstat(at)
        except OSError as error:
            raise AdjustmentError.of_file(error, path) from error
        writable = found.st_mode & (S_IWGRP | S_IWOTH) and not (device and depth == len(parts))
        if found.st_uid or writable or found.st_mode & S_IFMT == S_IFLNK:
            why = "is a link" if found.st_mode & S_IFMT == S_IFLNK else "is writable by users other than root"
            raise AdjustmentError(
                f"cannot add {path} to a container: {at} {why}", hint="use a path with only root-owned directories"
            )
