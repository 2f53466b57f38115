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
@click.option("--rmids", type=_number("rmids"), default=32, show_default=True, help="RMIDs; the root group has one.")
@click.option("--closids", type=_number("closids"), default=8, show_default=True, help="Classes, with the root class.")
@click.option("--l3-domains", type=_number("l3_domains"), default=2, show_default=True, help="L3 caches.")
@click.option(
    "--limbo",
    type=Duration(0, MOST["limbo"]),
    default="1s",
    show_default=True,
    metavar="DURATION",
    help="How long a freed RMID can't be used again.",
)
@click.option("--energy", is_flag=True, help="Add PERF_PKG domains with core_energy and activity.")
@click.option(
    "--vendor", type=click.Choice(sorted(VENDORS)), default="intel", show_default=True, help="The processor's vendor."
)
@click.option(
    "--assignable-counters",
    type=_number("assignable_counters", least=0),
    default=0,
    metavar="N",
    help="Bandwidth counters in each L3 cache that groups are assigned, with --vendor amd.",
)
@click.option(
    "--clusters", type=_number("clusters"), default=1, show_default=True, help="Sub-NUMA clusters of a cache."
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
@click.option("--cdp", is_flag=True, help="Give code and data masks of their own.")
@click.option("--background", is_flag=True, help="Return once it is mounted; `umount MOUNTPOINT` ends it.")
def simulate(mountpoint: str, *, background: bool, **hardware: Any) -> None:
    """Mount a simulated resctrl at MOUNTPOINT, which is made if it is missing.

    It behaves as the kernel's does, without RDT hardware: groups, RMIDs that run out, tasks, counters. It ends on
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
