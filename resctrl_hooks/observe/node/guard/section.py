"""The ``rdt.guard`` section of the settings with its defaults, which are in the node part of observe."""

from ....core.node.feature_table import FEATURES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ....core.node.settings import Settings

OFF, OBSERVE, ACT = "off", "observe", "act"


def section(settings: "Settings") -> "dict[str, Any]":
    """Return the section."""
    return {**FEATURES["rdt"].defaults["guard"], **(settings.rdt.get("guard") or {})}


def slowdown_of(settings: "dict[str, Any]") -> "dict[str, float]":
    """Return the classes that are protected at a slowdown, with the ratio; ``protect`` is a list or a mapping."""
    protect = settings["protect"]
    rules = protect.items() if isinstance(protect, dict) else ()
    return {class_name(name): rule["slowdown"] for name, rule in rules if rule and rule.get("slowdown")}


def class_name(name: str) -> str:
    """Return the kernel's name of a configured class: the root class has none."""
    return "" if name == "/" else name
