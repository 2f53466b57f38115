"""Values of a container's cgroup that a class sets: written, told to systemd, and put back if somebody undid them."""

from ..host.cgroup import CgroupError, leaf_of, read_value, same_value, write_value
from ..host.files import is_there
from ..log import INFO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..container.workload import Workload
    from ..context import Context
    from ..host.cgroup import Leaf

WEIGHT, BFQ_WEIGHT = "io.weight", "io.bfq.weight"
_DEVICE_FILES = ("io.max", WEIGHT, BFQ_WEIGHT)  # a line for each device, of which ours is one
_LARGEST_BFQ = 1000


def put(workload: "Workload", needs: "dict[str, Any]", context: "Context") -> None:
    """Writes a step's ``values``, pairs of a file's name and what goes into it, and the ``properties`` that keep them.

    Raises:
        CgroupError: the container has no cgroup for it, or the kernel refuses.
    """
    leaf = leaf_of(context, workload.pid, workload.id, workload.cgroup)
    if leaf is None:
        raise CgroupError(f"process {workload.pid} has ended, so it has no cgroup")
    _put(leaf, workload.id, needs, context)


def _put(leaf: "Leaf", container: str, needs: "dict[str, Any]", context: "Context") -> None:
    values: "list[list[str]]" = needs.get("values", [])
    properties: "dict[str, str]" = needs.get("properties", {})
    if properties and leaf.own_scope:
        from ..host.systemd import tell  # only where systemd manages the container

        tell(leaf.unit, properties, context, container=container)
    for name, value in values:
        for folder, file, line in _targets(leaf, name, value):
            _write(folder, file, line)


def _targets(leaf: "Leaf", name: str, value: str) -> "list[tuple[str, str, str]]":
    """Where a value goes: folders, files, and what goes into each.

    The weight goes to the BFQ scheduler too, which has a file and a range of its own, and only while it is loaded.
    """
    if name != WEIGHT:
        return [(folder, name, value) for folder in _folders(leaf, name)]
    device, weight = value.split()
    lines = ((WEIGHT, value), (BFQ_WEIGHT, f"{device} {min(int(weight), _LARGEST_BFQ)}"))
    targets = [(folder, file, line) for file, line in lines for folder in _folders(leaf, file)]
    found = [target for target in targets if is_there(f"{target[0]}/{target[1]}")]
    return found or [(leaf.folder, WEIGHT, value)]


def _folders(leaf: "Leaf", name: str) -> "list[str]":
    """Where a value is to be written: in the container's cgroup, and in its scope where crun made one below that.

    systemd enables a controller for the scope that it is told of, which crun's own part need not have.
    """
    if not leaf.own_scope or leaf.unit_folder == leaf.folder:
        return [leaf.folder]
    found = [folder for folder in (leaf.unit_folder, leaf.folder) if is_there(f"{folder}/{name}")]
    return found or [leaf.folder]


def _write(folder: str, name: str, value: str) -> None:
    if name not in _DEVICE_FILES:
        write_value(folder, name, value)
        return
    try:
        write_value(folder, name, value)
    except CgroupError:
        if not is_in_force(read_value(folder, name), name, value):
            raise


def is_in_force(have: str, name: str, value: str) -> bool:
    """Whether a file says what was written; one with a line for each device says more than that."""
    if name not in _DEVICE_FILES:
        return same_value(name, have, value)
    device, *wanted = value.split()
    for line in have.splitlines():
        found = line.split()
        if found[:1] == [device] and (set(wanted) <= set(found[1:])):
            return True
    # A device without any limit has no line.
    return bool(wanted) and all(word.endswith("=max") for word in wanted)


def put_back(feature: str, context: "Context", known: "set[str]") -> int:
    """For reconcile: writes again what somebody has undone of a feature's values; returns for how many containers.

    Raises:
        CgroupError: some can't be written.
    """
    from ..fault_report import as_hook_error
    from ..reconcile.discovery import living_with  # hooks don't mend

    mended, problems = 0, []
    for container, record, needs in living_with(feature, context, known):
        try:
            leaf = leaf_of(context, record["pid"], container, record.get("cgroup", ""))
            if leaf is None or all(
                is_in_force(read_value(folder, file), file, line)
                for name, value in needs.get("values", [])
                for folder, file, line in _targets(leaf, name, value)
            ):
                continue
            _put(leaf, container, needs, context)
            context.log(INFO, f"put the {feature} class of container {container[:12]} back", key=record["key"])
            mended += 1
        except Exception as error:  # noqa: BLE001  # see faults.as_hook_error
            problems.append(f"{container[:12]}: {as_hook_error(error)}")
    if problems:
        raise CgroupError(f"{feature} of {len(problems)} containers can't be put back: {'; '.join(problems[:5])}")
    return mended
