"""The kind of a disk: whether it has a head that moves, and by which file cgroups share it.

Sources: kernel, Documentation/ABI/stable/sysfs-block (``queue/rotational``, ``queue/scheduler``),
Documentation/block/bfq-iosched.rst, Documentation/admin-guide/cgroup-v2.rst (``io.cost.qos``): weights act under the
scheduler bfq, or where the cost model is enabled for the disk. Elsewhere the kernel accepts and ignores them.
"""

from .....core.node.host.files import kernel_text
from .disks import Kind

BY_COST, BY_BFQ = "io.weight", "io.bfq.weight"
_BFQ = "[bfq]"
_ENABLED = "enable=1"


def read_kind(sys_path: str, cgroups: str, number: str) -> Kind:
    """Return the kind of a disk.

    Args:
        sys_path: where sysfs is mounted.
        cgroups: the root of the cgroups.
        number: of the disk, such as ``8:0``.
    """
    queue = f"{sys_path}/dev/block/{number}/queue"
    rotates = kernel_text(f"{queue}/rotational") == "1"
    if _BFQ in kernel_text(f"{queue}/scheduler"):
        return Kind(rotates, BY_BFQ)
    lines = [line.split() for line in kernel_text(f"{cgroups}/io.cost.qos").splitlines()]
    is_by_cost = any(words[:1] == [number] and _ENABLED in words for words in lines)
    return Kind(rotates, BY_COST if is_by_cost else "")
