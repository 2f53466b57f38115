"""Scenes of `top` from two snapshots each, whether they were taken now or are from the history."""

import os
import time
from collections.abc import Callable, Mapping

import click

from resctrl_hooks.core.cli.list_options import ListOptions
from resctrl_hooks.core.node.resctrl.bandwidth import order_of, resource_of
from resctrl_hooks.core.node.resctrl.layouts import L3
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.inventory.columns import LLC, MBM
from resctrl_hooks.observe.inventory.package_energy import power_usage
from resctrl_hooks.observe.inventory.rates import Line
from resctrl_hooks.observe.inventory.usage import USERS, Users, total, usage, with_total
from resctrl_hooks.observe.inventory.usage_models import DomainUsage
from resctrl_hooks.observe.node.snapshot.snapshot import Snapshot


class Scenes:
    """Successive scenes, with the largest bandwidth of each domain so far: each L3 cache and each counting memory.

    Args:
        options: the requested selection.
        is_selected: whether the selection contains the line of a pod or a foreign group.
        sizes: bytes of each L3 cache.
        domain: resource and id of the selected domain; None for all. Without a resource: one that counts bandwidth.
        capacity: bytes per second of each domain that are 100 %; None for the largest so far.
    """

    def __init__(
        self,
        options: ListOptions,
        is_selected: Callable[[Line], bool],
        sizes: Mapping[int, int],
        domain: tuple[str, int] | None,
        capacity: float | None,
    ) -> None:
        self._options = options
        self._is_selected = is_selected
        self._sizes = sizes
        self._capacity = capacity
        self._peaks: dict[tuple[str, int], float] = {}
        self._made = 0
        self._domains: dict[tuple[str, int], str] = {}
        self.domain = domain

    def learn(self, snapshot: Snapshot) -> None:
        """Learn the domains of a snapshot.

        Raises:
            click.BadParameter: the selected one does not exist.
        """
        shown = {L3, resource_of(snapshot.slots.values())}
        self._domains = {
            (slot.domain.resource, slot.domain.id): slot.domain.folder
            for slot in snapshot.slots.values()
            if slot.domain.resource in shown and slot.domain.node is None
        }
        if self.domain is None:
            return
        resource, number = self.domain
        found = [one for one in self._domains if one[1] == number and resource in ("", one[0])]
        if not found:
            known = ", ".join(f"{kind}_{id_}" for kind, id_ in sorted(self._domains)) or "none"
            requested = f"{resource}_{number}" if resource else str(number)
            raise click.BadParameter(f"unknown domain {requested}; available: {known}.", param_hint="--domain")
        self.domain = min(found, key=lambda one: order_of(one[0]))

    def turn_domain(self) -> None:
        """Select the next domain; after the last one, all of them."""
        order = [None, *sorted(self._domains)]
        self.domain = order[(order.index(self.domain) + 1) % len(order)]

    def between(self, before: Snapshot, now: Snapshot, users: Users, watts: float | None) -> Scene:
        """Return the scene of two snapshots; ``watts`` is the power of all processor packages between them."""
        self._made += 1
        lines = whole = usage(before, now, users)
        seconds = now.when - before.when
        places = [(one, total(whole, now, seconds, self._domains[one])) for one in sorted(self._domains)]
        domains = [self._usage_of(*one, of) for one, of in places]
        if self.domain is not None:
            lines = usage(before, now, users, self._domains[self.domain])
        whole_node = lines[-1]
        power = power_usage(watts, lines) if self.domain is None else None
        if self._options.filtered:
            lines = with_total([line for line in lines if line.kind in USERS and self._is_selected(line)])
        scene = self.of(lines)
        scene.node = whole_node
        scene.seconds, scene.power = seconds, power
        scene.domains = domains if len(domains) > 1 or self._capacity else ()
        return scene

    def of(self, lines: list[Line]) -> Scene:
        """Return a scene of these lines at this moment, without anything else."""
        size = sum(self._sizes.values()) if self.domain is None else self._size_of(*self.domain) or 0
        return Scene(os.uname().nodename, time.strftime("%H:%M:%S"), lines, llc_bytes=size, domain=self.domain)

    def _size_of(self, resource: str, domain: int) -> int | None:
        return self._sizes.get(domain) if resource == L3 else None

    def _usage_of(self, resource: str, domain: int, whole: Line) -> DomainUsage:
        place = resource, domain
        self._peaks[place] = max(self._peaks.get(place, 0.0), whole[MBM] or 0.0)
        # the first interval has no predecessor to compare with
        peak = self._capacity or (self._peaks[place] if self._made > 1 else None)
        return DomainUsage(
            domain=domain,
            resource=resource,
            memory_bandwidth_bytes_per_second=whole[MBM],
            peak_bytes_per_second=peak or None,
            peak_is=("configured" if self._capacity else "observed") if peak else None,
            llc_occupancy_bytes=whole[LLC],
            llc_bytes=self._size_of(*place),
        )
