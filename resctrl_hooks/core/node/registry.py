"""Features in use, and their plans for a container, by `feature_table`."""

from . import errors
from .feature import SKIP, Step
from .feature_table import FEATURES
from .names import matches
from .part import LISTED, SELECTED, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .container.workload import Workload
    from .context import Context
    from .feature import Feature
    from .settings import Settings


def feature_named(name: str) -> "Feature | None":
    """Return the feature of a recorded step; None if this version does not know it."""
    row = FEATURES.get(name)
    if row is None:
        return None
    # Imported only where it is used: an import is the largest cost of a hook.
    try:
        feature: Feature = load(f"{row.module}:FEATURE")
    except ModuleNotFoundError:
        from .failure_policies import Undelivered  # only where the installed code and the settings differ

        return Undelivered(name)
    return feature


def is_in_use(name: str, settings: "Settings") -> bool:
    """Return whether the settings enable a feature."""
    row = FEATURES[name]
    if row.by_class:
        return any(spec.get(row.by_class) for spec in settings.classes) or bool(
            row.by_list and getattr(settings, row.by_list)
        )
    return bool(getattr(settings, name)["enabled"])


def features_in_use(settings: "Settings", workload: "Workload | None" = None) -> "list[Feature]":
    """Return the enabled features in the order of their steps; for a workload, only those that may apply.

    An omitted feature would have no step for it but `SKIP`.
    """
    found = []
    for name in FEATURES:
        if is_in_use(name, settings) and (workload is None or concerns(name, workload, settings)):
            feature = feature_named(name)
            if feature is not None:
                found.append(feature)
    return found


def plan(feature: "Feature", workload: "Workload", context: "Context", earlier: "Sequence[Step]" = ()) -> "list[Step]":
    """Return the steps of a feature for a workload; a pod's sandbox has none.

    A request of the pod's author that cannot be met gets the operator's default, unless the feature refuses.

    Raises:
        HookError: as `Feature.plan`.
    """
    if workload.sandbox:
        return [Step(feature.name, SKIP, {}, f"{feature.name} does not apply to a pod's sandbox")]
    try:
        return feature.plan(workload, context, earlier)
    except errors.DeadlineError:
        raise
    except Exception as caught:  # the default must not depend on our having no bugs
        from .failure_policies import default_steps  # only when something went wrong

        default = default_steps(feature, workload, context, earlier, caught)
        if default is None:
            raise
        return default


def concerns(name: str, workload: "Workload", settings: "Settings") -> bool:
    """Return whether a feature may apply to a workload, as far as that is known without importing it.

    Importing it in vain would cost more than everything else, for nearly all containers of most nodes.
    """
    row = FEATURES[name]
    if row.serves == LISTED:  # then it applies to all of their containers
        return serves(name, workload.namespace, settings)
    if not row.marks or any(mark in annotation for annotation in workload.annotations for mark in row.marks):
        return True
    return settings.has_defaults(name)


def serves(name: str, namespace: str, settings: "Settings") -> bool:
    """Return whether a feature applies to containers of a namespace, if the settings list its namespaces."""
    how = FEATURES[name].serves
    if how == SELECTED:
        return not settings.selects(namespace)
    patterns = getattr(settings, name).get("namespaces") if how == LISTED else None
    return not patterns or any(matches(pattern, namespace) for pattern in patterns)
