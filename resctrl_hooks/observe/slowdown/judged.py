"""The diagnoses of a node's sampling process, read from its file: no sampling, no rights on the node's processes."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from resctrl_hooks.core.inventory.pod_names import PodNames
from resctrl_hooks.core.inventory.records import classes_of
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.observe.node.slowdown.status import read_status

from .advice import facts_of
from .diagnosis import Diagnosis, diagnosis


class Judged(NamedTuple):
    """The last diagnoses of all pods, and their time."""

    time: datetime
    items: list[Diagnosis]


def judged(context: Context, names: PodNames, has_namespace: Callable[[str], bool] = lambda _: True) -> Judged | None:
    """Return the diagnoses, the worst first; None if no process judges this node's pods.

    Args:
        context: the node.
        names: the names of its pods.
        has_namespace: whether pods of a namespace are requested. Pods of others still have their names as causes.

    Raises:
        LedgerError: the records are unreadable.
    """
    status = read_status(context)
    if status is None:
        return None
    keys = context.ledger.keys()
    names.learn(keys)
    facts = facts_of(context, {key: names.of(key).whole for key in keys}, classes_of(context))
    try:
        found = [
            diagnosis(facts._replace(key=key), pod)
            for key, pod in status["pods"].items()
            if key in facts.names and has_namespace(names.of(key).namespace)
        ]
        when = datetime.fromtimestamp(status["time"], UTC)
    except (KeyError, TypeError, ValueError):
        return None  # of another version, until the process is restarted
    return Judged(when, sorted(found, key=lambda one: -(one.ratio or 0.0)))
