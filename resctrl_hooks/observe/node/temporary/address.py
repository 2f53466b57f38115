"""One value that can be changed and restored: of an RDT class's schemata, in a file of a cgroup, or a pod's class.

Sources: kernel, Documentation/filesystems/resctrl.rst ("schemata"), Documentation/admin-guide/cgroup-v2.rst.
"""

import posix
from typing import NamedTuple

from ....core.node.errors import ResctrlError
from ....core.node.host.cgroup import CgroupError, read_value, same_value, write_value
from ....core.node.host.files import GONE
from ....core.node.resctrl.schemata import parse_schemata, set_schemata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.node.resctrl.filesystem import Resctrl

CLASS, CGROUP, POD = "class", "cgroup", "pod"
DEFAULT = "default"
_UNSET = {
    "io.weight": DEFAULT,
    "io.bfq.weight": DEFAULT,
    "io.max": "rbps=max wbps=max riops=max wiops=max",
}
"""The value of a device without a line, in the form that removes the line."""


class Address(NamedTuple):
    """Where a value is."""

    kind: str
    place: str
    """The class, the cgroup's folder, or the pod's key."""
    name: str
    """The resource, the cgroup's file, or ``class``, the RDT class of a pod (`pod_class`)."""
    part: str = ""
    """The domain, or the line of the file; empty: the file has one value."""

    def __str__(self) -> str:
        if self.kind == POD:
            return f"the class of pod {self.place}"
        where = f"class {self.place or '/'}" if self.kind == CLASS else self.place
        return f"{self.name}{f' {self.part}' if self.part else ''} of {where}"


def read(resctrl: "Resctrl", address: Address) -> "str | None":
    """Return a value; None if its class or cgroup is gone.

    Raises:
        HookError: it cannot be read, so it is unknown.
    """
    if address.kind == CLASS:
        return _read_class(resctrl, address)
    try:
        text = read_value(address.place, address.name)
    except OSError as error:
        raise CgroupError.of_file(error, f"{address.place}/{address.name}", "read") from error
    if not address.part or not (text or _exists(address)):
        return text or None
    lines = dict(line.split(None, 1) for line in text.splitlines() if " " in line)
    return lines.get(address.part, _UNSET.get(address.name))


def _exists(address: Address) -> bool:
    """Return whether a cgroup has the file: without a line for any device, the kernel's `io.max` is empty."""
    try:
        posix.stat(f"{address.place}/{address.name}")
    except OSError:
        return False
    return True


def _read_class(resctrl: "Resctrl", address: Address) -> "str | None":
    path = f"{resctrl.class_folder(address.place)}/schemata"
    try:
        text = resctrl.fs.read(path).decode("ascii", "replace")
    except OSError as error:
        if error.errno in GONE:
            return None
        raise ResctrlError(f"cannot read {path}", errno=error.errno or 0) from error
    value = parse_schemata(text).get(address.name, {}).get(int(address.part))
    if value is None:
        raise ResctrlError(f"{path} has no {address.name} of domain {address.part}")
    return value


def write(resctrl: "Resctrl", address: Address, value: str) -> str:
    """Write a value; return the one in effect, as the kernel rounds it.

    Raises:
        HookError: the kernel refuses.
    """
    if address.kind == CLASS:
        number = int(address.part)
        return set_schemata(resctrl, address.place, address.name, {number: value})[number]
    if not address.part:
        write_value(address.place, address.name, value)
        return value
    try:
        write_value(address.place, address.name, f"{address.part} {value}")
    except CgroupError:
        # The file has a line for each device, so it never reads as it was written.
        if not is_same(address, read(resctrl, address), value):
            raise
    return value


def is_same(address: Address, one: "str | None", other: "str | None") -> bool:
    """Return whether two values are the same one, by the rounding of their file."""
    if one is None or other is None or one == other:
        return one == other
    if address.kind == CLASS:
        return one.lower().lstrip("0") == other.lower().lstrip("0")  # masks have leading zeros
    return sorted(one.split()) == sorted(other.split()) or same_value(address.name, one, other)
