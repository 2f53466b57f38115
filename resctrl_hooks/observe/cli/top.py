"""`resctrl-hook top`: live cache occupancy, memory bandwidth and power of each pod."""

import functools
import sys
import time
from contextlib import closing
from operator import attrgetter
from typing import TYPE_CHECKING

import click
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from resctrl_hooks.core.cli.document import Column, print_listing
from resctrl_hooks.core.cli.list_options import ListOptions, list_options
from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.cli.tables import console, print_table
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.observe.cli.class_lines import BY_CLASS, changed
from resctrl_hooks.observe.cli.lost_text import BY_NAMESPACE, lost_lines
from resctrl_hooks.observe.cli.top_lines import domain_line, head_line, memory_lines, power_lines
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_table import usage_table
from resctrl_hooks.observe.inventory.columns import BY_KEY, COLUMNS, values_of
from resctrl_hooks.observe.inventory.rates import Line
from resctrl_hooks.observe.inventory.slowdown import SORT as SLOW
from resctrl_hooks.observe.inventory.usage import GROUPINGS, grouped, ordered
from resctrl_hooks.observe.inventory.usage_models import Usage
from resctrl_hooks.observe.params import Bandwidth, at_option, domain_of, interval_option

if TYPE_CHECKING:
    from resctrl_hooks.observe.cli.top_past import PastSamples
    from resctrl_hooks.observe.cli.top_pod import PodPage
from resctrl_hooks.observe.cli.top_live import show_live
from resctrl_hooks.observe.cli.top_samples import LiveSamples

_CSV: tuple[Column, ...] = tuple(
    (
        to_camel(name),
        (lambda one: "/" if one.rdt_class == "" else one.rdt_class) if name == "rdt_class" else attrgetter(name),
    )
    for name in Usage.model_fields
)


@click.command()
@list_options((*BY_KEY, SLOW, "name"), "mbm")
@click.option("--once", is_flag=True, help="Measure for one interval, print and exit.")
@interval_option("2s", "Time between two samples, such as 500ms, 2s or 1m.")
@click.option(
    "--domain",
    callback=domain_of,
    metavar="N",
    help="Only counters of this L3 domain, or of this memory where bandwidth is counted there; or RESOURCE_N.",
)
@click.option(
    "--capacity",
    type=Bandwidth(),
    metavar="BYTES",
    help="Bandwidth of each L3 cache in bytes per second that is 100%, such as 120G; default: the largest so far.",
)
@at_option
@click.option("--by", type=click.Choice([*GROUPINGS]), default="pod", show_default=True, help="Content of a line.")
@click.pass_obj
def command(
    config: str,
    *,
    options: ListOptions,
    once: bool,
    interval: float,
    domain: tuple[str, int] | None,
    capacity: float | None,
    when: float | None,
    by: str,
) -> None:
    """Watch cache occupancy, memory bandwidth and power per pod.

    Ungrouped tasks have a separate line; the total covers all lines. On a terminal it is interactive (`?` for help).
    A terminal without cursor control (TERM=dumb) gets plain rows, the newest last. Elsewhere, and with -o, it measures
    once, or repeatedly with -w. With --at it shows the past, in which the arrow keys go back and forth; `[` and `]` go
    by minutes, `{` and `}` by hours, and End returns to the present.
    """
    node, out = open_node(config), console()
    endless = options.table and out.is_terminal and not once
    interactive = endless and not out.is_dumb_terminal
    if when is not None and not interactive:
        past = _past(node, options, domain, capacity)
        scene = past.at(when)
        past.check(scene)
        _print(scene, options, by)
        return
    with closing(LiveSamples(node, options, domain, capacity)) as samples:
        options = samples.options
        if interactive:
            show_live(
                samples,
                interval,
                options,
                by,
                lambda: _past(node, options, samples.scenes.domain, capacity),
                functools.partial(_page, node),
                when,
            )
            return
        try:
            while True:
                time.sleep(interval)
                _print(samples.next(), options, by)
                sys.stdout.flush()
                if not (options.watch or endless):
                    return
        except KeyboardInterrupt:
            return


def _print(scene: Scene, options: ListOptions, by: str) -> None:
    lines = ordered(grouped(scene.lines, by), options.sort, reverse=options.reverse, exact=not options.table)
    if not options.table:
        print_listing(
            options.form,
            "UsageList",
            [_item(line, scene) for line in lines],
            _CSV,
            names=[line.name for line in lines],
            headers=options.headers,
            compact=options.watch,
            by=by,
            seconds=round(scene.seconds, 3),
            llcBytes=scene.llc_bytes,
            rmids=scene.rmids,
            waiting=scene.waiting,
            uncounted=scene.uncounted,
            domain=scene.domain and scene.domain[1],
            domains=[*scene.domains],
            memoryDomains=list(scene.memory),
            power=scene.power,
            lost=list(scene.lost) if by == BY_NAMESPACE else [],
            classChanges=list(scene.changes()) if by == BY_CLASS else [],
            **({"host": scene.host, "time": scene.when} if scene.past else {}),
        )
    else:
        out = console()
        if options.headers:
            out.print(head_line(scene, out.width), markup=False, soft_wrap=True)
            if scene.absent:
                out.print(scene.absent, markup=False, soft_wrap=True)
            if scene.domains:
                out.print(domain_line(scene, out.width))
            extra = (*memory_lines(scene, out.width), *power_lines(scene, out.width), *lost_lines(scene, by, out.width))
            extra = (*extra, *changed(scene, by, out.width))
            for text in extra:
                out.print(text)
        # Bars are for terminals only: a program reads the numbers.
        made = usage_table(
            scene,
            lines,
            by=by,
            sort=options.sort,
            reverse=options.reverse,
            width=out.width,
            pictures=out.is_terminal,
            headers=options.headers,
        )
        print_table(out, made)


def _item(line: Line, scene: Scene) -> BaseModel:
    share = scene.share(line)
    shares = {one.share.field: None if share is None else round(share * 100, 3) for one in COLUMNS if one.share}
    fields = values_of(line.values) | shares
    return Usage(**fields, **{name: getattr(line, name) for name in Usage.model_fields.keys() - fields.keys()})


def _past(
    context: Context, options: ListOptions, domain: tuple[str, int] | None, capacity: float | None
) -> "PastSamples":
    from resctrl_hooks.observe.cli.top_past import PastSamples  # noqa: PLC0415  # most runs show the present

    return PastSamples(context, options, domain, capacity)


def _page(context: Context, name: str) -> "PodPage":
    from resctrl_hooks.observe.cli.top_pod import PodPage  # noqa: PLC0415  # as above

    return PodPage(context, name)
