"""`resctrl-hook limit`: limit running pods at once, for a time."""

from errno import EPERM
from typing import Any

import click

from resctrl_hooks.core.cli.list_options import ListOptions
from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.reconcile.note import note_running
from resctrl_hooks.observe.cli.limit_options import limit_options, request_of, selected_pods
from resctrl_hooks.observe.cli.limit_text import apply_all, in_words
from resctrl_hooks.observe.limits.limiter import Limiter
from resctrl_hooks.observe.limits.permission import is_owner
from resctrl_hooks.observe.limits.planner import Planner


@click.command()
@limit_options
@click.pass_obj
def command(config: str, /, *, options: ListOptions, seconds: float, reason: str, dry_run: bool, **given: Any) -> None:
    """Limit running pods at once, for a time.

    Every value is recorded before it is written. It is restored at the limit's end, at the pod's end, by `unlimit`, by
    an uninstallation, and if this command is killed. A value that another program has changed since stays. Reconcile
    and the sampling process restore it, so the end can come a minute late.

    With --mb and --l3, a pod moves to an RDT class with these values and else those of its own class; without such a
    class, one is created for that time. The pod's counts go on. What starts or enters later is moved, too.

    Only root can limit pods, and only those that match `slowdown.limit`. Further limits of a pod are added. A limit
    only lowers values. A value that another limit or an experiment has changed is refused.
    """
    options.require_pods()
    request = request_of(given)
    context = open_node(config)
    if not dry_run:
        if not is_owner(context.settings):
            raise HookError("cannot limit pods", errno=EPERM)
        for line in Limiter(context).end_over():
            click.echo(line, err=True)
    note_running(context)
    found = Planner(context).plan_all(selected_pods(context, options), request)
    if dry_run:
        for one in found:
            click.echo(in_words(one, seconds, done=False))
        return
    apply_all(context, found, seconds, reason, click.echo)
