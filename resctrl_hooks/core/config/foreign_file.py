"""Recognition of other programs' files in place of a configuration, and the way from each to a configuration.

Sources: nri-plugins, deployment/helm and pkg/apis/config; goresctrl, pkg/rdt/config.go and pkg/blockio;
cri-resource-manager, sample-configs.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from resctrl_hooks.core.parts import clause

from .document import Document
from .problems import Problem, dotted
from .section import KeyPath

_CONVERT = clause("policy")
_POLICIES = ("balloons", "topology-aware")
_SHOWN = 40
_POLICY_KEYS = frozenset(("balloonTypes", "pinCPU", "pinMemory", "reservedResources", "availableResources"))
PLUGINS = "the files of resctrl-mon, memtierd, memory-qos and memory-policy are valid as config.yaml as they are"


@dataclass(frozen=True)
class Foreign:
    """A file's kind, the place of the key that shows it, and the way to a configuration."""

    what: str
    at: KeyPath
    right: str
    shared: Collection[str] | None = ()
    """Keys of a configuration that such a file may have too; None for any."""

    def problem(self, document: Document) -> Problem:
        """Return the error of a document that is such a file."""
        return Problem(f"this is {self.what}", self.right, dotted(self.at), document.line(self.at), document.path)


def foreign(value: Any, ours: Collection[str] = ()) -> Foreign | None:
    """Return the kind of another program's file; None for any other value.

    A file with keys of ``ours``, those of a configuration, is a configuration unless such files have these keys too.
    """
    keys = {*ours}.intersection(value) if isinstance(value, dict) else set()
    kinds = _kinds(value) if isinstance(value, dict) else iter(())
    return next((one for one in kinds if one.shared is None or keys <= {*one.shared}), None)


def _kinds(value: dict[Any, Any]) -> Iterator[Foreign]:
    kind = value.get("kind")
    if isinstance(kind, str) and "apiVersion" in value:
        yield _of_object(kind, value)
    if isinstance(value.get("partitions"), dict):
        right = "declare each class of its `partitions` in rdt.classes (docs/classes.md)"
        yield Foreign("goresctrl's configuration of RDT classes", ("partitions",), right)
    if (name := _spelled(value, "classes")) and isinstance(value[name], dict):
        right = "put its `classes` into the section `blockio`, with `enabled: true`"
        yield Foreign("goresctrl's configuration of block I/O classes", (name,), right, ("classes",))
    if (name := _spelled(value, "policy")) and isinstance(value[name], dict):
        yield Foreign("CRI Resource Manager's configuration", (name,), _CONVERT, ("blockio", "rdt"))
    if isinstance(value.get("image"), dict) or isinstance(value.get("config"), dict):
        yield _of_chart(value)
    if name := next((name for name in value if name in _POLICY_KEYS), ""):
        yield Foreign("a configuration of the balloons policy or the topology-aware policy", (name,), _CONVERT)


def _of_object(kind: str, value: dict[Any, Any]) -> Foreign:
    if kind in ("BalloonsPolicy", "TopologyAwarePolicy"):
        return Foreign(f"a {kind} of nri-plugins", ("kind",), _CONVERT, None)
    data = value.get("data")
    texts = [name for name, text in data.items() if isinstance(text, str)] if isinstance(data, dict) else []
    if kind == "ConfigMap" and "policy" in texts:
        return Foreign("CRI Resource Manager's ConfigMap", ("data", "policy"), _CONVERT, None)
    right = f"write the text of `data.{texts[0]}` into the file" if kind == "ConfigMap" and texts else ""
    return Foreign(f"a Kubernetes object of the kind {kind[:_SHOWN]}", ("kind",), right, None)


def _of_chart(value: dict[Any, Any]) -> Foreign:
    """Return the kind of a chart's values: the chart has the plugin's configuration in ``config``, or apart."""
    image, config = value.get("image"), value.get("config")
    shared = None if isinstance(image, dict) and "nri" in value else ("nri",)
    if not isinstance(config, dict):
        return Foreign("a Helm chart's values, which are for Kubernetes only", ("image",), PLUGINS, shared)
    name = str(image.get("name", "")) if isinstance(image, dict) else ""
    is_policy = name.endswith(_POLICIES) or not _POLICY_KEYS.isdisjoint(config)
    right = _CONVERT if is_policy else "write what is below `config` into the file"
    return Foreign("a Helm chart's values", ("config",), right, shared)


def _spelled(value: dict[Any, Any], key: str) -> str:
    """Return a key of a mapping as it is written there; empty without it."""
    return next((name for name in value if isinstance(name, str) and name.lower() == key), "")
