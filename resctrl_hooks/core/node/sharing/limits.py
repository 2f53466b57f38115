"""Limits on the RMIDs of a namespace, independent of priorities: pod authors choose their labels."""

from ..errors import NoRMIDsError
from ..names import matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context


class NamespaceLimitError(NoRMIDsError):
    """The namespace holds as many RMIDs as `monitoring.limits` permits."""

    reason = "namespace-limit"
    by_rule = True
    hint = "the workload is not monitored until a pod of its namespace ends; see monitoring.limits"


def check_limit(key: str, namespace: str, context: "Context") -> None:
    """Check that a key without a group may have one.

    Hooks that run at the same moment may count before either has its group, so a namespace can exceed its limit by the
    number of such hooks.

    Raises:
        NamespaceLimitError: its namespace has reached its limit.
    """
    most = limit_of(namespace, context)
    if most is None:
        return
    held = 0
    for other in context.ledger.keys():  # noqa: SIM118  # a method of the ledger
        record = context.ledger.read_pod(other) if other != key else None
        if record is not None and record.get("namespace", "") == namespace:
            held += len(record.get("groups", {}))
    if held >= most:
        name = namespace or '""'  # as the setting has it
        raise NamespaceLimitError(f"namespace {name} holds {held} RMIDs of at most {most}")


def limit_of(namespace: str, context: "Context") -> "int | None":
    """Return the maximum number of RMIDs of a namespace; None without a limit."""
    limits: "dict[str, int]" = context.settings.groups.get("limits") or {}
    return next((number for pattern, number in limits.items() if matches(pattern, namespace)), None)
