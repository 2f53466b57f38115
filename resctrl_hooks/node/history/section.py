"""The ``history`` section of the settings with its defaults."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..settings import Settings

DEFAULTS: "dict[str, Any]" = {
    "enabled": False,
    "file": "/var/lib/resctrl-hooks/history.sqlite",
    "interval": 10.0,
    "keep": {"samples": 86_400.0, "minutes": 30 * 86_400.0},
    "size": 256 << 20,
}
"""Times in seconds, the size in bytes. ``keep.samples`` is the age at which samples become a row per minute."""


def section(settings: "Settings") -> "dict[str, Any]":
    """Return the section."""
    given = settings.history
    return {**DEFAULTS, **given, "keep": {**DEFAULTS["keep"], **(given.get("keep") or {})}}
