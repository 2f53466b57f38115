"""Recognition of the policy in a configuration file of nri-plugins or CRI Resource Manager.

Sources: nri-plugins, pkg/apis/config/v1alpha1 and deployment/helm; cri-resource-manager, sample-configs and
pkg/cri/resource-manager/policy. Go reads CRI Resource Manager's keys in upper and lower case.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from resctrl_hooks.core.config.document import Document, DocumentError, parse_document
from resctrl_hooks.core.config.foreign_file import PLUGINS, foreign
from resctrl_hooks.core.config.plugin_keys import PLUGIN_KEYS, with_our_case
from resctrl_hooks.core.config.problems import Problem, Severity, dotted
from resctrl_hooks.core.config.section import KeyPath

BALLOONS, TOPOLOGY_AWARE = "balloons", "topology-aware"
_KINDS = {"BalloonsPolicy": BALLOONS, "TopologyAwarePolicy": TOPOLOGY_AWARE}
_HELM, _PLAIN = "config", "spec"
_RIGHT = "BalloonsPolicy, TopologyAwarePolicy, Helm's values, and CRI Resource Manager's files are converted"
_BESIDE = {
    "blockio": "declare classes in blockio",
    "dump": "",
    "instrumentation": "see docs/metrics.md",
    "logger": "see `log` in docs/configuration-reference.md",
    "rdt": "declare classes in rdt",
}


@dataclass
class Part:
    """A mapping in a file. ``shown`` is the key path of the text that is the document, ``first`` the line before it."""

    value: dict[str, Any]
    document: Document
    at: KeyPath = ()
    shown: KeyPath = ()
    first: int = 0

    def below(self, *keys: str) -> "Part | None":
        """Return the mapping at a key path in upper or lower case; None without one."""
        value: Any = self.value
        path: list[str | int] = []
        for key in keys:
            name = _spelled(value, key) if isinstance(value, dict) else None
            if name is None:
                return None
            path.append(name)
            value = value[name]
        at = (*self.at, *path)
        return Part(value, self.document, at, self.shown, self.first) if isinstance(value, dict) else None

    def problem(self, path: KeyPath, what: str, right: str = "", severity: Severity = "warning") -> Problem:
        """Return a problem of a value below the mapping."""
        value: Any = self.value
        full = [*self.at]
        for part in path:
            name = (_spelled(value, part) if isinstance(value, dict) and isinstance(part, str) else None) or part
            full.append(name)
            try:
                value = value[name]
            except (LookupError, TypeError):
                value = None
        line = self.first + self.document.line(tuple(full))
        return Problem(what, right, dotted((*self.shown, *full)), line, self.document.path, severity)


@dataclass
class Policy:
    """The policy of a file: its name and its keys, and the CPU classes that are declared beside it.

    ``elsewhere`` are the keys that are not in ``part``. ``problems`` are those of the rest of the file.
    """

    name: str
    part: Part
    classes: Part | None = None
    elsewhere: dict[str, Part] = field(default_factory=dict)
    folded: bool = False
    problems: list[Problem] = field(default_factory=list)

    def problem(self, path: KeyPath, what: str, right: str = "", severity: Severity = "warning") -> Problem:
        """Return a problem of a value of the policy."""
        return self.elsewhere.get(str(path[0]) if path else "", self.part).problem(path, what, right, severity)


def find_policy(document: Document, keys: Mapping[str, Collection[str]]) -> "Policy | Problem":
    """Return the policy of a file, or why it has none. ``keys`` are those of each policy."""
    value = document.value
    if not isinstance(value, dict):
        return _unknown(document)
    whole = Part(value, document)
    kind = value.get("kind")
    if kind == "ConfigMap":
        return _of_config_map(whole)
    if kind is not None:
        part = whole.below(_PLAIN)
        if not isinstance(kind, str) or kind not in _KINDS or part is None:
            return _unknown(document, f": its kind is {str(kind)[:40]!r}", ("kind",))
        return Policy(_KINDS[kind], part, part.below("control", "cpu", "classes"))
    if whole.below("policy") is not None:
        return _of_resource_manager({name: whole.below(name) for name in value}, document)
    part = whole.below(_PLAIN) or whole.below(_HELM) or whole
    name = _by_image(value) if part.at == (_HELM,) else ""
    name = name or next((policy for policy in keys if _has_own_key(policy, part, keys)), "")
    if not name and any(key in known for known in keys.values() for key in part.value):
        name = BALLOONS
    if name not in keys:
        return _unknown(document)
    return Policy(name, part, part.below("control", "cpu", "classes"))


def _has_own_key(policy: str, part: Part, keys: Mapping[str, Collection[str]]) -> bool:
    others = {key for name, known in keys.items() if name != policy for key in known}
    return any(key in keys[policy] and key not in others for key in part.value)


def _by_image(value: dict[str, Any]) -> str:
    """Return the policy by the image in Helm's values; empty without an image."""
    image = value.get("image")
    name = image.get("name") if isinstance(image, dict) else None
    if not isinstance(name, str):
        return ""
    return next((policy for policy in _KINDS.values() if name.endswith(policy)), name)


