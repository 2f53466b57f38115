"""Which features are in use, which of them concern a container, and what their failures mean, by `feature_table`."""

from .feature_table import BY_CLASS, FEATURES, REFUSES_BY_DEFAULT
from .names import matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .container.workload import Workload
    from .feature import Feature
    from .settings import Settings


def feature_named(name: str) -> "Feature | None":
    """The feature of a recorded step; None for one that this version doesn't know."""
    if name not in FEATURES:
        return None
    # Imported only where it is used: an import is the largest cost of a hook.
    feature: Feature = __import__(f"features.{FEATURES[name][0]}", globals(), None, ("plan",), 1)
    return feature


def is_in_use(name: str, settings: "Settings") -> bool:
    """Whether the settings turn a feature on."""
    key = BY_CLASS.get(name)
    if key is not None:
        return any(spec.get(key) for spec in settings.classes)
    return bool(getattr(settings, name)["enabled"])


def features_in_use(settings: "Settings", workload: "Workload | None" = None) -> "list[tuple[str, Feature]]":
    """The features that the settings turn on, in the order in which they are done; those only that concern a workload.

    A feature that is left out for a workload would have no step for it but `SKIP`.
    """
    found = []
    for name in FEATURES:
        if is_in_use(name, settings) and (workload is None or concerns(name, workload, settings)):
            feature = feature_named(name)
            if feature is not None:
                found.append((name, feature))
    return found


def concerns(name: str, workload: "Workload", settings: "Settings") -> bool:
    """Whether a feature may have something to do for a workload, as far as that can be told without the feature.

    Importing it to hear that it hasn't would cost more than all the rest, for nearly all containers of most nodes.
    """
    if name == "placement":  # which concerns all of its namespaces
        return serves(name, workload.namespace, settings)
    mark = FEATURES[name][1]
    if not mark or any(mark in annotation for annotation in workload.annotations):
        return True
    return any((getattr(settings, name).get("defaults") or {}).values())


def serves(name: str, namespace: str, settings: "Settings") -> bool:
    """Whether a feature does anything for containers of a namespace, where the settings list those that it serves."""
    if name == "monitoring":
        return not settings.selects(namespace)
    patterns = settings.placement.get("namespaces") if name == "placement" else None
    return not patterns or any(matches(pattern, namespace) for pattern in patterns)


def failure_policy(name: str, settings: "Settings") -> str:
    """What a failure of a feature means for its container, ``ignore`` or ``fail``: its own policy, else the general."""
    usual = "fail" if name in REFUSES_BY_DEFAULT else settings.failure_policy
    for section in REFUSES_BY_DEFAULT.get(name, (name,)):
        policy: str = getattr(settings, section).get("failurePolicy") or ""
        if policy:
            return policy
    return usual
