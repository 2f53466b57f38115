"""`resctrl-hook simulate`: a resctrl filesystem for machines without one."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import click

from resctrl_hooks.core.cli.params import Duration, Number
from resctrl_hooks.core.fuse import MountError
from resctrl_hooks.lab.demo.interrupts import interrupts_deferred, waiting
from resctrl_hooks.lab.demo.subject import RuntimeFailedError
from resctrl_hooks.lab.scene.node import SECONDS_TO_LEARN, Node, play
from resctrl_hooks.lab.scene.place import ENVIRONMENT, running
from resctrl_hooks.lab.scene.scenes import PODS, SCENES, VICTIM
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
@click.option(
    "--scene",
    type=click.Choice(list(SCENES)),
    metavar="SCENE",
    help=f"Simulate a whole node in this folder, with three pods of which one slows the others: {', '.join(SCENES)}.",
)
@click.option(
    "--background",
    is_flag=True,
    help="Return after mounting. `umount MOUNTPOINT` stops it; with --scene, the printed `kill`.",
)
def command(mountpoint: str, *, scene: str | None, background: bool, **hardware: Any) -> None:
    """Mount a simulated resctrl at MOUNTPOINT, which is created if missing.

    It behaves like the kernel's, without RDT hardware: groups, a limited number of RMIDs, tasks, counters. Stop it with
    Ctrl-C, SIGTERM or umount.

    With --scene, MOUNTPOINT is the folder of a simulated node, for all commands that look, diagnose or limit. For a
    node that runs already, the scene changes.
    """
    try:
        machine = Machine(**hardware)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if scene and machine != Machine():
        raise click.UsageError("--scene has its own hardware.")
    try:
        if scene:
            _simulate_node(mountpoint, scene, background=background)
        elif background:
            start(mountpoint, machine)
        else:
            serve_here(mountpoint, machine)
    except (MountError, RuntimeFailedError) as error:
        raise click.ClickException(str(error)) from None


def _simulate_node(folder: str, scene: str, *, background: bool) -> None:
    folder = os.path.abspath(folder)
    os.umask(0o022)  # other users write nothing into its folders
    if pid := running(folder):
        play(folder, scene)
        click.echo(f"scene {scene}: {SCENES[scene].text}")
        click.echo(f"end the node: kill {pid}")
        return
    os.environ[ENVIRONMENT] = folder
    with interrupts_deferred(), ExitStack() as stack:
        node = Node(folder, has_processors=True)
        stack.callback(node.stop)
        node.start()
        click.echo(f"simulated node with {', '.join(pod.full_name for pod in PODS)}")
        for pod in PODS:
            node.add_process(pod)
        click.echo(f"learning what their work costs in quiet times ({SECONDS_TO_LEARN} s)")
        node.sample()
        with waiting():
            node.learn()
        node.complete()
        node.play(scene)
        click.echo(f"scene {scene}: {SCENES[scene].text}")
        for words in filter(None, ("top", f"diagnose {VICTIM.full_name} --for 10s", SCENES[scene].limit)):
            click.echo(f"  {node.command} {words}")
        if background:
            stack.pop_all()
            click.echo(f"end it: kill {node.pid}")
            return
        click.echo("end it: Ctrl-C")
        with waiting():
            node.wait()