def _of_config_map(whole: Part) -> "Policy | Problem":
    """Return the policy of CRI Resource Manager's ConfigMap: each of its values is the text of a section."""
    data = whole.below("data")
    parts: dict[str, Part | None] = {}
    for name, text in data.value.items() if data is not None else ():
        path = ("data", name)
        line = whole.document.line(path)
        if name not in (*_BESIDE, "policy", "cpu") or not isinstance(text, str):
            continue
        try:
            inner = parse_document(text.encode(), whole.document.path)
        except DocumentError as error:
            what = f"{error.what} (line {error.line} of this text)"
            return whole.problem(path, what, error.right, "error")
        parts[name] = Part(inner.value, inner, (), path, line) if isinstance(inner.value, dict) else None
    if parts.get("policy") is None:
        return _unknown(whole.document, ": its ConfigMap has no `policy`", ("data",))
    return _of_resource_manager(parts, whole.document)


def _of_resource_manager(parts: "dict[str, Part | None]", document: Document) -> "Policy | Problem":
    named = {name.lower(): part for name, part in parts.items()}
    policy = named["policy"]
    if policy is None:
        return _unknown(document)
    active = policy.value.get(_spelled(policy.value, "active") or "")
    if not isinstance(active, str) or active not in _KINDS.values():
        return policy.problem(("active",), f"the policy {str(active)[:40]!r} has no counterpart here", _RIGHT, "error")
    cpu = named.get("cpu")
    found = Policy(
        active,
        policy.below(active) or Part({}, policy.document, policy.at, policy.shown, policy.first),
        cpu.below("classes") if cpu is not None else None,
        {key: policy for key in ("availableResources", "reservedResources") if _spelled(policy.value, key)},
        folded=True,
    )
    whole = Part(document.value, document)
    for name in parts:
        if name.lower() not in ("policy", "cpu"):
            path = ("data", name) if "data" in document.value else (name,)
            right = _BESIDE.get(name.lower(), "")
            found.problems.append(whole.problem(path, "has no counterpart in `placement`", right))
    return found


def _unknown(document: Document, why: str = "", path: KeyPath = ()) -> Problem:
    """Return the error for a file without a policy; it names the use of a file that is known."""
    other, right = foreign(document.value), _RIGHT
    if other is not None and not path:
        why, path, right = f": it is {other.what}", other.at, other.right or _RIGHT
    elif isinstance(document.value, dict) and with_our_case(document.value)[0].keys() & {*PLUGIN_KEYS}:
        right = PLUGINS
    what = f"this is not a configuration of the balloons policy or the topology-aware policy{why}"
    return Part({}, document).problem(path, what, right, "error")


def _spelled(value: dict[str, Any], key: str) -> str | None:
    """Return a key of a mapping as it is written there."""
    return key if key in value else next((one for one in value if one.lower() == key.lower()), None)


def fold(value: Any, keys: Collection[str]) -> Any:
    """Return a mapping with known keys as they are spelled in ``keys``."""
    names = {key.lower(): key for key in keys}
    return {names.get(key.lower(), key): one for key, one in value.items()} if isinstance(value, dict) else value
