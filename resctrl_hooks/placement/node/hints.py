"""The devices of a container as hints for placement: each with the CPUs near to it.

A hook finds them in the bundle: device plugins and CDI end in ``linux.devices``, and the SR-IOV device plugin names the
PCI functions of network interfaces in variables. The annotations are those of topology-aware (nri-plugins).
"""

from ...core.node.host.cpulist import format_list
from ...core.node.host.locality import near_device, near_pci
from .policy import BOOLEANS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...core.node.container.oci import Bundle
    from ...core.node.container.workload import Workload
    from ...core.node.settings import Settings

_VARIABLE = "PCIDEVICE_"
"""The beginning of the SR-IOV network device plugin's variables; their values are PCI addresses with commas."""
_JSON = "_INFO"  # the end of its variables with JSON
HINTS = "topologyhints.resource-policy.nri.io"
_MOST = 32
"""More devices than a container gets by request; a privileged one has all of the host's, which are no hints. The same
number of PCI addresses, and of variables with them."""
_LONGEST_NAME = 64
_KINDS = {**BOOLEANS, "all": True, "devices": True, "pod-resources": True, "mounts": False, "none": False}
"""The kinds of hints of topology-aware's annotation, and whether they are of devices here."""


def hints_of(
    bundle: "Bundle", kinds: str, settings: "Settings", workload: "Workload | None" = None
) -> "list[list[str]]":
    """Return the names of devices and the CPUs near to each, as the kernel's list.

    ``kinds`` is the value of the annotation ``topologyhints``: the requested kinds of hints, empty for all. Unknown
    kinds, and variables that name too many addresses or are no text, are dropped wishes of ``workload``.
    """
    if kinds and not _wants_devices(kinds, workload):
        return []
    found: "dict[str, int]" = {}
    devices = bundle.devices
    for device in devices if len(devices) <= _MOST else ():
        path, kind, major, minor = _fields(device)
        if path:
            found[path] = near_device(settings.sys_path, settings.proc_path, path, kind, major, minor)
    for address in _addresses(bundle, workload):
        found[address] = near_pci(settings.sys_path, address)
    return [[name[:_LONGEST_NAME], format_list(cpus)] for name, cpus in found.items() if cpus]


def _wants_devices(kinds: str, workload: "Workload | None") -> bool:
    words = kinds.replace(",", " ").split()
    known = [_KINDS[word] for word in words if word in _KINDS]
    if len(known) < len(words) and workload is not None:
        from ...core.node.container.author_input import drop  # as below

        unknown = next(word for word in words if word not in _KINDS)
        drop(workload, f"annotation {HINTS}", f"unknown kind of hints {unknown[:40]!r}")
    return any(known) or not known


def _addresses(bundle: "Bundle", workload: "Workload | None") -> "list[str]":
    """Return the PCI addresses in the container's variables; none if these are too many, or no text."""
    found: "list[str]" = []
    variables = [one for one in bundle.variables if one.startswith(_VARIABLE)]
    if not variables:
        return []
    from ...core.node.container.author_input import drop, problem_of  # few containers have such variables

    for variable in variables:
        name, _, value = variable.partition("=")
        if name.endswith(_JSON):
            continue
        problem = problem_of(name) or problem_of(value)
        addresses = value.split(",") if not problem else []
        if len(found) + len(addresses) > _MOST:
            problem = f"more than {_MOST} PCI addresses"
        if problem:
            if workload is not None:
                drop(workload, f"variable {name[:_LONGEST_NAME]}", problem)
            return []
        found += addresses
    return found


def _fields(device: "Any") -> "tuple[str, str, int, int]":
    """Return path, type, major and minor number of an entry of ``linux.devices``; an empty path if it is malformed."""
    if isinstance(device, dict):
        path, kind = device.get("path"), device.get("type")
        major, minor = device.get("major", 0), device.get("minor", 0)
        if isinstance(path, str) and isinstance(kind, str) and isinstance(major, int) and isinstance(minor, int):
            return path, kind, major, minor
    return "", "", 0, 0
