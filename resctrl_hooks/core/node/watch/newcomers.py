"""Containers that call exec and have no record: reconcile is asked to adopt those whose hook has failed."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_GRACE = 2.0  # seconds within which a new container's hook makes its record
_ASK_EVERY = 15.0  # seconds: a pod's sandbox never gets a record
_MOST = 4096


class Newcomers:
    """The cgroups of such containers, and when each was seen first."""

    def __init__(self) -> None:
        self._seen: "dict[str, float]" = {}
        self._asked: "set[str]" = set()
        self._ask_at = 0.0

    def see(self, cgroup: str, now: float) -> None:
        """Note a container without a record."""
        if cgroup not in self._asked and len(self._seen) < _MOST:
            self._seen.setdefault(cgroup, now)

    def are_late(self, now: float, is_recorded_or_gone: "Callable[[str], bool]") -> bool:
        """Return whether reconcile is to be asked now, once for each container that still has no record."""
        due = [cgroup for cgroup, when in self._seen.items() if now - when >= _GRACE]
        if not due or now < self._ask_at:
            return False
        for cgroup in due:
            del self._seen[cgroup]
        late = [cgroup for cgroup in due if not is_recorded_or_gone(cgroup)]
        if not late:
            return False
        if len(self._asked) > _MOST:
            self._asked.clear()
        self._asked.update(late)
        self._ask_at = now + _ASK_EVERY
        return True
