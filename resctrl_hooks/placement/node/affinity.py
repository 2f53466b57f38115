"""Affinities of a container to others on the node, by annotation, as topology-aware has them.

The others are those with a record. An invalid annotation, or one that needs too much work, pulls nothing. Source:
nri-plugins, docs/resource-policy/policy/topology-aware.md.
"""

import posix

from ...core.node.container.annotation_yaml import LONGEST, parse_yaml
from ...core.node.container.author_input import Budget, WishError, accepts, drop
from ...core.node.container.labels import pod_labels
from ...core.node.container.recorded import recorded_workload
from ...core.node.errors import HookError
from .entries import needs_of, record_of
from .expressions import OPERATORS, facts_of, holds, needs_pod_labels, unknown_key
from .policy import AFFINITIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...core.node.container.workload import Workload
    from ...core.node.context import Context
    from ...core.node.records import MemberRecord
    from .policy import Request

    Rule = tuple[dict[str, Any], dict[str, Any], int]
    """Scope, match and weight."""

_HEAVIEST = 1000
_LONGEST_WEIGHT = 8  # characters
_MOST = 64
_EXPRESSION = 30
"""Steps of work for any expression."""
_RECORD = 400
"""Steps of work for one record."""
_BYTES = 8
"""Bytes of a bundle that cost one step."""
_LARGEST_BUNDLE = 1 << 18
"""The labels of a container with a larger bundle do not count: others pay for the work."""


def add_affinities(request: "Request", workload: "Workload", context: "Context") -> None:
    """Set the weights by which other containers attract this one."""
    others = _Others(request.id, context)
    pulls: "dict[str, int]" = {}
    for name, sign in zip(AFFINITIES, (1, -1)):
        text = workload.annotations.get(name, "")
        if not text or not accepts(workload, name, text, LONGEST):
            continue
        try:
            for container, weight in _weights(rules_of(workload, name, sign), others).items():
                pulls[container] = pulls.get(container, 0) + weight
        except WishError as error:
            drop(workload, f"annotation {name}", str(error))
    request.pulls += sorted([container, weight] for container, weight in pulls.items() if weight)


def rules_of(workload: "Workload", name: str, sign: int) -> "list[Rule]":
    """Return the rules of one of the two annotations for a container.

    Raises:
        WishError: the annotation is invalid.
    """
    try:
        found = parse_yaml(workload.annotations.get(name, ""))
        if found is None:
            return []
        containers = {one: _list(rules, f"value of {one!r}") for one, rules in _mapping(found, "annotation").items()}
        pod = {"key": "pod/uid", "operator": "Equals", "values": [workload.key]}
        if all(isinstance(one, str) for others in containers.values() for one in others):
            return _symmetric(containers, workload.container, pod, sign)
        return [_rule(_mapping(one, "rule"), pod, sign) for one in containers.get(workload.container, [])[:_MOST]]
    except ValueError as error:
        raise WishError(
            f"invalid annotation: {str(error)[:200]}", hint="write it as the topology-aware policy documents it"
        ) from error


def _symmetric(found: "dict[str, list[str]]", container: str, pod: "dict[str, Any]", sign: int) -> "list[Rule]":
    """Return the rules of the short form ``{container: [others]}``, which holds in both directions."""
    others = {*found.get(container, []), *(name for name, names in found.items() if container in names)}
    match = {"key": "name", "operator": "In", "values": sorted(others)}
    return [(pod, match, sign)] if others else []


def _rule(rule: "dict[str, Any]", pod: "dict[str, Any]", sign: int) -> "Rule":
    weight_text = _text(rule.get("weight"), "weight")[:_LONGEST_WEIGHT]
    if weight_text and not (weight_text[1:] if weight_text[0] in "+-" else weight_text).isdecimal():
        raise ValueError(f"the weight {weight_text!r} is not a whole number")
    weight = max(-_HEAVIEST, min(int(weight_text or 0) or 1, _HEAVIEST)) * sign
    if rule.get("match") is None:
        raise ValueError("a rule has no 'match'")
    return _checked(rule.get("scope") or pod), _checked(rule["match"]), weight


