"""Values in containers' cgroups that another program has changed: reconcile is asked to repair them.

The kubelet's in-place resize, `podman update` and `systemctl daemon-reload` write the runtime's own values. Each write
leads to a check of all containers with such values; a regular check is for containers that are new, and for nodes
without inotify. A node without such values checks nothing.
"""

import time

from ..cgroup_settings.values import are_in_place
from ..host.cgroup import CgroupError
from ..host.files import is_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..context import Context
    from .containers import Containers, Member
    from .writes import Writes

EVERY, EVERY_WITHOUT_EVENTS = 2.0, 0.5  # seconds between regular checks
SHARE = 20  # a check takes at most a twentieth of a processor
PAUSE = 0.1  # seconds from a write to its check, after which the next can follow: a runtime writes several files
AGAIN, _TRIES = 2.0, 5  # a wake-up can be lost while reconcile runs, so it is repeated, in seconds
_NEVER = float("inf")


class Values:
    """The containers whose values were in place at the last check, and those that have lost them since."""

    def __init__(self, writes: "Writes") -> None:
        self._writes = writes
        self._held: "set[str]" = set()
        self._lost: "dict[str, int]" = {}
        self._again_at = 0.0
        self._check_at = self._take_at = _NEVER
        self._earliest = 0.0

    @property
    def due(self) -> float:
        """When `serve` has work, on the monotonic clock in seconds."""
        return min(self._check_at, self._take_at)

    def notice(self) -> None:
        """See new writes."""
        if self._take_at == _NEVER and self._writes.happened():
            self._take_at = time.monotonic() + PAUSE

    def look_around(self, containers: "Containers") -> None:
        """Begin with the checks once there is a container with values."""
        if self._check_at == _NEVER:
            containers.refresh()
            if containers.with_values():
                self._check_at = 0.0

    def serve(self, containers: "Containers", context: "Context") -> None:
        """Check all containers if that is due, and ask reconcile to repair values that another program has changed."""
        begun, used = time.monotonic(), time.thread_time()
        if begun >= self._take_at:
            self._take_at = _NEVER
            if self._writes.take():
                self._check_at = min(self._check_at, self._earliest)
        if begun < self._check_at:
            return
        containers.refresh()
        members = containers.with_values()
        if self._need_repair(members, context, begun):
            context.ledger.wake()
        leaves = [member.leaf for member in members if member.leaf]
        self._writes.watch(folder for leaf in leaves for folder in (leaf.folder, leaf.scope) if folder)
        took = time.thread_time() - used  # not the time that a busy node makes it wait
        self._earliest = begun + took * SHARE
        every = EVERY if self._writes.works else EVERY_WITHOUT_EVENTS
        self._check_at = max(begun + every, self._earliest) if members else _NEVER

    def _need_repair(self, members: "Iterable[Member]", context: "Context", now: float) -> bool:
        """Return whether reconcile is to be asked now.

        Values that were never in place are left to the hook that is writing them, and to reconcile's timer.
        """
        missing = {member.id: member for member in members if not _hold(member, context)}
        held = {member.id for member in members} - missing.keys()
        lost = [id_ for id_ in self._held & missing.keys() if is_folder(missing[id_].cgroup)]
        if lost:
            self._again_at = now
        self._lost = {id_: tries for id_, tries in self._lost.items() if id_ in missing and tries}
        self._lost.update(dict.fromkeys(lost, _TRIES))
        self._held = held
        if not self._lost or now < self._again_at:
            return False
        self._again_at = now + AGAIN
        self._lost = {id_: tries - 1 for id_, tries in self._lost.items()}
        return True


def _hold(member: "Member", context: "Context") -> bool:
    try:
        return are_in_place(member.values, member, context)
    except (CgroupError, OSError):
        return False
