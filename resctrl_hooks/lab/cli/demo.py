"""`resctrl-hook demo`: show a container that enters and leaves its group, on any Linux machine."""

import signal
import sys

import click

from resctrl_hooks.lab.demo.stage import staged
from resctrl_hooks.lab.demo.story import SUBJECTS, DemoError, run_demo
from resctrl_hooks.lab.demo.subject import RuntimeFailedError


@click.command("demo")
@click.option(
    "--with",
    "subject",
    type=click.Choice(list(SUBJECTS)),
    help="What runs as the container; default: the first that works, in this order.",
)
@click.option("--plain", is_flag=True, help="Use a plain directory tree even if FUSE is available.")
def command(subject: str | None, *, plain: bool) -> None:
    """Show how a container enters its monitoring group before it runs and leaves it at the end.

    Needs no RDT hardware: resctrl is a simulation in a temporary folder. As root with Podman, runc or crun it runs a
    small container, else a plain process. Only files in the temporary folder are changed.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # SIGTERM must unmount the simulation
    try:
        with staged(plain=plain) as stage:
            run_demo(stage, subject or "")
    except (DemoError, RuntimeFailedError) as error:
        raise click.ClickException(str(error)) from None
