"""What the settings ask of the plugin at a container's creation.

It is apart from the modules that do it, which take memory and are imported only where they are needed.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..node.settings import Settings

BROUGHT = ("env", "mounts", "devices")
"""The additions that a class can bring into a container."""


def adjusts(settings: "Settings") -> bool:
    """Return whether anything may be changed in any container."""
    return bool(settings.nri.get("adjust")) or any(spec.get(name) for spec in settings.classes for name in BROUGHT)


def is_specified(settings: "Settings") -> bool:
    """Return whether placement's cpusets are to stand in specifications."""
    return bool(settings.placement["enabled"]) and "placement" in (settings.nri.get("adjust") or [])
