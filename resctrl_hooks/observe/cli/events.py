"""`resctrl-hook events`: Kubernetes Events of this node's pods, from what the node's own processes have written."""

import os

import click

from resctrl_hooks.core.cli.node import find_settings
from resctrl_hooks.core.inventory.pod_names import PodNames
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.log import Log
from resctrl_hooks.observe.events.api import api_of_pod
from resctrl_hooks.observe.events.conditions import conditions
from resctrl_hooks.observe.events.sender import Sender
from resctrl_hooks.observe.params import ended_by_signals

_SECONDS = 10.0
"""Between two passes: the sampling process judges as often."""


@click.command()
@click.pass_obj
def command(config: str) -> None:
    """Send Kubernetes Events of pods that neighbours slow, that are limited, or that wait for an RMID, until SIGTERM.

    The DaemonSet resctrl-hooks-events runs it, if `events: true` is set. It only reads records, listens nowhere, and
    may create and change Events, nothing else.
    """
    ended = ended_by_signals()
    last: list[str] = []

    def output(text: str) -> None:
        if last != [text]:
            last[:] = [text]
            click.echo(f"resctrl-hook: events: {text}", err=True)

    sender = Sender(api_of_pod(), os.environ.get("NODE_NAME") or os.uname().nodename, output)
    names: PodNames | None = None
    while True:
        try:
            context = Context(find_settings(config)[0], Log({"target": "none"}))  # again: it may have changed
            names = names or PodNames(context)
            if context.settings.sections["events"]:
                sender.send(conditions(context, names))
            else:
                output("`events` is not set in the configuration; nothing is sent")
        except HookError as error:
            output(str(error))
        if ended.wait(_SECONDS):
            return
