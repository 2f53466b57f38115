"""What the commands that look at the node begin with: its settings, and errors in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from resctrl_hooks.config.force import settings_in_force
from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.log import Log
from resctrl_hooks.node.steps import Node


def open_node(config: str) -> Node:
    """The node as the settings in force describe it; looking at it logs nothing."""
    return Node(settings_in_force(config), Log({"target": "none"}))


@contextmanager
def plain_errors() -> Iterator[None]:
    """Ends the command with exit code 1 and one line where something foreseeable goes wrong."""
    try:
        yield
    except HookError as error:
        raise click.ClickException(str(error)) from error
