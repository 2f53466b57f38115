"""The ``history`` section of the settings with its defaults, which are in the node part of observe."""

from ....core.node.feature_table import KEYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ....core.node.settings import Settings


def section(settings: "Settings") -> "dict[str, Any]":
    """Return the section."""
    defaults, given = KEYS["history"], settings.sections["history"]
    return {**defaults, **given, "keep": {**defaults["keep"], **(given.get("keep") or {})}}
