"""`resctrl-hook demo`: a container in its group, and a noisy neighbour, on any Linux machine."""

from contextlib import ExitStack

import click

from resctrl_hooks.core.fuse import MountError
from resctrl_hooks.lab.demo.interrupts import interrupts_deferred
from resctrl_hooks.lab.demo.stage import staged
from resctrl_hooks.lab.demo.story import SUBJECTS, DemoError, run_demo, show_next
from resctrl_hooks.lab.demo.subject import RuntimeFailedError
from resctrl_hooks.lab.demo.text import remark
from resctrl_hooks.lab.scene.story import Prepared, prepared, tell


@click.command("demo")
@click.option(
    "--with",
    "subject",
    type=click.Choice(list(SUBJECTS)),
    help="What runs as the container; default: the first that works, in this order.",
)
@click.option("--plain", is_flag=True, help="Use a plain directory tree even if FUSE is available.")
@click.option("--neighbour/--no-neighbour", default=None, help="Show only the noisy neighbour, or only the container.")
def command(subject: str | None, *, plain: bool, neighbour: bool | None) -> None:
    """Show how a container enters its monitoring group before it runs and leaves it at the end.

    Then show how a noisy neighbour among three pods is found, proved and limited, in about a minute.

    Needs no RDT hardware: resctrl is a simulation in a temporary folder. As root with Podman, runc or crun it runs
    small containers, else plain processes. Only files in the temporary folder are changed; the report's page stays.
    """
    if neighbour and plain:
        raise click.UsageError("--neighbour needs a simulation: leave out --plain.")
    with interrupts_deferred(), ExitStack() as stack:
        begun, why_not = None, ""
        try:
            if neighbour is not False and not plain:
                begun, why_not = _begin(stack)
            if not neighbour:
                stage = stack.enter_context(staged(plain=plain))
                run_demo(stage, subject or "")
                why_not = "" if stage.why_plain else why_not  # it was printed
            if begun is not None:
                tell(begun)
        except (DemoError, RuntimeFailedError) as error:
            raise click.ClickException(str(error)) from None
        if neighbour and why_not:
            raise click.ClickException(why_not)
        if why_not:
            remark(f"For the demo of a noisy neighbour: {why_not}.")
        click.echo()
        show_next()


def _begin(stack: ExitStack) -> tuple[Prepared | None, str]:
    """Return a node that learns costs meanwhile; without one, the missing requirement."""
    try:
        return stack.enter_context(prepared()), ""
    except MountError as error:
        return None, str(error)
