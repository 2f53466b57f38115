"""`resctrl-hook top`: live cache occupancy, memory bandwidth and power of each pod."""

import os
import signal
import sys
import time
from operator import attrgetter
from types import FrameType
from typing import NoReturn

import click
from pydantic.alias_generators import to_camel
from rich.live import Live

from resctrl_hooks.cli.document import Column, print_listing
from resctrl_hooks.cli.keyboard import Keys
from resctrl_hooks.cli.node import open_node
from resctrl_hooks.cli.params import Bandwidth, Duration
from resctrl_hooks.cli.tables import console, print_table
from resctrl_hooks.cli.top_screen import Screen
from resctrl_hooks.cli.top_table import Scene, domain_line, head_line, memory_lines, power_lines, usage_table
from resctrl_hooks.cli.view import View, view_options
from resctrl_hooks.inventory.cache_size import l3_sizes
from resctrl_hooks.inventory.gather import pod_of, rmids_of, waiting_keys
from resctrl_hooks.inventory.guard import lowered_values
from resctrl_hooks.inventory.memory_load import domains_of, memory_usage
from resctrl_hooks.inventory.models import DomainUsage, Usage
from resctrl_hooks.inventory.package_energy import PackagePower, power_usage
from resctrl_hooks.inventory.snapshot import Snapshot, in_domain, open_files, take
from resctrl_hooks.inventory.usage import (
    GROUPINGS,
    POD,
    SORTS,
    TOTAL,
    Line,
    Users,
    grouped,
    ordered,
    usage,
    with_total,
)
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.resctrl.counters import L3, Slot

_SOON = 0.5  # seconds until the first rates
_CSV: tuple[Column, ...] = tuple(
    (
        to_camel(name),
        (lambda one: "/" if one.rdt_class == "" else one.rdt_class) if name == "rdt_class" else attrgetter(name),
    )
    for name in Usage.model_fields
)


@click.command()
@view_options((*SORTS, "name"), "mbm")
@click.option("--once", is_flag=True, help="Measure for one interval, print and exit.")
@click.option(
    "--interval",
    type=Duration(0.1),
    default="2s",
    show_default=True,
    help="Time between two samples, such as 500ms, 2s or 1m.",
)
@click.option("--domain", type=click.IntRange(0), metavar="N", help="Only counters of this L3 domain.")
@click.option(
    "--capacity",
    type=Bandwidth(),
    metavar="BYTES",
    help="Bandwidth of each L3 cache in bytes per second, such as 120G, as 100% of shares; default: the measured peak.",
)
@click.option("--by", type=click.Choice([*GROUPINGS]), default="pod", show_default=True, help="Content of a line.")
@click.pass_obj
def command(
    config: str, *, view: View, once: bool, interval: float, domain: int | None, capacity: float | None, by: str
) -> None:
    """Watch cache occupancy, memory bandwidth and power per pod.

    Ungrouped tasks have a separate line; the total covers all lines. On a terminal it is interactive (`?` for help).
    Elsewhere, and with -o, it measures once, or repeatedly with -w.
    """
    looks = _Looks(open_node(config), view, domain, capacity)
    if view.table and console().is_terminal and not once:
        _live(looks, interval, view, by)
        return
    try:
        while True:
            time.sleep(interval)
            _print(looks.next(), view, by)
            sys.stdout.flush()
            if not view.watch:
                return
    except KeyboardInterrupt:
        return


