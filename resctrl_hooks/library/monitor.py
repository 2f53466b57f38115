"""`Monitor` for programs: the node half's, with checked arguments, and the methods that only programs use."""

import contextlib
from typing import TYPE_CHECKING, Any

from resctrl_hooks.core.node.errors import HookError, NotTrackedError, ReconcileError
from resctrl_hooks.core.node.host.unfinished import remove_unfinished
from resctrl_hooks.core.node.log import INFO, silent
from resctrl_hooks.core.node.names import RESCTRL_ROOT, default_key_validator
from resctrl_hooks.core.node.resctrl.counters import CUMULATIVE
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem
from resctrl_hooks.core.node.resctrl.layouts import L3
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey as NodeLockedKey
from resctrl_hooks.core.node.resctrl.locked_key import record_is_dead
from resctrl_hooks.core.node.resctrl.monitor import Monitor as NodeMonitor
from resctrl_hooks.core.node.resctrl.total import exact
from resctrl_hooks.core.node.state_folders import folders_of_records

from . import arguments
from .entry import checked, in_programs_words
from .locked_key import LockedKey
from .log import log_of

if TYPE_CHECKING:
    import logging
    import os
    import subprocess
    from collections.abc import Callable, Iterable, Sequence

    from resctrl_hooks.annotations import Keys, LogCallable, Members, Totals
    from resctrl_hooks.core.node.resctrl.counters import Reading


