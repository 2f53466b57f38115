"""Values of a scope's cgroup sent to systemd, which would otherwise undo them at ``systemctl daemon-reload``.

One systemd program takes longer than the rest of a hook, so the first step that sends properties of a scope also sends
those of the other steps.
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
    """Collect the properties of pending steps; `send_own` sends them in one call.

    Properties that cannot be sent now are left out: applying the step reports the error.
    """
    for feature, step in steps:
        try:
            leaf.pending.update(feature.properties(step, container, context))
        except DeadlineError:
            raise
        except Exception:  # noqa: BLE001, S112  # no feature's trouble is another's
            continue


def send_own(leaf: "Leaf", properties: "dict[str, str]", context: "Context", **fields: "str | int") -> None:
    """Send properties of a container's own scope, together with those collected for its other steps."""
    if properties.items() <= leaf.sent.items():
        return
    others, leaf.pending = leaf.pending, {}
    leaf.sent.update(send(leaf.unit, properties, context, others, **fields))


def send(
    unit: str,
    properties: "dict[str, str]",
    context: "Context",
    others: "dict[str, str] | None" = None,
    **fields: "str | int",
) -> "dict[str, str]":
    """Send the properties of a unit to systemd, so that a daemon-reload keeps them; return the accepted ones.

    A refusal is only a warning with these fields, because the values hold until a daemon-reload. systemd refuses all
    properties if it does not know one; then the ``others`` are left to their own steps.
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
        what = f"{error}; the values are lost at the next systemctl daemon-reload"
        context.log(WARNING, what, reason=error.reason, **fields)
        return {}
    return together
