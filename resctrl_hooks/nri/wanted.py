"""What the settings ask of the plugin at a container's creation.

The modules that do the work take memory, so they are imported only where the settings need them.
"""

from ..node.feature_table import NODE
from ..node.registry import is_in_use, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..node.settings import Settings

BROUGHT = ("env", "mounts", "devices")
"""The additions that a class can bring into a container."""


def adjusts(settings: "Settings") -> bool:
    """Return whether anything may be changed in any container."""
    return bool(settings.nri.get("adjust")) or any(spec.get(name) for spec in settings.classes for name in BROUGHT)


def is_specified(settings: "Settings") -> bool:
    """Return whether the plugin puts decisions about the whole node, such as cpusets, into specifications."""
    return any(kind_of(name) == NODE and is_in_use(name, settings) for name in settings.nri.get("adjust") or [])
