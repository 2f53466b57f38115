"""`LockedKey` for programs: the operations on one key under its lock, with checked arguments."""

from typing import TYPE_CHECKING

from resctrl_hooks.core.node.errors import NotTrackedError
from resctrl_hooks.core.node.resctrl.group import Group
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey as NodeLockedKey

from .arguments import check_group_name
from .entry import checked

if TYPE_CHECKING:
    from collections.abc import Mapping


@checked
class LockedKey(NodeLockedKey):
    """One key under its lock, as a context manager; returned by `Monitor.hold`.

        >>> with monitor.hold("job-17") as locked:
        ...     group = locked.ensure_group()
        ...     locked.assign_pid(pid)

    Its methods are those of `Monitor` for this key, and raise the same errors. ``record`` is the key's content of
    the ledger; the methods here write changes to it.
    """

    def group(self, rdt_class: str) -> Group:
        """Return the recorded group in class ``rdt_class``.

        Raises:
            NotTrackedError: the key has no such group.
        """
        if rdt_class not in self.origins:
            raise NotTrackedError(f"no group for key {self.key} in {rdt_class or 'the root class'}")
        return super().group(rdt_class)

    def ensure_group(self, rdt_class: str = "") -> Group:
        """Return the key's group in class ``rdt_class``, created if missing.

        Raises the errors of `Monitor.ensure_group`.
        """
        if rdt_class not in self.origins:
            check_group_name(self.usual_name)
        return super().ensure_group(rdt_class)

    def add_member(self, member: str, details: "Mapping[str, object] | None" = None, pid: int = 0) -> None:
        """Record a member of the key, such as a container.

        Args:
            member: its name, one safe part of a path.
            details: further data for its record, as JSON values.
            pid: its process, whose end is the member's end; 0 for none.

        Raises:
            NotTrackedError: the key has no record.
            BadKeyError: the member's name is not valid as a file name.
            LedgerError: it cannot be written.
        """
        if not self.tracked:
            raise NotTrackedError.of(self.key)
        super().add_member(member, details, pid)

    def member_is_dead(self, member: str) -> bool:
        """Return whether the process of ``member`` is certainly gone; false without a pid.

        Raises:
            NotTrackedError: the key has no such member.
        """
        if self.member(member) is None:
            raise NotTrackedError(f"no member {member} of key {self.key}")
        return super().member_is_dead(member)

    def __repr__(self) -> str:
        classes = ", ".join(name or "the root class" for name in sorted(self.origins)) or "no class"
        return f"<LockedKey {self.key}: groups in {classes}>"
