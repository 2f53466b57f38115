"""The JSON documents of the house's commands."""

from typing import Final

from resctrl_hooks.core.cli.schemas import Document
from resctrl_hooks.placement.inventory.topology_view import TopologyReport

DOCUMENTS: Final = {"topology": Document("TopologyList", TopologyReport)}
"""By the name of their schema."""
