"""Affinities of a container to others on the node, by annotation, as topology-aware has them.

The others are those with a record. Source: nri-plugins, docs/resource-policy/policy/topology-aware.md.
"""

from ...container.annotation_yaml import parse_yaml
from ...container.labels import pod_labels
from ...container.recorded import recorded_workload
from ...errors import HookError
from .entries import needs_of, record_of
from .expressions import OPERATORS, facts_of, holds, needs_pod_labels, unknown_key
from .policy import AFFINITIES, PlacementError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...container.workload import Workload
    from ...context import Context
    from .policy import Request

    Rule = tuple[dict[str, Any], dict[str, Any], int]
    """Scope, match and weight."""

_HEAVIEST = 1000
_MOST = 64


def add_affinities(request: "Request", workload: "Workload", context: "Context") -> None:
    """Set the weights by which other containers attract this one.

    Raises:
        PlacementError: an annotation is invalid.
    """
    rules = [rule for name, sign in zip(AFFINITIES, (1, -1)) for rule in rules_of(workload, name, sign)]
    if not rules:
        return
    labelled = needs_pod_labels(rule["key"] for scope, match, _ in rules for rule in (scope, match))
    for container in context.ledger.containers():
        facts = _facts_of(container, context, labelled=labelled) if container != request.id else {}
        weight = sum(weight for scope, match, weight in rules if facts and holds(scope, facts) and holds(match, facts))
        if weight:
            request.pulls.append([container, weight])
    request.pulls.sort()


def rules_of(workload: "Workload", name: str, sign: int) -> "list[Rule]":
    """Return the rules of one of the two annotations for a container.

    Raises:
        PlacementError: the annotation is invalid.
    """
    try:
        found = parse_yaml(workload.annotations.get(name, ""))
        if found is None:
            return []
        pod = {"key": "pod/uid", "operator": "Equals", "values": [workload.key]}
        if all(isinstance(one, str) for others in found.values() for one in others):
            return _symmetric(found, workload.container, pod, sign)
        rules = []
        for rule in (found.get(workload.container) or [])[:_MOST]:
            weight = int(rule.get("weight") or 0) or 1
            weight = max(-_HEAVIEST, min(weight, _HEAVIEST)) * sign
            rules.append((_checked(rule.get("scope") or pod), _checked(rule["match"]), weight))
        return rules
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlacementError(
            f"invalid annotation {name}: {error}", hint="write it as the topology-aware policy documents it"
        ) from error


def _symmetric(found: "dict[str, list[str]]", container: str, pod: "dict[str, Any]", sign: int) -> "list[Rule]":
    """Return the rules of the short form ``{container: [others]}``, which holds in both directions."""
    others = {*found.get(container, []), *(name for name, names in found.items() if container in names)}
    match = {"key": "name", "operator": "In", "values": sorted(others)}
    return [(pod, match, sign)] if others else []


def _checked(expression: "dict[str, Any]") -> "dict[str, Any]":
    operator, key, values = expression["operator"], expression.get("key") or "", expression.get("values") or []
    if operator not in OPERATORS:
        raise ValueError(f"unknown operator {operator!r}")
    if operator != "AlwaysTrue" and unknown_key(key):
        raise ValueError(f"unknown key {unknown_key(key)!r}")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError("values are not a list of texts")
    return {"key": key, "operator": operator, "values": values}


def _facts_of(container: str, context: "Context", *, labelled: bool) -> "dict[str, str]":
    """Return the facts of a recorded container; none if its record or its labels cannot be read."""
    record = record_of(container, context)
    if record is None:
        return {}
    needs = needs_of(record)
    qos = needs["request"].get("qos", "") if needs else ""
    try:
        workload = recorded_workload(container, record.get("pid", 0), record, context.settings) if labelled else None
        return facts_of(container, record["key"], record, qos, pod_labels(workload) if workload else {})
    except HookError:
        return {}
