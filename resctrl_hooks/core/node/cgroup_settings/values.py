"""Values that a class sets in a container's cgroup: write, send to systemd, compare; and the base of their features."""

from ..feature import Feature
from ..host.cgroup import CgroupError, folders_for, read_value, same_value, write_value
from ..host.files import is_there
from .own import living_cgroup, own_cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..feature import Container, OfCgroup, Step
    from ..host.cgroup import Leaf
    from ..records import CgroupNeeds
    from ..resctrl.locked_key import LockedKey

WEIGHT, BFQ_WEIGHT = "io.weight", "io.bfq.weight"
_DEVICE_FILES = ("io.max", WEIGHT, BFQ_WEIGHT)  # one line per device, including foreign ones
_LARGEST_BFQ = 1000
_LIMIT = "memory.max"
_PART = f"{_LIMIT} * "


def part_of_max(part: float) -> str:
    """Return the value of a file that is a part of ``memory.max``, which a resize of the container changes."""
    return f"{_PART}{part}"


def resolved(value: str, leaf: "Leaf") -> str:
    """Return a value as the cgroup's file has it; ``max`` for a part of an unlimited memory."""
    if not value.startswith(_PART):
        return value
    limits = [read_value(folder, _LIMIT) for folder in folders_for(_LIMIT, leaf.folder, leaf.scope)]
    smallest = min((int(limit) for limit in limits if limit.isdigit()), default=0)
    return str(int(smallest * float(value[len(_PART) :]))) if smallest else "max"


class CgroupFeature(Feature):
    """A feature that sets values in a container's cgroup, which its steps have in the form of `CgroupNeeds`."""

    def apply(self, step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
        """Write the values to the cgroup and, for a systemd scope, to the unit, so that a daemon-reload keeps them."""
        put(container, self.values(step), self.properties(step, container, context), context)

    def runs_programs(self, step: "Step", context: "Context") -> bool:
        """Return whether the values are sent to systemd."""
        from ..host.systemd import available  # only for containers with such values

        return available(context.settings.cgroup_path) and bool(self.values(step))

    def values(self, step: "Step") -> "list[list[str]]":
        """Return the values of the container's cgroup."""
        needs: "CgroupNeeds" = step.parameters
        return needs["values"]

    def properties(self, step: "Step", container: "Container", context: "Context") -> "dict[str, str]":
        """Return the systemd properties that keep the values."""
        needs: "CgroupNeeds" = step.parameters
        return needs["properties"]

    def holds(self, step: "Step", container: "Container", context: "Context") -> bool:
        """Return whether all values are in place."""
        return are_in_place(self.values(step), container, context)


def put(container: "Container", values: "list[list[str]]", properties: "dict[str, str]", context: "Context") -> None:
    """Write ``values``, pairs of a file's name and its content, and send their ``properties`` to systemd.

    A service's properties are not the container's alone, and its part of the tree is delegated, so they are not sent.

    Raises:
        CgroupError: the container has no cgroup for it, or the kernel refuses.
    """
    leaf = living_cgroup(container, context)
    if properties and leaf.own_scope:
        from .systemd_properties import send_own  # only where systemd manages the container

        send_own(leaf, properties, context, key=container.key, container=container.id)
    for name, value in values:
        for folder, file, line in _targets(leaf, name, value):
            _write(folder, file, line)


def _targets(leaf: "Leaf", name: str, value: str) -> "list[tuple[str, str, str]]":
    """Return the targets of a value: folders, files, and contents.

    The weight is also written for the BFQ scheduler, which has its own file and range, while it is loaded.
    """
    if name != WEIGHT:
        value = resolved(value, leaf)
        return [(folder, name, value) for folder in folders_for(name, leaf.folder, leaf.scope)]
    device, weight = value.split()
    lines = ((WEIGHT, value), (BFQ_WEIGHT, f"{device} {min(int(weight), _LARGEST_BFQ)}"))
    targets = [(folder, file, line) for file, line in lines for folder in folders_for(file, leaf.folder, leaf.scope)]
    found = [target for target in targets if is_there(f"{target[0]}/{target[1]}")]
    return found or [(leaf.folder, WEIGHT, value)]


def _write(folder: str, name: str, value: str) -> None:
    if name not in _DEVICE_FILES:
        write_value(folder, name, value)
        return
    try:
        write_value(folder, name, value)
    except CgroupError:
        if not is_in_place(read_value(folder, name), name, value):
            raise


def is_in_place(have: str, name: str, value: str) -> bool:
    """Return whether a file has the written value; files with a line per device contain further lines."""
    if name not in _DEVICE_FILES:
        return same_value(name, have, value)
    device, *desired = value.split()
    for line in have.splitlines():
        found = line.split()
        if found[:1] == [device] and (set(desired) <= set(found[1:])):
            return True
    # A device without a limit has no line.
    return bool(desired) and all(word.endswith("=max") for word in desired)


def are_in_place(values: "list[list[str]]", container: "OfCgroup", context: "Context") -> bool:
    """Return whether all values are as written; true for an ended container."""
    leaf = own_cgroup(container, context)
    return leaf is None or all(
        is_in_place(read_value(folder, file), file, line)
        for name, value in values
        for folder, file, line in _targets(leaf, name, value)
    )
