"""What the commands that look at the node begin with: its settings."""

from resctrl_hooks.config.effective import effective_settings
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.log import Log


def open_node(config: str) -> Context:
    """The node as the settings in force describe it; looking at it logs nothing."""
    return Context(effective_settings(config), Log({"target": "none"}))
