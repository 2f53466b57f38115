"""The changes of a node in a file of the state directory, and the steps that make and restore them.

Each step holds `LOCK`: it reads the file, writes it, and then changes values. So all that a killed process had begun is
in the file. A process that is stopped within a step keeps the lock; then others restore the values of changes that are
over without it, and leave the file, and the late process restores its own values when it goes on (`Store.change`).
"""

import time
from contextlib import suppress

from ....core.node.errors import HookError
from ....core.node.host.procfs import boot_id, start_time
from ....core.node.restored import Restored
from . import classes, pod_class
from .address import POD, Address, write
from .entry import Entry
from .file import FILE, LOCK, NAP, TemporaryError, locked, read_entries, write_entries
from .restoration import has_lost_class, read_any, remove_classes, restore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ....core.node.context import Context

_TURN = 1.0
"""Seconds for which the restoration of many changes holds the lock at a time."""
_OTHERS = "`resctrl-hook limits` lists the active limits"


class EndedError(TemporaryError):
    """The change is over, so its owner must not write any more."""


def boot_time() -> float:
    """Return the seconds since boot, with those in suspend: no change of the wall clock moves them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Store:
    """The changes of one node.

    Args:
        context: the node; its state directory must exist.
    """

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._resctrl = context.monitor.resctrl
        self.path = f"{context.settings.state_dir}/{FILE}"
        self._lock = f"{context.settings.state_dir}/{LOCK}"

    def entries(self) -> "dict[str, Entry]":
        """Return the changes of this boot by name.

        Raises:
            TemporaryError: the file is unreadable or damaged; it stays.
        """
        return read_entries(self.path, self._context.proc)

    def begin(
        self, name: str, owner: str, reason: str, key: str, seconds: float, pid: int = 0, *, follows: bool = False
    ) -> None:
        """Record a change that has no values yet.

        Args:
            name: its name.
            owner: the program, for people.
            reason: why, for people.
            key: the pod for which it is made.
            seconds: until its end; `change` moves it.
            pid: a process whose end ends it, until `keep`; 0: none.
            follows: whether it also ends with its pod.

        Raises:
            TemporaryError: a change has this name, or the file cannot be written.
        """
        with locked(self._lock):
            entries = self.entries()
            if name in entries:
                raise TemporaryError(f"{name} is there already, by {entries[name].record['owner']}", hint=_OTHERS)
            proc = self._context.proc
            entries[name] = Entry(
                {
                    "owner": owner,
                    "reason": reason,
                    "key": key,
                    "boot": boot_id(proc),
                    "end": boot_time() + seconds,
                    "pid": pid,
                    "start": start_time(proc, pid) if pid else 0,
                    "values": [],
                    "follows": follows,
                }
            )
            write_entries(self.path, entries)

    def keep(self, name: str) -> None:
        """Let a change outlive its process: it ends at its end only.

        Raises:
            EndedError: it is over.
            TemporaryError: the file cannot be read or written.
        """
        with locked(self._lock):
            entries = self.entries()
            if name not in entries:
                raise EndedError(f"{name} is over; its values are restored")
            entries[name].record["pid"] = 0
            write_entries(self.path, entries)

    def change(self, name: str, values: "Mapping[Address, str]", seconds: "float | None" = None) -> None:
        """Change values under a change; with ``seconds`` its end is so far away from now on.

        Raises:
            EndedError: the change is over; its values are restored.
            TemporaryError: another change has one of the values, another program has changed one, one is gone, or the
                file cannot be written. Nothing is changed then.
            HookError: the kernel refuses one; all are restored to what they were before this step.
        """
        with locked(self._lock):
            entries = self.entries()
            entry = entries.get(name)
            if entry is None or boot_time() >= entry.record["end"]:
                raise EndedError(f"{name} is over; it changes nothing more")
            found = {address: self._found(entries, name, address) for address in values}
            if seconds is not None:
                entry.record["end"] = boot_time() + seconds
            for address, value in values.items():
                entry.intend(address, found[address], value)
            write_entries(self.path, entries)
            done: "list[Address]" = []
            try:
                for address, value in values.items():
                    done.append(address)
                    entry.settle(address, self._write_value(address, value))
            except HookError:
                for address in reversed(done):
                    with suppress(HookError):  # as it was refused; the change's end tries again
                        if address.kind == POD:
                            pod_class.give_back(self._context, address.place, found[address], [values[address]])
                        else:
                            write(self._resctrl, address, found[address])
                raise
            write_entries(self.path, entries)
            if boot_time() >= entry.record["end"]:  # stopped between the check and here: others may have restored
                restore(self._context, entry, Restored(entry.record["owner"]))
                raise EndedError(f"{name} was stopped beyond its end; its values are restored")

    def read(self, address: Address) -> "str | None":
        """Return a value as it is now, also of a pod; None if it is gone.

        Raises:
            HookError: it cannot be read, so it is unknown.
        """
        return read_any(self._context, address)

    def _write_value(self, address: Address, value: str) -> str:
        if address.kind == POD:
            return pod_class.write(self._context, address.place, value)
        return write(self._resctrl, address, value)

    def make_class(self, name: str, rdt_class: str, lines: "Sequence[str]") -> None:
        """Create an RDT class for a change, or let it use one that another change has created.

        It is removed when no change uses it any more.

        Args:
            name: the change.
            rdt_class: the class.
            lines: of its schemata.

        Raises:
            EndedError: the change is over.
            HookError: the kernel refuses; there is no such class then.
        """
        with locked(self._lock):
            entries = self.entries()
            if name not in entries:
                raise EndedError(f"{name} is over")
            is_known = any(rdt_class in one.record.get("classes", ()) for one in entries.values())
            if not is_known and self._resctrl.fs.is_folder(self._resctrl.class_folder(rdt_class)):
                folder = self._resctrl.class_folder(rdt_class)
                raise TemporaryError(f"another program has created RDT class {rdt_class}", hint=f"`rmdir {folder}`")
            entries[name].record["classes"] = [rdt_class]
            write_entries(self.path, entries)
            classes.make(self._resctrl, rdt_class, lines)

    def check_free(self, address: Address, entries: "Mapping[str, Entry] | None" = None) -> None:
        """Check that none of the changes has a value.

        Raises:
            TemporaryError: one has it.
        """
        for name, entry in (self.entries() if entries is None else entries).items():
            if address in entry.values:
                record = entry.record
                what = f"{name}: {record['reason']}" if record["reason"] else name
                hint = "`resctrl-hook unlimit` ends limits" if record.get("follows") else "wait for its end"
                raise TemporaryError(f"{record['owner']} has changed {address} already ({what})", hint=hint)

    def _found(self, entries: "Mapping[str, Entry]", name: str, address: Address) -> str:
        """Return a value before this step."""
        self.check_free(address, {other: one for other, one in entries.items() if other != name})
        value = self.read(address)
        if value is None:
            raise TemporaryError(f"{address} is gone", hint="its containers may have ended")
        if address in entries[name].values and not entries[name].is_ours(address, value):
            raise TemporaryError(f"another program changed {address} to {value}", hint=_OTHERS)
        return value

    def end(self, name: str) -> Restored:
        """Restore the values of a change and forget it; what another program has written stays.

        Raises:
            TemporaryError: the file cannot be read or written.
        """
        with locked(self._lock):
            entries = self.entries()
            entry = entries.get(name)
            result = Restored(entry.record["owner"] if entry else "")
            if entry is not None:
                entry.record["end"] = 0.0  # others complete it after a kill
                with suppress(TemporaryError):  # on a full disk, where the file can still be removed
                    write_entries(self.path, entries)
                if restore(self._context, entry, result) and remove_classes(self._resctrl, entries, name):
                    del entries[name]
            write_entries(self.path, entries)
            return result

    def restore_over(self, *, all_without_process: bool = False) -> Restored:
        """Restore the values of all changes that are over, or also of those that have no process.

        Others get the lock between turns: the end of a class's limit can wait for forks, and many can end at once.

        Raises:
            TemporaryError: the file cannot be read or written.
        """
        result, tried = Restored(""), set[str]()
        while self._restore_for_a_turn(result, tried, all_without_process):
            time.sleep(2 * NAP)
        return result

    def _restore_for_a_turn(self, result: Restored, tried: "set[str]", all_without_process: bool) -> bool:  # noqa: FBT001  # one caller
        """Restore changes that were not tried yet; return whether some are left."""
        with locked(self._lock, needed=False) as held:
            entries, end = self.entries(), time.monotonic() + _TURN
            due = {name: self._due(one, all_without_process) for name, one in entries.items()}
            due = {name: addresses for name, addresses in due.items() if addresses is not None}
            for number, name in enumerate([one for one in due if one not in tried]):
                if number and held and time.monotonic() > end:
                    break
                tried.add(name)
                entry, addresses = entries[name], due[name] or []
                result.owner = entry.record["owner"]
                if not restore(self._context, entry, result, addresses) or not held:
                    continue
                if len(addresses) < len(entry.values):
                    entry.forget(addresses)
                elif remove_classes(self._resctrl, entries, name):
                    del entries[name]
            if held and (due or not entries):
                write_entries(self.path, entries)
            return not tried.issuperset(due)

    def _due(self, entry: Entry, all_without_process: bool) -> "list[Address] | None":  # noqa: FBT001  # one caller
        """Return the values that are to be restored; None: the change goes on.

        A pod whose RDT class another program has removed is counted in no group until it is back in its own class.
        """
        if self._is_over(entry, all_without_process):
            return list(entry.values)
        if entry.record["pid"] or not self._resctrl.fs.is_folder(f"{self._resctrl.root}/info"):
            return None
        return [address for address, one in entry.values.items() if has_lost_class(self._resctrl, address, one)] or None

    def _is_over(self, entry: Entry, all_without_process: bool) -> bool:  # noqa: FBT001  # one caller
        record = entry.record
        if all_without_process and not record["pid"]:
            return True
        if record.get("follows") and (self._context.ledger.read_pod(record["key"]) or {}).get("boot") != record["boot"]:
            return True
        return entry.is_over(self._context.proc, boot_time())
