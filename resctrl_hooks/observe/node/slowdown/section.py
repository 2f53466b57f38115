"""The ``slowdown`` section of the settings with its defaults, which are in the node part of observe."""

from ....core.node.feature_table import AUTO, KEYS
from ..guard.section import OFF
from ..guard.section import section as guard
from ..history.section import section as history

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ....core.node.settings import Settings

LOCK = "slowdown.lock"
"""Of the process that adds samples to the baselines; in the state directory."""
BASELINES = "baselines.json"
"""The file of the baselines, in ``directory``."""


def section(settings: "Settings") -> "dict[str, Any]":
    """Return the section. ``enabled`` is a boolean: `auto` is true if the sampling process runs for another part."""
    found = {**KEYS["slowdown"], **settings.sections["slowdown"]}
    if found["enabled"] == AUTO:
        found["enabled"] = guard(settings)["mode"] != OFF or history(settings)["enabled"]
    return found