def _checked(given: "Any") -> "dict[str, Any]":
    expression = _mapping(given, "expression")
    operator, key = _text(expression.get("operator"), "operator"), _text(expression.get("key"), "key")
    values = _list(expression.get("values"), "values")
    if operator not in OPERATORS:
        raise ValueError(f"unknown operator {operator[:40]!r}")
    if operator == "AlwaysTrue":
        return {"key": "", "operator": operator}
    if unknown_key(key):
        raise ValueError(f"unknown key {unknown_key(key)!r}")
    if not all(isinstance(value, str) for value in values):
        raise ValueError("values are not a list of texts")
    return {"key": key, "operator": operator, "values": values}


def _mapping(value: "Any", what: str) -> "dict[str, Any]":
    if not isinstance(value, dict):
        raise ValueError(f"{what} should be a mapping, not {_kind(value)}")  # noqa: TRY004  # as parse_yaml
    return value


def _list(value: "Any", what: str) -> "list[Any]":
    if value is not None and not isinstance(value, list):
        raise ValueError(f"{what[:80]} should be a list, not {_kind(value)}")
    return value or []


def _text(value: "Any", what: str) -> str:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{what} should be a text, not {_kind(value)}")
    return value or ""


def _kind(value: "Any") -> str:
    """Return a short description of a value of an annotation."""
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    return "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else "empty"


def _weights(rules: "list[Rule]", others: "_Others") -> "dict[str, int]":
    """Return the weights of other containers.

    Raises:
        WishError: the rules need too much work.
    """
    budget = Budget()
    found: "dict[str, int]" = {}
    for container in others.ids() if rules else ():
        for scope, match, weight in rules:
            if _holds(scope, container, others, budget) and _holds(match, container, others, budget):
                found[container] = found.get(container, 0) + weight
    return found


def _holds(expression: "dict[str, Any]", container: str, others: "_Others", budget: Budget) -> bool:
    budget.spend(_EXPRESSION + len(expression["key"]))
    facts = others.facts(container, budget, labelled=needs_pod_labels([expression["key"]]))
    return bool(facts) and holds(expression, facts, budget)


class _Others:
    """The recorded containers of the node, and their facts. Labels are read when an expression needs them."""

    def __init__(self, but: str, context: "Context") -> None:
        self._but = but
        self._context = context
        self._records: "dict[str, MemberRecord | None]" = {}
        self._plain: "dict[str, dict[str, str]]" = {}
        self._labelled: "dict[str, dict[str, str]]" = {}

    def ids(self) -> "list[str]":
        """Return the ids of all other containers."""
        return [one for one in self._context.ledger.containers() if one != self._but]

    def facts(self, container: str, budget: Budget, *, labelled: bool) -> "dict[str, str]":
        """Return the facts of a container; none if its record or its labels cannot be read.

        Raises:
            WishError: the budget is spent.
        """
        known = self._labelled if labelled else self._plain
        if container not in known:
            budget.spend(_RECORD)
            if container not in self._records:
                self._records[container] = record_of(container, self._context)
            record = self._records[container]
            known[container] = self._read(container, record, budget, labelled=labelled) if record is not None else {}
        return known[container]

    def _read(self, container: str, record: "MemberRecord", budget: Budget, *, labelled: bool) -> "dict[str, str]":
        needs = needs_of(record)
        qos = needs["request"].get("qos", "") if needs else ""
        labels: "dict[str, str]" = {}
        if labelled:
            try:
                _spend_file(record.get("bundle", ""), budget)
                workload = recorded_workload(container, record.get("pid", 0), record, self._context.settings)
                if workload.labels is None:
                    _spend_file(workload.sandbox_folder, budget)
                labels = pod_labels(workload)
            except WishError:
                raise
            except (HookError, OSError, ValueError):
                return {}
        return facts_of(container, record["key"], record, qos, labels)


def _spend_file(folder: str, budget: Budget) -> None:
    """Count the work of a bundle's ``config.json``.

    Raises:
        OSError, ValueError: it is missing or too large.
        WishError: the budget is spent.
    """
    if folder:
        size = posix.stat(f"{folder}/config.json").st_size
        if size > _LARGEST_BUNDLE:
            raise ValueError("too large")
        budget.spend(size // _BYTES)
