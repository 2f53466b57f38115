"""The consequences of a feature's failure: the failure policies, and the operator's default for a failed request.

Only a call in which something fails imports this module, and programs that report the consequences.
"""

from .container.author_input import dropped
from .errors import HookError
from .fault_report import as_hook_error, undelivered
from .feature import SKIP, Feature, Step
from .feature_table import FEATURES
from .log import WARNING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .container.running import Running
    from .container.workload import Workload
    from .context import Context
    from .feature import Container
    from .records import MemberRecord
    from .resctrl.locked_key import LockedKey
    from .settings import Settings


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


def default_steps(
    feature: "Feature", workload: "Workload", context: "Context", earlier: "Sequence[Step]", caught: Exception
) -> "list[Step] | None":
    """Return the operator's default in place of a failed plan; None without a default, or if the feature refuses."""
    if not context.settings.has_defaults(feature.name) or refuses(feature.name, context):
        return None
    error = as_hook_error(caught)
    steps = feature.plan(workload.without_annotations(), context, earlier)
    if all(step.action == SKIP for step in steps):
        return None  # there is no default for this container
    _warn(feature.name, workload, error, context)
    return [Step(one.feature, one.action, one.parameters, f"{one.why}; {error}", one.foreign) for one in steps]


def report_dropped(name: str, workload: "Workload", context: "Context") -> None:
    """Log once the wishes of a pod's author that were dropped while a feature was planned.

    Raises:
        WishError: the feature's failure refuses the container.
    """
    error = dropped(workload)
    if error is None:
        return
    if refuses(name, context):
        raise error
    _warn(name, workload, error, context)


def _warn(name: str, workload: "Workload", error: HookError, context: "Context") -> None:
    context.failures.append(error.reason)
    context.log(
        WARNING,
        f"{name} of {workload}: {error}; the default is applied",
        key=workload.key,
        container=workload.id,
        **error.fields(),
    )


class Undelivered(Feature):
    """A feature whose modules are not on this node: what it should do fails by its policy.

    A node has no modules of features that its settings did not enable when they were installed.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def plan(self, workload: "Workload", context: "Context", earlier: "Sequence[Step]" = ()) -> "list[Step]":  # noqa: D102
        raise undelivered(self.name)

    def apply(self, step: Step, container: "Container", locked: "LockedKey", context: "Context") -> None:  # noqa: D102
        raise undelivered(self.name)

    def holds(self, step: Step, container: "Container", context: "Context") -> bool:  # noqa: D102
        raise undelivered(self.name)

    def revert(self, step: Step, member: "MemberRecord", locked: "LockedKey", context: "Context") -> None:  # noqa: D102
        raise undelivered(self.name)

    def adopt(  # noqa: D102
        self, context: "Context", containers: "list[Running]", *, dry_run: bool
    ) -> "tuple[list[str], dict[str, Exception]]":
        if FEATURES[self.name].adopts:  # for others, each container lacks a step
            raise undelivered(self.name)
        return [], {}
