"""Operations on one key under its lock: its groups, its members, and their release.

A key's groups are recorded with their origin: ``created`` by us, ``adopted`` (declared as ours later), or ``shared`` (a
foreign group of that name, which we join and never remove).
"""

import errno
import time

from .. import errors
from ..host.procfs import lives, resctrl_groups_of, start_time
from ..ledger import IDLE, RMIDS
from .group import CREATED, SHARED, Group, RecordedGroups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from types import TracebackType

    from ..ledger import Ledger
    from ..locks import KeyLock
    from ..records import MemberRecord
    from .filesystem import Resctrl
    from .identities import Place


_INIT = 1
_MOST_RENAMES = 4  # by another program while a group is removed


class LockedKey(RecordedGroups):
    """One key under its lock, as a context manager; returned by `Monitor.hold`.

        >>> with monitor.hold("job-17") as locked:
        ...     group = locked.ensure_group()
        ...     locked.assign_pid(pid)

    Its methods are those of `Monitor` for this key, and raise the same errors. ``record`` is the key's content of
    the ledger; the methods here write changes to it.
    """

    def __init__(self, key: str, name: str, resctrl: "Resctrl", ledger: "Ledger", boot: str, lock: "KeyLock") -> None:
        super().__init__(key, name, resctrl, ledger)
        self._boot = boot
        self._lock: "KeyLock | None" = lock
        self._load()

    def _load(self) -> None:
        record = self._ledger.read_pod(self.key)
        if record is not None and record.get("boot") != self._boot:
            self._ledger.remove_pod(self.key)  # resctrl and all processes ended with that boot
            record = None
        self.tracked = record is not None
        self.record = record or {"key": self.key, "boot": self._boot, "groups": {}}
        if self.finish_renaming():
            self.save()

    def __enter__(self) -> "LockedKey":  # noqa: PYI034  # typing.Self is of Python 3.11
        return self

    def __exit__(
        self, kind: "type[BaseException] | None", error: "BaseException | None", trace: "TracebackType | None"
    ) -> None:
        self.unlock()

    @property
    def is_held(self) -> bool:
        """Whether its lock is held."""
        return self._lock is not None and self._lock.is_held

    def unlock(self) -> None:
        """Release the lock. The key must not be used until `lock_again`."""
        lock, self._lock = self._lock, None
        if lock is not None and lock.is_held:
            if not self.tracked:
                lock.remove_folder()
            lock.__exit__()

    def lock_again(self, patience: float) -> None:
        """Take the lock again, and read the record again: others may have changed the key meanwhile.

        Args:
            patience: how many seconds to wait for it.

        Raises:
            DeadlineError: another process holds it all that time, so the key can no longer be used.
        """
        try:
            self.try_lock(patience)
        except errors.LockTimeoutError as error:
            raise errors.DeadlineError(str(error)) from error

    def try_lock(self, patience: float) -> None:
        """Take the lock again within ``patience`` seconds, for callers with something to do before another try.

        Raises:
            LockTimeoutError: another process holds it all that time, and it is still released.
        """
        self._lock = self._ledger.lock(self.key, patience)
        self._load()

    def save(self) -> None:
        """Write the key's record."""
        self._ledger.write_pod(self.key, self.record)
        self.tracked = True

    def ensure_group(self, rdt_class: str = "") -> Group:
        """Return the key's group in class ``rdt_class``, created if missing.

        Raises the errors of `Monitor.ensure_group`.
        """
        if self._has(rdt_class) or (self.record.get("identities") and self.find_again() and self._has(rdt_class)):
            return self.group(rdt_class)
        if self._resctrl.exists(rdt_class, self.usual_name):
            self.note_group(rdt_class, SHARED)
            self.record.get("since", {}).pop(rdt_class, None)  # that of an earlier group of ours
            self.save()
        else:
            self._create(rdt_class)
        return self.group(rdt_class)

    def _has(self, rdt_class: str) -> bool:
        return rdt_class in self.origins and self._resctrl.exists(rdt_class, self.name_in(rdt_class))

    def find_again(self) -> "list[tuple[Place, Place]]":
        """Let groups that another program has renamed be the key's again; return their former and present places."""
        from .moved import find_again  # few groups are missing

        found = find_again(self, self._resctrl, self._ledger)
        if found:
            self.save()
        return found

    def _create(self, rdt_class: str) -> None:
        # The record comes first: after a kill in between, the group is known as ours. It did not exist a moment ago, so
        # mistaking a foreign group for ours needs both a race and a kill within the same microseconds.
        self.forget_groups(rdt_class)
        self.note_group(rdt_class, CREATED)
        now = round(time.clock_gettime(time.CLOCK_BOOTTIME), 3)
        self.record.setdefault("born", now)
        self.record.setdefault("since", {})[rdt_class] = now
        self.save()
        try:
            self._resctrl.create(rdt_class, self.usual_name)
        except errors.GroupExistsError:
            self.origins[rdt_class] = SHARED
            self.save()
            return
        except errors.ResctrlError:
            self.forget_groups(rdt_class)
            self._save_or_forget()
            raise
        if self._resctrl.has_energy():
            from .energy_baseline import keep_baseline  # only on kernels with such counters

            if keep_baseline(self.record, rdt_class, self._resctrl.group_folder(rdt_class, self.usual_name)):
                self.save()

    def _save_or_forget(self) -> None:
        if self.origins or self.members():
            self.save()
        else:
            self._leave_index()
            self._ledger.remove_pod(self.key)
            self.tracked = False

    def assign_pid(self, pid: int, rdt_class: "str | None" = None) -> int:
        """Move process ``pid`` with all threads into the key's group in its own class; return the number of threads.

        ``rdt_class`` is that class, if it is known; if it has changed since, the kernel refuses, and it is read.
        Raises the errors of `Monitor.assign_pid`.
        """
        if pid <= _INIT:
            why = {0: "0 is the caller", 1: "it is init"}.get(pid, "it is negative")
            raise errors.BadPidError(f"cannot move process {pid}: {why}", errno=errno.EINVAL)
        if rdt_class in self.origins:
            try:
                return self._resctrl.assign(rdt_class, self.name_in(rdt_class), pid)
            except errors.ResctrlError as error:
                if error.errno != errno.EINVAL:
                    raise
        try:
            where = resctrl_groups_of(self._resctrl.proc, pid)
        except ProcessLookupError as error:
            raise errors.TaskGoneError.of(pid) from error
        if where is not None and where[0] in self.origins:
            return self._resctrl.assign(where[0], self.name_in(where[0]), pid)
        if where is None and len(self.origins) == 1:
            only = next(iter(self.origins))
            return self._resctrl.assign(only, self.name_in(only), pid)
        from .trial import assign_by_trial  # the process is in another class, or /proc shows none

        return assign_by_trial(self._resctrl, self.key, [*map(self.group, sorted(self.origins))], pid, where)

    def add_member(self, member: str, details: "Mapping[str, object] | None" = None, pid: int = 0) -> None:
        """Record a member of the key, such as a container.

        Args:
            member: its id, one safe part of a path.
            details: further data for its record, as JSON values.
            pid: its init process, whose end is its death; 0 for none.

        Raises:
            LedgerError: it cannot be written.
        """
        record: MemberRecord = {"id": member, "key": self.key, "boot": self._boot}
        record.update(details or {})  # type: ignore[typeddict-item]  # a program may record what it likes
        if pid:
            record["pid"] = pid
            record["start"] = start_time(self._resctrl.proc, pid)
        self._ledger.point(member, self.key)
        self._ledger.write_member(self.key, member, record)
        self._ledger.unmark(IDLE, self.key)

    def remove_member(self, member: str) -> int:
        """Forget ``member``, and return how many are left."""
        self._ledger.remove_member(self.key, member)
        return len(self.members())

    def members(self) -> "list[str]":
        """Return the ids of the recorded members."""
        return self._ledger.members(self.key)

    def member(self, member: str) -> "MemberRecord | None":
        """Return the record of ``member``; None without one."""
        return self._ledger.read_member(self.key, member)

    def member_is_dead(self, member: str) -> bool:
        """Return whether the init process of ``member`` is certainly gone.

        It is gone if it is missing, has no thread left, is another process, or is of another boot. A member that was
        recorded without a pid never counts as gone; only the program that added it knows.
        """
        return record_is_dead(self.member(member), self._boot, self._resctrl.proc)

    def release(self) -> "list[Group]":
        """Remove the key's groups, except shared ones, then all its records. Return the removed groups."""
        removed = self._remove_but(())
        self._leave_index()
        self._ledger.remove_pod(self.key)
        self.tracked = False
        return removed

    def release_but(self, classes: "Collection[str]") -> None:
        """Remove the key's groups in other classes than ``classes``, except shared ones, and forget them."""
        if self.origins.keys() - classes:
            self._remove_but(classes)
            self.save()

    def remove_unused(self, rdt_class: str) -> None:
        """Remove a new group that none of its intended tasks joined, or forget it if it is shared.

        Readers would count it as a pod's group.

        Args:
            rdt_class: the group's class.
        """
        if rdt_class not in self.origins or self._resctrl.tasks(rdt_class, self.name_in(rdt_class)):
            return
        self._remove(rdt_class)
        if not self.origins:
            self._leave_index()
            self.record.pop("claim", None)
        self._save_or_forget()

    def _remove_but(self, classes: "Collection[str]") -> "list[Group]":
        removed: "list[Group]" = []
        for _ in range(_MOST_RENAMES if self.record.get("identities") else 1):
            if not self.origins.keys() - classes:
                break
            if self.record.get("identities"):
                self.find_again()
            groups = [group for group in self.groups() if group.rdt_class not in classes]
            removed += [one for one in groups if one.rdt_class in self.origins and self._remove(one.rdt_class)]
        return removed

    def _remove(self, rdt_class: str) -> bool:
        """Remove a group, unless it is shared, and forget it; return whether it was removed.

        One that another program has just renamed is not forgotten.
        """
        removed = self.origins[rdt_class] != SHARED and self._resctrl.remove(rdt_class, self.name_in(rdt_class))
        if removed or not self.record.get("identities", {}).get(rdt_class) or not self.find_again():
            self.forget_groups(rdt_class)
        return removed

    def _leave_index(self) -> None:
        """Remove the key from the index of RMID holders, if it exists: see `sharing.claims`."""
        entry = self.record.get("claim", {}).get("entry")
        if entry:
            self._ledger.unmark(RMIDS, entry)


def record_is_dead(record: "MemberRecord | None", boot: str, proc: str) -> bool:
    """Return whether the init process in a member's record is certainly gone."""
    if record is None or record.get("boot") != boot:
        return True
    pid = record.get("pid", 0)
    if not pid:
        return False
    return not lives(proc, pid, record.get("start"))  # a member that was dead when recorded has a start of 0
