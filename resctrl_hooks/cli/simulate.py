"""`resctrl-hook simulate`: a resctrl filesystem for machines without one."""

from typing import Any

import click

from resctrl_hooks.cli.params import Duration
from resctrl_hooks.simulation.machine import MOST, VENDORS, Machine
from resctrl_hooks.simulation.mount import SimulationError, serve_here, start


def _number(name: str, least: int = 1) -> click.IntRange:
    return click.IntRange(least, MOST[name])


@click.command()
@click.argument("mountpoint", type=click.Path())
@click.option(
    "--rmids", type=_number("rmids"), default=32, show_default=True, help="Number of RMIDs, including the root group's."
)
@click.option(
    "--closids",
    type=_number("closids"),
    default=8,
    show_default=True,
    help="Number of classes, including the root class.",
)
@click.option("--l3-domains", type=_number("l3_domains"), default=2, show_default=True, help="L3 caches.")
@click.option(
    "--limbo",
    type=Duration(0, MOST["limbo"]),
    default="1s",
    show_default=True,
    metavar="DURATION",
    help="Time until a freed RMID can be used again.",
)
@click.option("--energy", is_flag=True, help="Add PERF_PKG domains with core_energy and activity.")
@click.option(
    "--vendor", type=click.Choice(sorted(VENDORS)), default="intel", show_default=True, help="Processor vendor."
)
@click.option(
    "--assignable-counters",
    type=_number("assignable_counters", least=0),
    default=0,
    metavar="N",
    help="Assignable bandwidth counters per L3 cache; requires --vendor amd.",
)
@click.option(
    "--pmg",
    type=_number("pmg", least=0),
    default=0,
    metavar="N",
    help="RMIDs of each class, with --vendor arm: instead of --rmids.",
)
@click.option(
    "--partids",
    type=_number("partids", least=0),
    default=0,
    metavar="N",
    help="Classes, with --vendor arm: instead of --closids.",
)
@click.option("--clusters", type=_number("clusters"), default=1, show_default=True, help="Sub-NUMA clusters per cache.")
@click.option("--cdp", is_flag=True, help="Use separate masks for code and data.")
@click.option("--background", is_flag=True, help="Return after mounting; `umount MOUNTPOINT` stops it.")
def simulate(mountpoint: str, *, background: bool, **hardware: Any) -> None:
    """Mount a simulated resctrl at MOUNTPOINT, which is created if missing.

    It behaves like the kernel's, without RDT hardware: groups, a limited number of RMIDs, tasks, counters. Stop it with
    Ctrl-C, SIGTERM or umount.
    """
    try:
        machine = Machine(**hardware)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    try:
        if background:
            start(mountpoint, machine)
        else:
            serve_here(mountpoint, machine)
    except SimulationError as error:
        raise click.ClickException(str(error)) from None


command = simulate
