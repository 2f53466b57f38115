"""`resctrl-hook unlimit`: end limits of pods before their time."""

from errno import EPERM
from functools import reduce

import click

from resctrl_hooks.core.cli.errors import FailedError
from resctrl_hooks.core.cli.list_options import ListOptions, select_options
from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.inventory.gather import gather
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.observe.cli.limits import limits_of
from resctrl_hooks.observe.limits.limiter import Limiter
from resctrl_hooks.observe.limits.permission import is_owner


@click.command()
@select_options
@click.option("--all", "every", is_flag=True, help="End all limits of this node.")
@click.pass_obj
def command(config: str, *, options: ListOptions, every: bool) -> None:
    """End limits of pods: restore the values that `limit` has changed, except those changed by others since."""
    if not every:
        options.require_pods()
    context = open_node(config)
    found = limits_of(context)
    if not every:
        keys = {pod.key for pod in options.chosen(context, gather(context).pods)}
        found = [one for one in found if one.key in keys]
    if not found:
        click.echo("no limit to end")
        return
    if not is_owner(context.settings):
        raise HookError("cannot unlimit pods", errno=EPERM)
    result = Limiter(context).end(found)

    def named(line: str) -> str:
        return reduce(lambda text, one: text.replace(f"pod {one.key}", f"pod {one.pod}"), found, line)

    if not (result.done or result.foreign or result.failed):
        click.echo("ended; nothing was left to restore")
    for line in result.done:
        click.echo(f"restored {named(line)}")
    for line in result.foreign:
        click.echo(f"not restored: {named(line)}")
    if result.failed:
        raise FailedError("\n".join(f"cannot restore {named(line)}; reconcile tries again" for line in result.failed))
