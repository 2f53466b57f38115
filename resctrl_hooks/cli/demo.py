"""`resctrl-hook demo`: show a container that enters and leaves its group, on any Linux machine."""

import signal
import sys

import click

from resctrl_hooks.demo.stage import staged
from resctrl_hooks.demo.story import SUBJECTS, DemoError, tell
from resctrl_hooks.demo.subject import RuntimeFailedError


@click.command("demo")
@click.option(
    "--with", "subject", type=click.Choice(list(SUBJECTS)), help="Who plays the container; default: the best."
)
@click.option("--plain", is_flag=True, help="Use a plain tree of folders although FUSE is there.")
def command(subject: str | None, *, plain: bool) -> None:
    """See a real container land in its monitoring group before it runs, and leave it, on any Linux machine.

    Needs no RDT hardware: resctrl is a simulation in a temporary folder. As root with Podman, runc or crun it runs a
    small container, else a plain process. Nothing outside the temporary folder is changed.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # SIGTERM must unmount the simulation
    try:
        with staged(plain=plain) as stage:
            tell(stage, subject or "")
    except (DemoError, RuntimeFailedError) as error:
        raise click.ClickException(str(error)) from None
