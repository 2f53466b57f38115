"""The ``rdt.guard`` section of the settings with its defaults, which are in the feature table."""

from ..feature_table import FEATURES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..settings import Settings

OFF, OBSERVE, ACT = "off", "observe", "act"


def section(settings: "Settings") -> "dict[str, Any]":
    """Return the section."""
    return {**FEATURES["rdt"].defaults["guard"], **(settings.rdt.get("guard") or {})}


def guard_mode(settings: "Settings") -> str:
    """Return `OFF`, `OBSERVE` or `ACT`."""
    mode: str = section(settings)["mode"]
    return mode