@checked
class Monitor(NodeMonitor):
    """Creates, finds, fills and removes the mon_groups of workloads.

    A *key* names a workload (a pod UID, a container id) and its groups: ``<class>/mon_groups/<group_prefix><key>``.

    Arguments of a wrong type raise TypeError in every method. Paths may be path objects; a relative one is that of the
    folder in which the program is now.

    Args:
        resctrl_root: where resctrl is mounted.
        state_dir: the ledger's folder; programs with the same folder share their groups. It has no default: in the
            hooks' own folder, ``/run/resctrl-hooks``, `remove` and `reconcile` would end the groups of pods.
        group_prefix: prefix of group names, before the key. Kepler expects an empty one.
        key_validator: returns whether a key is accepted, before and after canonicalization.
        key_canonicalizer: returns the canonical spelling of a key; it must not change a canonical key.
        log: a `logging.Logger`, or a callable for a syslog priority, a sentence and fields.
        fs: the system calls on resctrl, for tests.
        proc: where procfs is mounted.
        patience: maximum seconds to wait for another process that holds a key's lock.

    Raises:
        ValueError: a path or ``patience`` is not valid.
        BadKeyError: ``group_prefix`` is not valid.
        HookError: ``proc`` is unreadable.
    """

    _locked_key = LockedKey

    def __init__(
        self,
        resctrl_root: "str | os.PathLike[str]" = RESCTRL_ROOT,
        *,
        state_dir: "str | os.PathLike[str]",
        group_prefix: str = "",
        key_validator: "Callable[[str], bool]" = default_key_validator,
        key_canonicalizer: "Callable[[str], str] | None" = None,
        log: "LogCallable | logging.Logger" = silent,
        fs: "Filesystem | None" = None,
        proc: "str | os.PathLike[str]" = "/proc",
        patience: float = 2.5,
    ) -> None:
        try:
            super().__init__(
                arguments.folder(resctrl_root, "resctrl_root"),
                state_dir=arguments.folder(state_dir, "state_dir"),
                group_prefix=arguments.text(group_prefix, "group_prefix"),
                key_validator=arguments.function(key_validator, "key_validator"),
                key_canonicalizer=None
                if key_canonicalizer is None
                else arguments.function(key_canonicalizer, "key_canonicalizer"),
                log=log_of(log),
                fs=None if fs is None else arguments.instance(fs, Filesystem),
                proc=arguments.folder(proc, "proc"),
                patience=arguments.patience(patience),
            )
        except OSError as error:
            raise HookError.of_file(error, str(error.filename or "a path"), "read") from error

    if TYPE_CHECKING:  # the node half's methods, with the type of this class

        def hold(self, key: str, patience: "float | None" = None) -> LockedKey: ...  # noqa: D102
        def hold_beside(self, locked: NodeLockedKey, key: str, patience: float) -> LockedKey: ...  # noqa: D102

    def add_member(self, key: str, member: str, pid: int = 0) -> None:
        """Record a user of the key's groups: a container of a pod, a step of a job.

        Args:
            key: the workload.
            member: the member's name, one safe part of a path.
            pid: its process, whose end is the member's end; 0 for none.

        Raises:
            NotTrackedError: the key has no group.
            BadKeyError: the member's name is not valid as a file name.
        """
        with self.hold(key) as locked:
            locked.add_member(member, pid=pid)

    def remove_member(self, key: str, member: str) -> int:
        """Forget ``member`` of ``key``, if recorded; return the number of its other members. The group stays.

        Raises:
            NotTrackedError: the key has no record.
            BadKeyError: the member's name is not valid as a file name.
        """
        with self.hold(key) as locked:
            if not locked.tracked:
                raise NotTrackedError.of(locked.key)
            return locked.remove_member(member)

    def member_count(self, key: str) -> int:
        """Return the number of members of ``key``."""
        return len(self.ledger.members(key))

    def member_is_dead(self, key: str, member: str) -> bool:
        """Return whether a ``key``'s ``member`` has certainly ended; false without a pid. Takes no lock.

        Raises:
            NotTrackedError: the key has no such member.
        """
        record = self.ledger.read_member(key, member)
        if record is None:
            raise NotTrackedError(f"no member {member} of key {key}")
        return record_is_dead(record, self.boot, self.resctrl.proc)

    def members(self, key: str) -> "Members":
        """Return the names of the members of ``key``, sorted; none for a key without a record. Takes no lock."""
        return sorted(self.ledger.members(key))

    def start(
        self, key: str, argv: "Sequence[str | os.PathLike[str]] | str", *, rdt_class: str = "", **popen: Any
    ) -> "subprocess.Popen[Any]":
        """Start a program in the key's group, before its first instruction; the group is created if missing.

            >>> job = monitor.start("job-17", ["sleep", "60"], stdout=subprocess.DEVNULL)

        All threads and children of the program start in the group, too. For the duration of the call, the calling
        thread is in the group, and what it does is counted there. The key is held meanwhile.

        Args:
            key: the workload.
            argv: the program and its arguments, as `subprocess.Popen` takes them.
            rdt_class: the RDT class in which the program runs, whichever class the caller is in; empty for the root
                class.
            popen: further arguments of `subprocess.Popen`.

        Raises:
            NoRMIDsError, RMIDsBusyError, BadClassError, NotPermittedError: as `ensure_group`.
            NotArrivedError: another program moved the thread at once.
            OSError: the program cannot be started. A group that was created for it is removed.
        """
        from .start import start_in  # noqa: PLC0415  # it imports subprocess, which most programs do not need

        with self.hold(key) as locked:
            return start_in(self, locked, rdt_class, argv, popen)

    def totals(self, key: str) -> "Totals":
        """Return the sum of each counter over all domains, by the counter's name.

            >>> monitor.totals("job-17")["mbm_total_bytes"]

        Units: bytes for ``llc_occupancy``, ``mbm_total_bytes`` and ``mbm_local_bytes``, joules for ``core_energy``,
        farads for ``activity``; others as in `read`. Parts of a domain (Sub-NUMA Clustering) are not added again. If
        several resources have a counter of the same name, L3 has it, and the others are ``RESOURCE/NAME``.

        The sum of a cumulative counter never decreases while the key is tracked, and is None if no domain has counted
        yet. That of a gauge is None if one domain has no value now.

        Args:
            key: the workload.

        Raises:
            NotTrackedError, NotMountedError, LedgerError: as `read`.
        """
        return _sums(self.read(key))

    def reconcile(self, live: "Iterable[str]") -> "Keys":
        """Remove every tracked key that is not in ``live``, and return the removed keys. Untracked groups stay.

        Records of keys that ``key_validator`` refuses stay, too. All keys are tried, also after a failure.

        Args:
            live: the keys that stay.

        Raises:
            BadKeyError: a key in ``live`` is invalid. Nothing was removed.
            ReconcileError: some keys could not be removed; it has both lists.
        """
        keep = set(live)
        for folder in folders_of_records(self.ledger.folder, self.ledger.keys()):
            with contextlib.suppress(OSError):  # they only take room
                remove_unfinished(folder, self.resctrl.proc)
        removed: list[str] = []
        failed: dict[str, HookError] = {}
        for key in sorted(self.ledger.keys()):
            try:
                if self.canonical_key(key) in keep:
                    continue
            except HookError:
                continue  # another program's key
            try:
                with self._hold(key) as locked:
                    groups = locked.release()
            except HookError as error:
                failed[key] = in_programs_words(error)
                continue
            removed.append(key)
            for group in groups:
                self.log(INFO, f"removed group {group.path}", key=group.key)
        if failed:
            raise ReconcileError(removed, failed)
        return removed

    def __repr__(self) -> str:
        return f"Monitor({self.resctrl.root!r}, state_dir={self.ledger.folder!r})"


def _sums(readings: "Iterable[Reading]") -> "Totals":
    """Return the sums of `Monitor.totals`."""
    whole: dict[tuple[str, str], dict[int, list[Reading]]] = {}
    for one in readings:
        domains = whole.setdefault((one.counter.name, one.domain.resource), {})
        parts = domains.setdefault(one.domain.id, [])
        if one.domain.node is None:
            parts[:] = [one]
        elif not any(part.domain.node is None for part in parts):
            parts.append(one)
    found: dict[str, int | float | None] = {}
    for name, resource in sorted(whole, key=lambda one: (one[1] != L3, one)):
        parts = [part for domain in whole[name, resource].values() for part in domain]
        values = [part.value for part in parts if part.value is not None]
        known = bool(values) and (parts[0].kind == CUMULATIVE or len(values) == len(parts))
        found[f"{resource}/{name}" if name in found else name] = exact(sum(values)) if known else None
    return found
