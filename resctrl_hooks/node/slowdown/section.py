"""The ``slowdown`` section of the settings with its defaults."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..settings import Settings

LOCK = "slowdown.lock"
"""Of the process that adds samples to the baselines; in the state directory."""
BASELINES = "baselines.json"
"""The file of the baselines, in ``directory``."""
DEFAULTS: "dict[str, Any]" = {
    "enabled": False,
    "pods": 32,
    "perf": True,
    "watch": [],
    "directory": "/var/lib/resctrl-hooks",
}


def section(settings: "Settings") -> "dict[str, Any]":
    """Return the section."""
    return {**DEFAULTS, **settings.slowdown}
