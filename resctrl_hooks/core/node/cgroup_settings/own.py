"""A container's own cgroup, located once per hook call or reconcile pass for all features.

It does not move while the container lives.
"""

from ..host.cgroup import CgroupError, leaf_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..feature import Container, OfCgroup
    from ..host.cgroup import Leaf


def own_cgroup(container: "OfCgroup", context: "Context") -> "Leaf | None":
    """Return the container's own cgroup, or None if its process is gone.

    Raises:
        CgroupError: the host has no cgroup v2 of its own, or the container no cgroup of its own.
    """
    if container.leaf is None:
        container.leaf = leaf_of(
            context.proc, context.settings.cgroup_path, container.pid, container.id, container.cgroup
        )
    return container.leaf


def living_cgroup(container: "Container", context: "Context") -> "Leaf":
    """Return the container's own cgroup.

    Raises:
        CgroupError: as `own_cgroup`, or the process is gone.
    """
    leaf = own_cgroup(container, context)
    if leaf is None:
        raise CgroupError(f"process {container.pid} has ended and has no cgroup")
    return leaf
