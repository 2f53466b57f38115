"""What a scope's cgroup is given, told to systemd too, which would undo it at the next ``systemctl daemon-reload``.

One of systemd's programs takes longer than all the rest of a hook. So the first step that tells systemd of a
container's scope tells it what the other steps will need as well, and those find it told.
"""

from ..errors import DeadlineError, HookError
from ..host import systemd
from ..log import WARNING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..feature import Container, Feature, Step
    from ..host.cgroup import Leaf


def collect(steps: "list[tuple[Feature, Step]]", container: "Container", leaf: "Leaf", context: "Context") -> None:
    """Notes the properties of steps that are about to be done: `tell_own` tells them all at once.

    What can't be told now is left out: applying the step says what is wrong.
    """
    for feature, step in steps:
        try:
            leaf.untold.update(feature.properties(step, container, context))
        except DeadlineError:
            raise
        except Exception:  # noqa: BLE001, S112  # no feature's trouble is another's
            continue


def tell_own(leaf: "Leaf", properties: "dict[str, str]", context: "Context", **fields: "str | int") -> None:
    """As `tell`, of a container's own scope, together with what was collected for its other steps."""
    if properties.items() <= leaf.told.items():
        return
    others, leaf.untold = leaf.untold, {}
    leaf.told.update(tell(leaf.unit, properties, context, others, **fields))


def tell(
    unit: str,
    properties: "dict[str, str]",
    context: "Context",
    others: "dict[str, str] | None" = None,
    **fields: "str | int",
) -> "dict[str, str]":
    """Tell systemd of what a unit's cgroup is given, so that a daemon-reload keeps it; return what it took.

    If it refuses, the values hold until a daemon-reload, which is worth a warning with these fields and no more. With
    one property that it doesn't know it refuses all, so then the ``others`` are left to those whose they are.
    """
    if not systemd.available(context.settings.cgroup_path):
        return {}
    together = {**(others or {}), **properties}
    patience = systemd.patience(context.settings.deadline)
    try:
        try:
            systemd.set_properties(unit, together, patience)
        except systemd.UnitError:
            if together == properties:
                raise
            systemd.set_properties(unit, properties, patience)
            return properties
    except DeadlineError:
        raise
    except HookError as error:
        what = f"{error}; the values hold only until the next systemctl daemon-reload"
        context.log(WARNING, what, reason=error.reason, **fields)
        return {}
    return together
