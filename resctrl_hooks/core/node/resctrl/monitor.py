"""Monitoring groups: one group per key and class, until it is removed.

All state is on disk, in resctrl and in the ledger, so any number of `Monitor` objects, threads and processes agree.
Hooks use this class with arguments that they have checked; `resctrl_hooks.Monitor` checks those of other programs.
"""

from .. import errors
from ..host.procfs import boot_id
from ..ledger import Ledger
from ..locks import is_held_here
from ..log import DEBUG, INFO, silent
from ..names import KEY_RULE, RESCTRL_ROOT, default_key_validator
from .filesystem import Filesystem, Resctrl
from .group import Group, name_of
from .locked_key import LockedKey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..log import LogCallable
    from .counter_totals import Scrape
    from .counters import Reading
    from .open_files import OpenFiles

    # `resctrl_hooks.annotations` has these for programs. Inside the class, `list` is the method of that name.
    Groups = list[Group]
    Readings = list[Reading]


class Monitor:
    """Creates, finds, fills and removes the mon_groups of workloads; `resctrl_hooks.Monitor` has the arguments."""

    _locked_key = LockedKey

    def __init__(
        self,
        resctrl_root: str = RESCTRL_ROOT,
        *,
        state_dir: str,
        group_prefix: str = "",
        key_validator: "Callable[[str], bool]" = default_key_validator,
        key_canonicalizer: "Callable[[str], str] | None" = None,
        log: "LogCallable" = silent,
        fs: "Filesystem | None" = None,
        proc: str = "/proc",
        patience: float = 2.5,
    ) -> None:
        if group_prefix and not default_key_validator(group_prefix):
            raise errors.BadKeyError(f"invalid group prefix {group_prefix[:80]!r}", hint=KEY_RULE)
        self.resctrl = Resctrl(str(resctrl_root).rstrip("/"), fs, proc)
        self.ledger = Ledger(str(state_dir).rstrip("/"))
        self.group_prefix = group_prefix
        self.patience = patience
        self._valid = key_validator
        self._canonical = key_canonicalizer
        self.log = log
        self.boot = boot_id(proc)

    def canonical_key(self, key: str) -> str:
        """Return the canonical spelling of ``key``, which names its groups and records.

        Raises:
            BadKeyError: the key, or its canonical spelling, is not valid or not one safe part of a path.
        """
        if self._valid(key):
            canonical = self._canonical(key) if self._canonical else key
            if default_key_validator(canonical) and self._valid(canonical):
                return canonical
        rule = f"the key_validator {getattr(self._valid, '__name__', 'of this monitor')} rejects it"
        raise errors.BadKeyError(f"invalid key {key[:80]!r}", hint=rule if default_key_validator(key) else KEY_RULE)

    def hold(self, key: str, patience: "float | None" = None) -> LockedKey:
        """Take the key's lock, for several operations that belong together. A thread may hold several keys.

            >>> with monitor.hold("job-17") as locked:
            ...     locked.ensure_group("gold")
            ...     locked.assign_pid(pid)

        A child that is forked meanwhile does not hold the key, and must not use this object.

        Args:
            key: the workload.
            patience: maximum seconds to wait for another holder; the monitor's own by default.

        Raises:
            BadKeyError: as `canonical_key`.
            HeldError: this thread holds the key already.
            LockTimeoutError: another process or thread held the key all that time.
            LedgerError: the state directory is unusable.
        """
        return self._hold(self.canonical_key(key), patience)

    def _hold(self, key: str, patience: "float | None" = None) -> LockedKey:
        """Take the lock of a key in the spelling of its record."""
        if is_held_here(self.ledger.folder, key):
            raise errors.HeldError(f"key {key} is already held by this thread")
        lock = self.ledger.lock(key, self.patience if patience is None else patience)
        try:
            return self._locked_key(key, self.group_prefix + key, self.resctrl, self.ledger, self.boot, lock)
        except BaseException:
            lock.remove_folder()
            lock.__exit__()
            raise

    def hold_beside(self, locked: LockedKey, key: str, patience: float) -> LockedKey:
        """Take a second key's lock while one is held, in the order of the keys, which prevents deadlocks.

        Args:
            locked: the key that is held. It may release its lock for a moment, and then reads its record again.
            key: the second key.
            patience: maximum seconds to wait for the second key.

        Raises:
            LockTimeoutError: another process held the lock of ``key`` all that time; ``locked`` is still held.
            DeadlineError: ``locked`` could not be held again.
        """
        if locked.key < key:
            return self.hold(key, patience)
        locked.unlock()
        try:
            beside = self.hold(key, patience)
        except BaseException:
            locked.lock_again(self.patience)
            raise
        try:
            locked.lock_again(self.patience)
        except BaseException:
            beside.unlock()
            raise
        return beside

    def ensure_group(self, key: str, rdt_class: str = "") -> Group:
        """Return the key's group in a class, created if missing; the class's ctrl_group must exist.

        Further calls return the same group. A foreign group of that name is shared: joined, and never removed by us.

        Args:
            key: the workload.
            rdt_class: the name of the class's ctrl_group; empty for the root class.

        Raises:
            NoRMIDsError, RMIDsBusyError: no RMID is free; the freed ones are in limbo.
            BadClassError: the class does not exist.
            BadKeyError, NotMountedError, NotPermittedError, ReadOnlyError, LedgerError: see these types.
        """
        with self.hold(key) as locked:
            group = locked.ensure_group(rdt_class)
        self.log(DEBUG, f"{group.origin} group {group.path}", key=group.key, rdt_class=rdt_class)
        return group

    def assign_pid(self, key: str, pid: int) -> int:
        """Move a process, with all its threads, into the key's group in the process's own class.

        Return the number of moved threads, after a check that they arrived. Later threads and children start in the
        group, so move a process before it forks.

        Args:
            key: the workload, which has a group in that class.
            pid: the process, in our PID namespace; 2 or more.

        Raises:
            BadPidError: 0 would be the caller itself, 1 is init, and negative ids do not exist.
            NotTrackedError: the key has no group.
            ClassMismatchError: the key has no group in the process's class; the process stays where it is.
            TaskGoneError: the process has ended.
            NotArrivedError: another program moved the process at once.
        """
        with self.hold(key) as locked:
            return locked.assign_pid(pid)

    def remove(self, key: str) -> "Groups":
        """Remove the groups of ``key`` in all classes and all its records; return the removed groups.

        Raises:
            NotTrackedError: the key has no record.
        """
        with self.hold(key) as locked:
            if not locked.tracked:
                raise errors.NotTrackedError.of(locked.key)
            removed = locked.release()
        for group in removed:
            self.log(INFO, f"removed group {group.path}", key=group.key)
        return removed

    def read(self, key: str, *, by_class: bool = False) -> "Readings":
        """Return the counts of a key, a reading for each counter in each domain.

            >>> for reading in monitor.read("job-17"):
            ...     print(reading.domain.folder, reading.counter.name, reading.value, reading.unit)

        With Sub-NUMA Clustering a domain has readings for the whole (``domain.node`` is None) and for its parts: do
        not add the two. `totals` returns sums. Cumulative values never decrease while the key is tracked, also after a
        change of its groups. Read a key before its group is removed or emptied, so that its counts until then are
        kept. Each value is in its reading's unit.

        Args:
            key: the workload.
            by_class: readings of each RDT class rather than the sums over all classes with groups of the key.

        Raises:
            NotTrackedError: the key has no record.
            NotMountedError, LedgerError: see these types.
        """
        key = self.canonical_key(key)
        if (self.ledger.read_pod(key) or {}).get("boot") != self.boot:
            raise errors.NotTrackedError.of(key)
        from .counter_totals import read_counters  # hooks don't read counters

        return read_counters(self, [key], by_class=by_class).readings.get(key, [])

    def read_all(self, *, by_class: bool = False) -> "dict[str, Readings]":
        """Return the readings of every tracked key by key, each as `read` returns them, also with ``by_class``.

        Raises:
            NotMountedError, LedgerError: see these types.
        """
        from .counter_totals import read_counters

        return read_counters(self, by_class=by_class).readings

    def read_counters(self, files: "OpenFiles | None" = None) -> "Scrape":
        """Read every tracked key once, by class, with each group's own values.

        Args:
            files: files that stay open between reads.

        Raises:
            NotMountedError, LedgerError: see these types.
        """
        from .counter_totals import read_counters

        return read_counters(self) if files is None else read_counters(self, read_one=files.read_group)

    def list(self) -> "Groups":
        """Return every group that the ledger records, sorted by key and class. Takes no lock."""
        found = []
        for key in sorted(self.ledger.keys()):
            record = self.ledger.read_pod(key)
            if record is not None and record.get("boot") == self.boot:
                for rdt_class, origin in sorted(record["groups"].items()):
                    path = self.resctrl.group_folder(rdt_class, name_of(record, rdt_class, self.group_prefix + key))
                    found.append(Group(key, rdt_class, path, origin))
        return found
