"""Features in use, their application to a container, and the consequences of their failures, by `feature_table`."""

from . import errors
from .feature import SKIP, Step
from .feature_table import CONTAINER, FEATURES, LISTED, SELECTED
from .host.files import is_there
from .log import WARNING
from .names import matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .container.workload import Workload
    from .context import Context
    from .feature import Feature
    from .records import StepRecord
    from .settings import Settings


def feature_named(name: str) -> "Feature | None":
    """Return the feature of a recorded step; None if this version does not know it."""
    row = FEATURES.get(name)
    if row is None:
        return None
    # Imported only where it is used: an import is the largest cost of a hook.
    module = __import__(f"features.{row.module}", globals(), None, ("FEATURE",), 1)
    feature: Feature = module.FEATURE
    return feature


def cgroup_values(step: "StepRecord") -> "list[list[str]]":
    """Return the values that a recorded step sets in the container's cgroup."""
    feature = feature_named(step["feature"]) if kind_of(step["feature"]) == CONTAINER else None
    return feature.values(Step.of_record(step)) if feature is not None else []


def kind_of(name: str) -> str:
    """Return the kind of a feature's steps in `feature_table`; empty if this version does not know it."""
    row = FEATURES.get(name)
    return row.kind if row is not None else ""


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


def features_to_repair(context: "Context") -> "list[Feature]":
    """Return the enabled features, and disabled ones that changed values of this node before."""
    enabled = features_in_use(context.settings)
    return enabled + [feature for feature in features_with_values(context) if feature not in enabled]


def features_with_values(context: "Context") -> "list[Feature]":
    """Return the features that changed values of this node; their file in the state directory tells."""
    left = [
        name
        for name, row in FEATURES.items()
        if any(is_there(f"{context.ledger.folder}/{leaf}") for leaf in row.leaves)
    ]
    return [feature for feature in map(feature_named, left) if feature is not None]


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
        if not has_defaults(feature.name, context.settings) or refuses(feature.name, context):
            raise
        from .fault_report import as_hook_error  # only when something went wrong

        error = as_hook_error(caught)
        steps = feature.plan(workload.without_annotations(), context, earlier)
        if all(step.action == SKIP for step in steps):
            raise  # there is no default for this container
        context.failures.append(error.reason)
        context.log(
            WARNING,
            f"{feature.name} of {workload}: {error}; the default is applied",
            key=workload.key,
            container=workload.id,
            **error.fields(),
        )
        return [Step(one.feature, one.action, one.parameters, f"{one.why}; {error}", one.kept) for one in steps]


def report_dropped(name: str, workload: "Workload", context: "Context") -> None:
    """Log once the wishes of a pod's author that were dropped while a feature was planned.

    Raises:
        WishError: the feature's failure refuses the container.
    """
    from .container.author_input import dropped  # few containers have such wishes

    error = dropped(workload)
    if error is None:
        return
    if refuses(name, context):
        raise error
    context.failures.append(error.reason)
    context.log(
        WARNING,
        f"{name} of {workload}: {error}; the default is applied",
        key=workload.key,
        container=workload.id,
        **error.fields(),
    )


def has_defaults(name: str, settings: "Settings") -> bool:
    """Return whether the operator has defaults for containers that request nothing of a feature."""
    return any((getattr(settings, name).get("defaults") or {}).values())


def concerns(name: str, workload: "Workload", settings: "Settings") -> bool:
    """Return whether a feature may apply to a workload, as far as that is known without importing it.

    Importing it in vain would cost more than everything else, for nearly all containers of most nodes.
    """
    row = FEATURES[name]
    if row.serves == LISTED:  # then it applies to all of their containers
        return serves(name, workload.namespace, settings)
    if not row.marks or any(mark in annotation for annotation in workload.annotations for mark in row.marks):
        return True
    return has_defaults(name, settings)


def serves(name: str, namespace: str, settings: "Settings") -> bool:
    """Return whether a feature applies to containers of a namespace, if the settings list its namespaces."""
    how = FEATURES[name].serves
    if how == SELECTED:
        return not settings.selects(namespace)
    patterns = getattr(settings, name).get("namespaces") if how == LISTED else None
    return not patterns or any(matches(pattern, namespace) for pattern in patterns)


def refuses(name: str, context: "Context") -> bool:
    """Return whether a feature's failure refuses the container that it serves."""
    return context.refusable and failure_policy(name, context.settings) == "fail"


def incomplete_refuses(context: "Context", pending: "Iterable[str]" = ()) -> bool:
    """Return whether a call that cannot be completed, such as after a timeout, refuses its container.

    ``pending`` are the names of the features whose part is not complete.
    """
    general = context.refusable and context.settings.failure_policy == "fail"
    return general or any(refuses(name, context) for name in pending)


def failure_policy(name: str, settings: "Settings") -> str:
    """Return the failure policy of a feature, ``ignore`` or ``fail``: its own, else the general one."""
    policies = FEATURES[name].policies
    usual = "fail" if policies else settings.failure_policy
    for section in policies or (name,):
        policy: str = getattr(settings, section).get("failurePolicy") or ""
        if policy:
            return policy
    return usual
