"""`resctrl-hook top`: live, per pod: cache, memory bandwidth and power."""

import os
import signal
import sys
import time
from dataclasses import asdict
from operator import attrgetter
from types import FrameType
from typing import NoReturn

import click
from pydantic.alias_generators import to_camel
from rich.live import Live

from resctrl_hooks.cli.document import Column, document, print_csv, print_document, print_names
from resctrl_hooks.cli.keyboard import Keys
from resctrl_hooks.cli.node import open_node
from resctrl_hooks.cli.params import Duration
from resctrl_hooks.cli.tables import console, print_table
from resctrl_hooks.cli.top_screen import Screen
from resctrl_hooks.cli.top_table import Scene, head_line, usage_table
from resctrl_hooks.cli.view import View, view_options
from resctrl_hooks.inventory.cache_size import l3_sizes
from resctrl_hooks.inventory.gather import pod_of, rmids_of
from resctrl_hooks.inventory.models import Usage
from resctrl_hooks.inventory.snapshot import open_files, take
from resctrl_hooks.inventory.usage import GROUPINGS, POD, SORTS, Line, Users, grouped, ordered, usage, with_total
from resctrl_hooks.node.context import Context

_SOON = 0.5  # seconds until there is something to see
_CSV: tuple[Column, ...] = tuple(
    (
        to_camel(name),
        (lambda one: "/" if one.rdt_class == "" else one.rdt_class) if name == "rdt_class" else attrgetter(name),
    )
    for name in Usage.model_fields
)


@click.command()
@view_options((*SORTS, "name"), "mbm")
@click.option("--once", is_flag=True, help="Measure for one interval, print, and end.")
@click.option(
    "--interval",
    type=Duration(0.1),
    default="2s",
    show_default=True,
    metavar="DURATION",
    help="Time between two samples, as 500ms, 2s or 1m.",
)
@click.option("--by", type=click.Choice([*GROUPINGS]), default="pod", show_default=True, help="What a line sums up.")
@click.pass_obj
def command(config: str, *, view: View, once: bool, interval: float, by: str) -> None:
    """Watch cache occupancy, memory bandwidth and power per pod.

    What no monitoring group holds has a line of its own, and the total is over all that is shown. On a terminal it
    stays, and `?` explains its keys; anywhere else, and with -o, it measures once, or again and again with -w.
    """
    looks = _Looks(open_node(config), view)
    if view.form in ("table", "wide") and console().is_terminal and not once:
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
    """One look after the other, each with what happened since the last."""

    def __init__(self, context: Context, view: View) -> None:
        self._context = context
        self._view = view
        self._keys = {view.key(context, what) for what in view.pods}
        self._wanted: dict[str, bool] = {}
        self._users = Users(context)
        self._files = open_files()
        self._before = take(context, self._files)
        self._llc = sum(l3_sizes(context.monitor.resctrl.root).values())

    def next(self) -> Scene:
        """What happened since the last look."""
        now = take(self._context, self._files)
        lines = usage(self._before, now, self._users)
        seconds = now.when - self._before.when
        self._before = now
        if self._view.filtered:
            lines = with_total([line for line in lines if line.kind == POD and self._is_wanted(line)])
        return self.scene(lines, rmids=now.rmids, seconds=seconds)

    def scene(self, lines: list[Line], rmids: int = 0, seconds: float = 0.0) -> Scene:
        """What there is to show of these lines."""
        context = self._context
        found = rmids_of(context.monitor.resctrl.root, rmids) if rmids else None
        waiting = len(list(context.ledger.marked("waiting")))
        return Scene(os.uname().nodename, time.strftime("%H:%M:%S"), lines, self._llc, found, waiting, seconds)

    def _is_wanted(self, line: Line) -> bool:
        if line.key not in self._wanted:
            pod = pod_of(self._context, line.key) if self._view.selector else None
            self._wanted[line.key] = (
                (not self._keys or line.key in self._keys)
                and (not self._view.namespace or line.namespace == self._view.namespace)
                and (self._view.selector is None or (pod is not None and bool(self._view.chosen(self._context, [pod]))))
            )
        return self._wanted[line.key]


def _print(scene: Scene, view: View, by: str) -> None:
    lines = ordered(grouped(scene.lines, by), view.sort, reverse=view.reverse)
    if view.form in ("json", "yaml"):
        items = [_item(line, scene) for line in lines]
        value = document(
            "UsageList",
            items,
            by=by,
            seconds=round(scene.seconds, 3),
            llcBytes=scene.llc_bytes,
            rmids=scene.rmids,
            waiting=scene.waiting,
            uncounted=scene.uncounted,
        )
        if view.old:
            for item, line in zip(value["items"], lines, strict=True):
                item["rates"] = asdict(line.rates)
        print_document(view.form, value, compact=view.watch)
    elif view.form == "name":
        print_names(line.name for line in lines)
    elif view.form == "csv":
        print_csv(_CSV, [_item(line, scene) for line in lines], headers=view.headers)
    else:
        out = console()
        if view.headers:
            out.print(head_line(scene, out.width), markup=False, soft_wrap=True)
        # Somebody reads a terminal, and a program the rest: pictures are no help there.
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
    """Shows it on the terminal's other screen until q, Ctrl-C, SIGTERM or the terminal's end."""
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
                if key:
                    screen.press(key)
                if time.monotonic() >= until:
                    screen.look(looks.next())
                    until = time.monotonic() + interval
    except (KeyboardInterrupt, EOFError):
        return


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
