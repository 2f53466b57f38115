"""One class's limit, switched on and off: the guard's lease and values, so that a killed experiment leaves none.

The lease names the values before the first change. `Watchdog`, `guard restore`, reconcile and the next guard restore
them if this process dies, or is stopped for longer than `LEASE`. The owner of a `Trial` holds the lock of the lease
(`node/guard/recovery.become_owner`): there is one.
"""

from collections.abc import Sequence
from typing import Any

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.observe.node.capacity.capacity import capacities_of_bandwidth
from resctrl_hooks.observe.node.guard.actuator import Mount
from resctrl_hooks.observe.node.guard.changes import change, restore
from resctrl_hooks.observe.node.guard.lease import EXPERIMENT, GUARD, Lease
from resctrl_hooks.observe.node.guard.limits import RESOURCE, held_limits

LEASE = 15.0
"""Seconds: several windows, so a working experiment extends its lease in time on a busy node."""


class TrialError(HookError):
    """A class cannot be limited for an experiment."""

    reason = "experiment"


class Trial:
    """A class between its declared values and its floor, in some memory domains.

    Args:
        context: the node.
        lease: held by this process.
        name: the class, one of ``rdt.guard.throttle``.
        rule: its entry there, with its floor.
        domains: the memory domains in which the victim works, as L3 domains.

    Raises:
        TrialError: the class has no values there, or stands at its floor already.
        ResctrlError: its values cannot be read.
    """

    on_disk = False
    """Whether it limits the use of a disk."""

    def __init__(
        self,
        context: Context,
        lease: Lease,
        name: str,
        rule: dict[str, Any],
        domains: Sequence[tuple[int, ...]],
    ) -> None:
        self._resctrl = context.monitor.resctrl
        self._lease = lease
        self.name = name
        mount = Mount(self._resctrl)
        if mount.observe_only:
            raise TrialError(mount.observe_only)
        capacities = capacities_of_bandwidth(context, mount.bandwidth)
        found = held_limits(self._resctrl, name)
        self.declared: dict[int, int] = {}
        self.floor: dict[int, int] = {}
        for domain in domains:
            floor = mount.floor_of(rule["floor"], capacities.reliable(domain[0]))
            limit = mount.limit(name, domain, found, floor)
            if limit is None:
                raise TrialError(f"RDT class {name} has no {RESOURCE} value on this node")
            of = {number: found[number] for number in domain}
            self.declared.update(of)
            self.floor.update(mount.values(min(limit.floor, limit.declared), domain, {}, of, limit.floor))
        if self.floor == self.declared:
            raise TrialError(f"RDT class {name} stands at its floor already: {RESOURCE} {_in_words(found)}")
        self._now = dict(self.declared)

    def set(self, *, limited: bool) -> None:
        """Limit the class to its floor, or give it its declared values.

        Raises:
            TrialError: another program changed the values meanwhile; they stay.
            LeaseEndedError: this process was stopped for longer than its lease.
            ResctrlError: the kernel refuses.
        """
        self._lease.extend()
        now = held_limits(self._resctrl, self.name)
        if any(now.get(number) != value for number, value in self._now.items()):
            raise TrialError(f"another program changed {RESOURCE} of class {self.name} to {_in_words(now)}")
        new = self.floor if limited else self.declared
        if new == self._now:
            return
        effective = change(self._resctrl, self._lease, self.name, self._now, new)
        self._now = {number: effective[number] for number in new}

    def end(self) -> list[str]:
        """Restore the declared values; return a line for each that could not be restored."""
        return restore(self._resctrl, self._lease).failed


def hold_lease(context: Context, pid: int) -> Lease:
    """Return a lease of this process; the guard's lock must be held.

    Raises:
        TrialError: an ended guard left values that nobody has restored yet.
        LeaseError: a lease exists and cannot be read.
    """
    lease = Lease(context.settings.state_dir, context.proc)
    try:
        left = lease.load()
    except ValueError as error:
        raise TrialError(
            f"the lease {lease.path} is damaged: {error}", hint="run `resctrl-hook guard restore`"
        ) from error
    if left:
        raise TrialError(
            f"{lease.owner or GUARD} has ended and left lowered values", hint="run `resctrl-hook guard restore` first"
        )
    lease = Lease(context.settings.state_dir, context.proc)
    lease.hold(pid, EXPERIMENT, LEASE)
    return lease


def _in_words(values: dict[int, int]) -> str:
    return ";".join(f"{number}={value}" for number, value in sorted(values.items()))
