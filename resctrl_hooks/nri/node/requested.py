"""The settings' requests to the plugin for a container's creation.

The modules that do the work take memory, so they are imported only where the settings need them.
"""

from ...core.node.failure_policies import failure_policy
from ...core.node.feature_table import FEATURES
from ...core.node.registry import concerns, feature_named, is_in_use, serves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.container.workload import Workload
    from ...core.node.feature import Specifications
    from ...core.node.settings import Settings

BROUGHT = ("env", "mounts", "devices", "policy")
"""The additions that a class can bring into a container."""


def adjusts(settings: "Settings") -> bool:
    """Return whether anything may be changed in any container."""
    return bool(settings.sections["nri"].get("adjust")) or any(
        spec.get(name) for spec in settings.classes for name in BROUGHT
    )


def strict_features(settings: "Settings", namespace: str, workload: "Workload | None" = None) -> "list[str]":
    """Return the features in use whose failure refuses a container of a namespace.

    Without a ``workload``, they are those for every container: on a node without time left, other containers still
    start.
    """
    return [
        name
        for name, row in FEATURES.items()
        if is_in_use(name, settings)
        and failure_policy(name, settings) == "fail"
        and serves(name, namespace, settings)
        and (concerns(name, workload, settings) if workload is not None else not row.marks)
    ]


def specified_by(settings: "Settings") -> "list[Specifications]":
    """Return the features whose values in specifications the plugin keeps up to date, such as cpusets."""
    used = [
        name for name in settings.sections["nri"].get("adjust") or [] if name in FEATURES and is_in_use(name, settings)
    ]
    found = [feature.specifications() for feature in map(feature_named, used) if feature is not None]
    return [one for one in found if one is not None]