class _Looks:
    """Successive samples, each with the rates since the previous one."""

    def __init__(self, context: Context, view: View, domain: int | None = None, capacity: float | None = None) -> None:
        self._context = context
        self._view = view
        self._keys = {view.key(context, what) for what in view.pods}
        self._wanted: dict[str, bool] = {}
        self._users = Users(context)
        self._files = open_files()
        self._before = take(context, self._files)
        self._packages = PackagePower()
        self._sizes = l3_sizes(context.monitor.resctrl.root)
        self._capacity = capacity
        self._peaks: dict[int, float] = {}
        self._limits: dict[str, float] = context.settings.monitoring.get("capacity") or {}
        self._memory = domains_of(context, self._before) if self._limits else []
        self._made = 0
        self._domains = {slot.domain.id: slot.domain.folder for slot in self._before.slots.values() if _is_cache(slot)}
        self.domain = domain
        if domain is not None and domain not in self._domains:
            known = ", ".join(map(str, sorted(self._domains))) or "none"
            raise click.BadParameter(f"unknown L3 domain {domain}; available: {known}.", param_hint="--domain")

    def turn_domain(self) -> None:
        """Select the next L3 cache; after the last one, all of them."""
        order = [None, *sorted(self._domains)]
        self.domain = order[(order.index(self.domain) + 1) % len(order)]

    def next(self) -> Scene:
        """Take a sample and return the rates since the previous one."""
        now = take(self._context, self._files)
        watts = self._packages.watts()
        before, self._before = self._before, now
        self._made += 1
        parts = {id_: _limited(before, now, folder) for id_, folder in self._domains.items()}
        domains = [self._usage_of(id_, usage(*part)) for id_, part in sorted(parts.items())]
        lines = usage(*((before, now) if self.domain is None else parts[self.domain]), self._users)
        power = power_usage(watts, lines) if self.domain is None else None
        names = {line.key: line.name for line in lines if line.kind == POD}
        memory = memory_usage(before, now, self._memory, self._limits, names) if self._limits else []
        if self._view.filtered:
            lines = with_total([line for line in lines if line.kind == POD and self._is_wanted(line)])
        scene = self.scene(lines)
        scene.rmids = rmids_of(self._context.monitor.resctrl, now.rmids)
        scene.seconds, scene.memory, scene.power = now.when - before.when, memory, power
        scene.domains = domains if len(domains) > 1 or self._capacity else ()
        return scene

    def _usage_of(self, domain: int, lines: list[Line]) -> DomainUsage:
        rates = next(line.rates for line in lines if line.kind == TOTAL)
        self._peaks[domain] = max(self._peaks.get(domain, 0.0), rates.total or 0.0)
        # the first interval has no predecessor to compare with
        peak = self._capacity or (self._peaks[domain] if self._made > 1 else None)
        return DomainUsage(
            domain=domain,
            memory_bandwidth_bytes_per_second=rates.total,
            peak_bytes_per_second=peak or None,
            llc_occupancy_bytes=rates.occupancy,
            llc_bytes=self._sizes.get(domain),
        )

    def scene(self, lines: list[Line]) -> Scene:
        """Return a scene of these lines, without rates of anything else."""
        return Scene(
            os.uname().nodename,
            time.strftime("%H:%M:%S"),
            lines,
            llc_bytes=sum(self._sizes.values()) if self.domain is None else self._sizes.get(self.domain, 0),
            waiting=len(waiting_keys(self._context)),
            domain=self.domain,
            lowered=lowered_values(self._context),
        )

    def _is_wanted(self, line: Line) -> bool:
        if line.key not in self._wanted:
            pod = pod_of(self._context, line.key) if self._view.selector else None
            self._wanted[line.key] = (
                (not self._keys or line.key in self._keys)
                and (not self._view.namespace or line.namespace == self._view.namespace)
                and (self._view.selector is None or (pod is not None and bool(self._view.chosen(self._context, [pod]))))
            )
        return self._wanted[line.key]


def _is_cache(slot: Slot) -> bool:
    return slot.domain.resource == L3 and slot.domain.node is None


def _limited(before: Snapshot, now: Snapshot, folder: str) -> tuple[Snapshot, Snapshot]:
    return in_domain(before, folder), in_domain(now, folder)


def _print(scene: Scene, view: View, by: str) -> None:
    lines = ordered(grouped(scene.lines, by), view.sort, reverse=view.reverse)
    if not view.table:
        print_listing(
            view.form,
            "UsageList",
            [_item(line, scene) for line in lines],
            _CSV,
            names=[line.name for line in lines],
            headers=view.headers,
            compact=view.watch,
            by=by,
            seconds=round(scene.seconds, 3),
            llcBytes=scene.llc_bytes,
            rmids=scene.rmids,
            waiting=scene.waiting,
            uncounted=scene.uncounted,
            domain=scene.domain,
            domains=[*scene.domains],
            memoryDomains=list(scene.memory),
            power=scene.power,
        )
    else:
        out = console()
        if view.headers:
            out.print(head_line(scene, out.width), markup=False, soft_wrap=True)
            if scene.domains:
                out.print(domain_line(scene, out.width))
            for text in (*memory_lines(scene, out.width), *power_lines(scene, out.width)):
                out.print(text)
        # Bars are for terminals only: a program reads the numbers.
        made = usage_table(
            scene,
            lines,
            by=by,
            sort=view.sort,
            reverse=view.reverse,
            width=out.width,
            pictures=out.is_terminal,
            headers=view.headers,
        )
        print_table(out, made)


def _item(line: Line, scene: Scene) -> Usage:
    share = scene.share(line)
    return Usage(
        kind=line.kind,
        name=line.name,
        key=line.key,
        namespace=line.namespace,
        pod=line.pod,
        rdt_class=line.rdt_class,
        llc_occupancy_bytes=line.rates.occupancy,
        llc_share_percent=None if share is None else round(share * 100, 3),
        memory_bandwidth_bytes_per_second=line.rates.total,
        memory_bandwidth_local_bytes_per_second=line.rates.local,
        power_watts=line.rates.watts,
        counted_percent=None if line.rates.counted is None else round(line.rates.counted * 100, 1),
        uncounted=line.uncounted,
        partial=line.partial,
    )


def _live(looks: _Looks, interval: float, view: View, by: str) -> None:
    """Show the table on the alternate screen until q, Ctrl-C, SIGTERM or the terminal's end."""
    out = console()
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    screen = Screen(looks.scene([]), sort=view.sort, reverse=view.reverse, by=by)
    try:
        with Keys() as keys, Live(console=out, screen=True, auto_refresh=False) as live:
            until = time.monotonic() + min(interval, _SOON)
            while not screen.quit:
                live.update(screen.render(out.width, out.height), refresh=True)
                key = keys.pressed(until - time.monotonic())
                if key == "d" and screen.takes_keys:
                    looks.turn_domain()
                elif key:
                    screen.press(key)
                if time.monotonic() >= until:
                    screen.look(looks.next())
                    until = time.monotonic() + interval
    except (KeyboardInterrupt, EOFError):
        return


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
