"""The semantics of a resctrl filesystem, independent of paths and FUSE: each command's effect and its errors.

Source: the kernel's fs/resctrl, observed on Linux 7.2; the conformance tests compare both. Paths, files and FUSE are in
`tree.py` and `filesystem.py`.
"""

import errno
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from . import schemata
from .counters import NOTHING, Counters, Rates, rates_of_tasks
from .errors import RefusedError
from .group import Group
from .ids import Closids, Rmids
from .load import Load
from .machine import UNIT_BYTES, Machine
from .proc import Proc
from .tasks import Caller, Tasks

_UINT = 1 << 32


class Resctrl:
    """A mounted resctrl: its groups, ids, tasks and counters. Callers in threads hold `lock`.

    ``load`` is the work of pods; other tasks count at steady rates.
    """

    def __init__(
        self,
        machine: Machine,
        proc: Proc | None = None,
        clock: Callable[[], float] = time.monotonic,
        load: Load | None = None,
    ) -> None:
        self.machine = machine
        self.load = load
        self._clock = clock
        self.lock = threading.RLock()
        self.classes: dict[str, Group] = {}
        self.threshold = 16 * UNIT_BYTES
        self._status: tuple[str, ...] = ()
        self._rmids = Rmids(machine.groups, machine.limbo, clock, machine.pmg)
        self._closids = Closids(machine.classes)
        allocation = schemata.first_allocation(machine, ())
        self.root = Group("", None, 0, 0, machine.all_cpus, masks=allocation.masks, mb=allocation.mb)
        self.tasks = Tasks(self.root, proc or Proc())
        self.counters = Counters(machine, self._rates, clock)
        self.counters.start(self.root)

    def _rates(self, group: Group) -> Rates:
        tasks = self._living(group)
        if self.load is None or group.name not in self.load:
            return rates_of_tasks(tasks, self._running(group))
        return self.load.rates(group.name) if tasks else NOTHING

    def _living(self, group: Group) -> int:
        # All other tasks of the machine count as one: reading every thread at each read would be slow.
        return sum(1 if one is self.root else self.tasks.living(one) for one in self._counted_with(group))

    def _counted_with(self, group: Group) -> list[Group]:
        """Return the groups with a group's RMID: more than one only on Arm, after a rename into another class."""
        if not self.machine.pmg:
            return [group]
        return [one for other in self.all_classes() for one in other.family() if one.rmid == group.rmid] or [group]

    def _running(self, group: Group) -> dict[int, float]:
        """Return how many tasks of a group each package runs; a task with several packages counts evenly in all."""
        if not self.machine.energy:
            return {}
        running: dict[int, float] = {}
        for listed in [""] if group is self.root else self.tasks.cpus(group):
            packages = self.machine.packages(listed) or set(self.machine.domains)
            for package in packages:
                running[package] = running.get(package, 0.0) + 1 / len(packages)
        return running

    def all_classes(self) -> list[Group]:
        """Return every CTRL group, the root group first."""
        return [self.root, *self.classes.values()]

    def _others(self, group: Group) -> list[Group]:
        return [other for other in self.all_classes() if other is not group]

    @property
    def status(self) -> str:
        """The content of `info/last_cmd_status`."""
        return "".join(f"{line}\n" for line in self._status) or "ok\n"

    @contextmanager
    def command(self) -> Iterator[None]:
        """Run a command that leaves its result in `status`."""
        self._status = ()
        try:
            yield
        except RefusedError as refused:
            self._status = refused.words
            raise

    def make_class(self, name: str) -> None:
        """Create a CTRL group. Raises a RefusedError (ENOSPC, EBUSY) when ids run out."""
        closid = self._closids.take(self._rmids.in_limbo)
        try:
            allocation = schemata.first_allocation(self.machine, self.all_classes())
            rmid = self._rmids.take(closid)
        except RefusedError:
            self._closids.free(closid)
            raise
        group = Group(name, None, closid, rmid, masks=allocation.masks, mb=allocation.mb)
        self.classes[name] = group
        self.counters.start(group)

    def make_monitored(self, parent: Group, name: str) -> None:
        """Create a MON group. Raises a RefusedError (ENOSPC, EBUSY) when RMIDs run out."""
        group = Group(name, parent, parent.closid, self._rmids.take(parent.closid))
        parent.monitored[name] = group
        self.counters.start(group)

    def remove(self, group: Group) -> None:
        """Remove a group other than the root group: its tasks move to its parent, a class's to the root group."""
        heir = group.parent or self.root
        for member in list(group.family()):
            self.counters.stop(member)
            self.tasks.hand_over(member, heir)
            self._rmids.free(member.rmid)
            member.deleted = True
        self.counters.settle(heir)
        if group.parent is not None:
            del group.parent.monitored[group.name]
            return
        self.root.cpus |= group.cpus
        self._closids.free(group.closid)
        del self.classes[group.name]

    def rename(self, group: Group, parent: Group, name: str) -> None:
        """Change the name or class of a MON group; its RMID, counters and tasks stay with it.

        On Arm it has another RMID afterwards, which another group may have as well.

        Raises:
            RefusedError: EPERM for a group with CPUs that would leave its class, EEXIST if the name exists.
        """
        assert group.parent is not None
        if group.cpus and group.parent is not parent:
            raise RefusedError(errno.EPERM, "Cannot move a MON group that monitors CPUs")
        if name in parent.monitored:
            raise RefusedError(errno.EEXIST)
        del group.parent.monitored[group.name]
        group.name, group.parent, group.closid = name, parent, parent.closid
        parent.monitored[name] = group
        rmid = self._rmids.in_class(group.rmid, parent.closid)
        if rmid != group.rmid:
            self.counters.stop(group)
            group.rmid = rmid
            self.counters.settle(group)

    def write_tasks(self, group: Group, text: str, caller: Caller) -> None:
        """Write `tasks`; see `Tasks.write`."""
        with self.command():
            touched: set[Group] = set()
            try:
                self.tasks.write(text, group, caller, touched)
            finally:
                for member in touched:
                    self.counters.settle(member)

    def settle(self) -> None:
        """Count until now, and continue with the tasks that live now and their work."""
        if self.load is not None:
            groups = {one.name: one for group in self.all_classes() for one in group.family()}
            living = {name: one for name, one in groups.items() if name in self.load and self.tasks.living(one)}
            self.load.step(living, self._clock())
        for group in self.all_classes():
            for member in group.family():
                self.counters.settle(member)

    def write_schemata(self, group: Group, line: str) -> None:
        """Write `schemata` completely or not at all."""
        staged = schemata.parse(line, self.machine, group, self._others(group))
        for name, masks in staged.masks.items():
            group.masks[name].update(masks)
        group.mb.update(staged.mb)

    def write_mode(self, group: Group, line: str) -> None:
        """Write `mode`."""
        schemata.set_mode(line, group, self._others(group))

    def write_threshold(self, text: str) -> None:
        """Write `info/L3_MON/max_threshold_occupancy`, in bytes. It has no effect: limbo has a fixed time."""
        word = text.strip()
        if not word.isascii() or not word.isdigit():
            raise RefusedError(errno.EINVAL)
        if int(word) >= _UINT:
            raise RefusedError(errno.ERANGE)
        self.threshold = int(word) // UNIT_BYTES * UNIT_BYTES

    def write_assign_mode(self, line: str) -> None:
        """Write `info/L3_MON/mbm_assign_mode`."""
        groups = [member for group in self.all_classes() for member in group.family()]
        self.counters.assignments.write_mode(line, groups)

    def read_assignments(self, read: Callable[..., str], *group: Group) -> str:
        """Read a file of assignable counters; unlike other files, these set the status if they are unreadable."""
        try:
            return read(*group)
        except RefusedError as refused:
            self._status = refused.words
            raise
