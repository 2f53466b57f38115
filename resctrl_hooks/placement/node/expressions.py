"""Expressions about containers, as the policies of nri-plugins have them: a key, an operator, and values.

Source: nri-plugins, docs/resource-policy/policy/topology-aware.md and balloons.md. Pure functions of a container's
facts: a mapping from keys such as ``name``, ``pod/qosclass`` and ``pod/labels/app`` to values.
"""

from ...core.node.names import matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ...core.node.container.author_input import Budget
    from ...core.node.records import MemberRecord

OPERATORS = {
    "Equals": 1,
    "NotEqual": 1,
    "In": None,
    "NotIn": None,
    "Exists": 0,
    "NotExist": 0,
    "AlwaysTrue": 0,
    "Matches": 1,
    "MatchesNot": 1,
    "MatchesAny": None,
    "MatchesNone": None,
}
"""The operators, each with its number of values; None for any number."""
KEYS = frozenset(
    ("id", "name", "namespace", "qosclass", *(f"pod/{key}" for key in ("name", "namespace", "qosclass", "uid")))
)
LABELS, POD_LABELS = "labels/", "pod/labels/"
"""The beginnings of keys of labels: the container's, which the kubelet sets, and the pod's."""
_SHORTEST_JOINT = 4
_MOST_JOINED = 8
_FIXED = 20
"""Steps of work for any expression."""
_NO_SEPARATORS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/."
_NEGATIONS = {
    "NotEqual": "Equals",
    "NotIn": "In",
    "NotExist": "Exists",
    "MatchesNot": "Matches",
    "MatchesNone": "MatchesAny",
}


def keys_in(key: str) -> "tuple[list[str], str]":
    """Return the keys in a joint key such as ``:pod/name:name``, and the separator of their values."""
    if len(key) < _SHORTEST_JOINT or key[0] != ":":
        return [key.strip("/")], ""
    between_keys = between_values = ":"
    rest = key[1:]
    if rest[0] not in _NO_SEPARATORS and rest[1] not in _NO_SEPARATORS:
        between_keys, between_values, rest = rest[0], rest[1], rest[2:]
    return [one.strip("/") for one in rest.split(between_keys)], between_values


def unknown_key(key: str) -> str:
    """Return the first part of a key that is unknown here, or a key of too many parts; empty if all are known."""
    keys = keys_in(key)[0]
    if len(keys) > _MOST_JOINED:
        return f"{key[:40]} … with more than {_MOST_JOINED} parts"
    for one in keys:
        label = next((start for start in (LABELS, POD_LABELS) if one.startswith(start) and one != start), "")
        if one not in KEYS and not label:
            return one or key
    return ""


def references(text: str) -> "list[tuple[str, str]]":
    """Return the plain text and the key after it of each ``${key}`` in a text; the last key is empty.

    Raises:
        ValueError: a reference has no end.
    """
    found: "list[tuple[str, str]]" = []
    while True:
        plain, dollar, rest = text.partition("${")
        if not dollar:
            return [*found, (plain, "")]
        key, brace, text = rest.partition("}")
        if not brace or not key:
            raise ValueError(f"a reference without an end: ${{{rest[:40]}")
        found.append((plain, key))


def needs_pod_labels(keys: "Iterable[str]") -> bool:
    """Return whether the facts for some keys include labels of the pod."""
    return any(one.startswith(POD_LABELS) for key in keys for one in keys_in(key)[0])


def facts_of(id_: str, key: str, record: "MemberRecord", qos: str, labels: "Mapping[str, str]") -> "dict[str, str]":
    """Return a container's facts. ``record`` has its names, and ``labels`` are its pod's."""
    namespace, pod, name = record.get("namespace", ""), record.get("pod", ""), record.get("container", "")
    kubelets = {
        "io.kubernetes.container.name": name,
        "io.kubernetes.pod.name": pod,
        "io.kubernetes.pod.namespace": namespace,
        "io.kubernetes.pod.uid": key if key != id_ else "",
    }
    facts = {
        "id": id_,
        "name": name,
        "namespace": namespace,
        "qosclass": qos,
        "pod/name": pod,
        "pod/namespace": namespace,
        "pod/qosclass": qos,
        "pod/uid": key,
        **{f"{LABELS}{label}": value for label, value in kubelets.items()},
        **{f"{POD_LABELS}{label}": value for label, value in labels.items()},
    }
    return {fact: value for fact, value in facts.items() if value or fact.startswith(POD_LABELS)}


def value_of(key: str, facts: "Mapping[str, str]") -> "str | None":
    """Return the value of a key; None if none of its parts exists."""
    keys, separator = keys_in(key)
    values = [facts.get(one) for one in keys]
    return None if all(value is None for value in values) else separator.join(value or "" for value in values)


def expand(text: str, facts: "Mapping[str, str]") -> str:
    """Return a text with the values of its references; an unknown one is empty.

    Raises:
        ValueError: a reference has no end.
    """
    return "".join(plain + (value_of(key, facts) or "" if key else "") for plain, key in references(text))


def holds(expression: "Mapping[str, Any]", facts: "Mapping[str, str]", budget: "Budget | None" = None) -> bool:
    """Return whether an expression is true for a container. An author's expression has a ``budget``.

    Raises:
        KeyError, TypeError, AttributeError: it is invalid.
        WishError: the budget is spent.
    """
    operator, values = expression["operator"], expression.get("values") or []
    if operator == "AlwaysTrue":
        return True
    if operator in _NEGATIONS:
        return not holds({**expression, "operator": _NEGATIONS[operator]}, facts, budget)
    value = value_of(expression["key"], facts)
    if budget is not None:
        budget.spend(_work(expression["key"], values, value or "", patterns=operator.startswith("Matches")))
    if value is None or operator == "Exists":
        return value is not None
    if operator.startswith("Matches"):
        return any(matches(pattern, value) for pattern in values)
    return value in values or "*" in values


def _work(key: str, values: "Iterable[str]", value: str, *, patterns: bool) -> int:
    """Return an upper limit of the steps of an expression: a pattern can be tried at each place of the value."""
    steps = _FIXED + len(key)
    for one in values:
        steps += (len(one) + 1) * (len(value) + 1) if patterns and "*" in one else 1 + len(one) * patterns
    return steps
