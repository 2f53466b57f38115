"""Values in containers' cgroups that another program has changed: reconcile is asked to repair them.

The kubelet's in-place resize, `podman update` and `systemctl daemon-reload` write the runtime's own values. Polling
needs no notification from the kernel, and a node without such values polls nothing.
"""

from ..cgroup_settings.values import are_in_place
from ..host.cgroup import CgroupError
from ..host.files import is_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..context import Context
    from .containers import Member

EVERY, SHARE = 0.5, 100  # seconds at least between checks; a check takes at most a hundredth of a processor
AGAIN, _TRIES = 2.0, 5  # a wake-up can be lost while reconcile runs, so it is repeated, in seconds


class Values:
    """The containers whose values were in place at the last check, and those that have lost them since."""

    def __init__(self) -> None:
        self._held: "set[str]" = set()
        self._lost: "dict[str, int]" = {}
        self._again_at = 0.0

    def need_repair(self, members: "Iterable[Member]", context: "Context", now: float) -> bool:
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
