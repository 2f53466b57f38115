"""`resctrl-hook simulate`: a resctrl filesystem on machines that have none."""

import click

from resctrl_hooks.simulation.machine import Machine
from resctrl_hooks.simulation.mount import SimulationError, serve_here, start


@click.command()
@click.argument("mountpoint", type=click.Path())
@click.option("--rmids", type=click.IntRange(1), default=32, show_default=True, help="RMIDs; the root group has one.")
@click.option("--closids", type=click.IntRange(1), default=8, show_default=True, help="Classes, with the root class.")
@click.option("--l3-domains", type=click.IntRange(1), default=2, show_default=True, help="L3 caches.")
@click.option(
    "--limbo",
    type=click.FloatRange(0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a freed RMID can't be used again.",
)
@click.option("--energy", is_flag=True, help="Add PERF_PKG domains with core_energy and activity.")
@click.option("--background", is_flag=True, help="Return once it is mounted; `umount MOUNTPOINT` ends it.")
def simulate(
    mountpoint: str, *, rmids: int, closids: int, l3_domains: int, limbo: float, energy: bool, background: bool
) -> None:
    """Mount a simulated resctrl at MOUNTPOINT, which is made if it is missing.

    It behaves as the kernel's does, without RDT hardware: groups, RMIDs that run out, tasks, counters. It ends on
    Ctrl-C, SIGTERM or umount.
    """
    try:
        machine = Machine(rmids=rmids, closids=closids, l3_domains=l3_domains, limbo=limbo, energy=energy)
        if background:
            start(mountpoint, machine)
        else:
            serve_here(mountpoint, machine)
    except (SimulationError, ValueError) as error:
        raise click.ClickException(str(error)) from None


command = simulate
