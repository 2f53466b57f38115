"""The ``slowdown`` section of the settings with its defaults, which are in the node part of observe."""

from ....core.node.feature_table import KEYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ....core.node.settings import Settings

LOCK = "slowdown.lock"
"""Of the process that adds samples to the baselines; in the state directory."""
BASELINES = "baselines.json"
"""The file of the baselines, in ``directory``."""


def section(settings: "Settings") -> "dict[str, Any]":
    """Return the section."""
    return {**KEYS["slowdown"], **settings.sections["slowdown"]}
