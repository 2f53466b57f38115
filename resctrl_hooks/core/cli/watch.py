"""`resctrl-hook watch`: run the node half's exec watcher on hosts without its unit."""

import sys

import click

from resctrl_hooks.core.cli.added import extended
from resctrl_hooks.core.cli.node import find_settings
from resctrl_hooks.core.node.watch.command import watch_command
from resctrl_hooks.core.parts import clause


@click.command()
@click.pass_obj
@extended("watch", watched=clause("watched"))
def command(config: str) -> None:
    """Move processes that enter running containers into their pods' groups, until SIGTERM.

    Receives each exec from the kernel (CONFIG_PROC_EVENTS), so that `kubectl exec` and exec probes are counted from
    their first milliseconds. resctrl-hooks-exec.service runs it{watched}.
    """
    sys.exit(watch_command(config, [], find_settings))
