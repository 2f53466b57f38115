"""Pure decisions of the exec watcher: the action for an exec, and the detection of too many execs."""

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


class Load:
    """How many execs came within a second. More than ``most`` are too many for a process each.

    >>> load = Load(2)
    >>> [load.is_too_much(1, now) for now in (0.0, 0.1, 0.2, 1.5)]
    [False, False, True, False]
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun = 0.0
        self._count = 0

    def is_too_much(self, execs: int, now: float) -> bool:
        """Count execs at the time ``now`` in seconds, and return whether their second has had too many."""
        if now - self._begun >= 1.0 or now < self._begun:
            self._begun, self._count = now, 0
        self._count += execs
        return self._count > self._most
