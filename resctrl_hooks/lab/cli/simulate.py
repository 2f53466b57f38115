"""`resctrl-hook simulate`: a resctrl filesystem for machines without one."""

from collections.abc import Callable
from typing import Any

import click

from resctrl_hooks.core.cli.params import Duration, Number
from resctrl_hooks.core.fuse import MountError
from resctrl_hooks.lab.simulation.machine import MOST, VENDORS, Machine
from resctrl_hooks.lab.simulation.mount import serve_here, start

_DEFAULTS = Machine()


def _number(name: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an option for a number of the machine's parts, at least 1; 0 as the default means that it has none."""
    default = getattr(_DEFAULTS, name)
    return click.option(
        f"--{name.replace('_', '-')}",
        type=Number(min(default, 1), MOST[name]),
        default=default,
        show_default=default > 0,
        metavar=None if default else "N",
        help=text,
    )


@click.command()
@click.argument("mountpoint", type=click.Path())
@_number("rmids", "Number of RMIDs, including the root group's.")
@_number("closids", "Number of classes, including the root class.")
@_number("l3_domains", "L3 caches.")
@click.option(
    "--limbo",
    type=Duration(0, MOST["limbo"]),
    default="1s",
    show_default=True,
    help="Time until a freed RMID can be used again.",
)
@click.option("--energy", is_flag=True, help="Add PERF_PKG domains with core_energy and activity.")
@click.option(
    "--vendor", type=click.Choice(sorted(VENDORS)), default="intel", show_default=True, help="Processor vendor."
)
@_number(
    "assignable_counters", "Assignable bandwidth counters per domain; requires --vendor amd, or arm with --bandwidth."
)
@_number("pmg", "RMIDs of each class, with --vendor arm: instead of --rmids.")
@_number("partids", "Classes, with --vendor arm: instead of --closids.")
@_number("clusters", "Sub-NUMA clusters per cache.")
@click.option("--cdp", is_flag=True, help="Use separate masks for code and data.")
@click.option(
    "--bandwidth",
    default="",
    metavar="RESOURCE",
    help="Resource that counts bandwidth, with --vendor arm: L3, MB (NVIDIA's kernels), NODE or an invented one.",
)
@click.option("--memory-nodes", default="", metavar="LIST", help="Ids of its domains, such as 0-1,10.")
@click.option("--other-schemata", default="", metavar="LINE", help="More schemata lines, such as `MB_MIN:0=0;1=0`.")
@click.option("--background", is_flag=True, help="Return after mounting; `umount MOUNTPOINT` stops it.")
def command(mountpoint: str, *, background: bool, **hardware: Any) -> None:
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
    except MountError as error:
        raise click.ClickException(str(error)) from None
