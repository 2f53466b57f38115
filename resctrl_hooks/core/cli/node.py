"""The node's settings, as commands open them."""

import os

from resctrl_hooks.core.config import effective_settings, find_effective
from resctrl_hooks.core.install.paths import CODE
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.log import Log
from resctrl_hooks.core.node.settings import Settings


def open_node(config: str) -> Context:
    """Return the node with the active settings; reading it logs nothing.

    If hooks are installed and the configuration file was not applied, or was edited since, the command's last line says
    so.
    """
    return Context(effective_settings(config, has_hooks=os.path.lexists(CODE)), Log({"target": "none"}))


def find_settings(config: str) -> tuple[Settings, str]:
    """Return the settings that the node half would use, and a remark on them; the node half's commands call it."""
    found = find_effective(config)
    return found.settings, found.problem
