"""Priorities of pods on nodes with fewer RMIDs than pods: the rules of ``monitoring.priority``."""

from ..container.resources import qos_of
from ..errors import InputError
from ..names import matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..container.running import Container
    from ..container.workload import Workload
    from ..context import Context
    from ..records import PodRecord

    Rules = list[dict[str, Any]]

_FIRST, _FACTOR, _MASK = 2166136261, 16777619, 0xFFFFFFFF  # FNV-1a; `hash` differs from process to process


def priority_in(context: "Context", container: "Container", record: "PodRecord | None") -> int:
    """Return a container's priority by the active rules.

    A running container keeps the priority in its key's ``record``, if the same rules gave it.
    """
    rules, claim = context.settings.groups.get("priority") or [], (record or {}).get("claim")
    if claim and container.born is not None and claim["rules"] == version_of(rules):
        return claim["priority"]
    return priority_of(container.planned(context.settings), rules) if rules else 0


def priority_of(workload: "Workload", rules: "Rules") -> int:
    """Return the priority of a workload: that of the first matching rule, 0 for none.

    A rule matches if all of its conditions do. Unreadable labels match no rule: such a pod loses its rank, not its
    group.
    """
    for rule in rules:
        namespaces, qos, labels = rule.get("namespaces"), rule.get("qos"), rule.get("labels")
        if namespaces and not any(matches(pattern, workload.namespace) for pattern in namespaces):
            continue
        if qos and qos_of(workload) != qos:
            continue
        if labels and not _has_labels(workload, labels):
            continue
        return int(rule["value"])
    return 0


def _has_labels(workload: "Workload", required: "dict[str, str]") -> bool:
    from ..container.labels import pod_labels  # few rules use labels

    try:
        labels = pod_labels(workload)
    except InputError:
        return False
    return all(labels.get(name) == value for name, value in required.items())


def version_of(rules: "Rules") -> int:
    """Return a number that identifies the rules, so that a recorded priority is known to follow them."""
    number = _FIRST
    for letter in repr(rules).encode():
        number = ((number ^ letter) * _FACTOR) & _MASK
    return number
