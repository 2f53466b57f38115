"""Which features are in use, which of them concern a container, and what their failures mean, by `feature_table`."""

from .feature import SKIP, Step
from .feature_table import FEATURES, LISTED, SELECTED
from .names import matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .container.workload import Workload
    from .context import Context
    from .feature import Feature
    from .settings import Settings


def feature_named(name: str) -> "Feature | None":
    """Return the feature of a recorded step; None for one that this version doesn't know."""
    row = FEATURES.get(name)
    if row is None:
        return None
    # Imported only where it is used: an import is the largest cost of a hook.
    module = __import__(f"features.{row.module}", globals(), None, ("FEATURE",), 1)
    feature: Feature = module.FEATURE
    return feature


def kind_of(name: str) -> str:
    """What the steps of a feature concern, as `feature_table` has it; empty for one that this version doesn't know."""
    row = FEATURES.get(name)
    return row.kind if row is not None else ""


def is_in_use(name: str, settings: "Settings") -> bool:
    """Return whether the settings turn a feature on."""
    key = FEATURES[name].by_class
    if key:
        return any(spec.get(key) for spec in settings.classes)
    return bool(getattr(settings, name)["enabled"])


def features_in_use(settings: "Settings", workload: "Workload | None" = None) -> "list[Feature]":
    """The features that the settings turn on, in the order in which they are done; those only that concern a workload.

    A feature that is left out for a workload would have no step for it but `SKIP`.
    """
    found = []
    for name in FEATURES:
        if is_in_use(name, settings) and (workload is None or concerns(name, workload, settings)):
            feature = feature_named(name)
            if feature is not None:
                found.append(feature)
    return found


def plan(feature: "Feature", workload: "Workload", context: "Context", earlier: "Sequence[Step]" = ()) -> "list[Step]":
    """Return the steps of a feature for a workload; one that is a pod's sandbox has none.

    Raises:
        HookError: as `Feature.plan`.
    """
    if workload.sandbox:
        return [Step(feature.name, SKIP, {}, f"a pod's sandbox gets no {feature.name}")]
    return feature.plan(workload, context, earlier)


def concerns(name: str, workload: "Workload", settings: "Settings") -> bool:
    """Return whether a feature may have something to do for a workload, as far as that can be told without the feature.

    Importing it to hear that it hasn't would cost more than all the rest, for nearly all containers of most nodes.
    """
    row = FEATURES[name]
    if row.serves == LISTED:  # and then it concerns all of their containers
        return serves(name, workload.namespace, settings)
    if not row.mark or any(row.mark in annotation for annotation in workload.annotations):
        return True
    return any((getattr(settings, name).get("defaults") or {}).values())


def serves(name: str, namespace: str, settings: "Settings") -> bool:
    """Whether a feature does anything for containers of a namespace, where the settings list those that it serves."""
    how = FEATURES[name].serves
    if how == SELECTED:
        return not settings.selects(namespace)
    patterns = getattr(settings, name).get("namespaces") if how == LISTED else None
    return not patterns or any(matches(pattern, namespace) for pattern in patterns)


def failure_policy(name: str, settings: "Settings") -> str:
    """What a failure of a feature means for its container, ``ignore`` or ``fail``: its own policy, else the general."""
    policies = FEATURES[name].policies
    usual = "fail" if policies else settings.failure_policy
    for section in policies or (name,):
        policy: str = getattr(settings, section).get("failurePolicy") or ""
        if policy:
            return policy
    return usual
