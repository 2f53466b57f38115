"""Pure decision of the exec watcher: the action for an exec."""

NOTHING, MOVE, UNKNOWN = "nothing", "move", "unknown"


def decide(where: "tuple[str, str] | None", known: "bool | None", *, in_container: bool) -> str:
    """Return the action for a process that has called exec.

    Args:
        where: its RDT class and mon_group; None if unknown.
        known: whether its container is recorded as one to monitor; None for a container without a record.
        in_container: whether its cgroup's name is that of a runtime's container.
    """
    if where is not None and where[1]:
        return NOTHING  # the pod's own group, or a foreign one, where tasks stay
    if known:
        return MOVE
    return UNKNOWN if known is None and in_container else NOTHING
