"""What helps a slowed pod, by cause, and the commands and configuration keys for it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from resctrl_hooks.observe.node.slowdown import causes
from resctrl_hooks.observe.node.slowdown.causes import SUPPORTED

Cause = Mapping[str, Any]
"""A cause as `record_of` returns it."""
_ELSEWHERE = "or run one of them on another node"
_OF_CLASS = {
    causes.BANDWIDTH: (
        "a smaller MB value for class {rdt_class} ({pods}): `rdt.classes.{rdt_class}.MB`, then "
        "`resctrl-hook config apply` and `resctrl-hook rdt apply`"
    ),
    causes.CACHE: "fewer L3 ways for class {rdt_class} ({pods}): `rdt.classes.{rdt_class}.L3`",
}
"""By cause, the remedy for each class of the pods with a part in it."""
_OF_ROOT_CLASS = {
    causes.BANDWIDTH: "an RDT class with an MB value for {pods}: `rdt.classes` and `rdt.defaults`",
    causes.CACHE: "an RDT class with few L3 ways for {pods}: `rdt.classes` and `rdt.defaults`",
}
_OF_POD = {
    causes.BANDWIDTH: (
        "or let the guard do it when it is needed: `rdt.guard`",
        "prove it: `resctrl-hook diagnose {name} --experiment`",
        _ELSEWHERE,
    ),
    causes.CACHE: ("or exclusive L3 ways for {name}: `rdt.classes` with `exclusive: true`", _ELSEWHERE),
    causes.LIMIT: ("a higher CPU limit for {name} (`resources.limits.cpu`), or fewer threads in it",),
    causes.CONTENTION: (
        "CPUs of its own for {name}: `placement`",
        "or a larger CPU request of {name} (`resources.requests.cpu`)",
    ),
    causes.FREQUENCY: (
        "look for the node's power or temperature limit; `resctrl-hook top` shows which pods use the power",
    ),
    causes.MEMORY: (
        "a higher memory limit for {name} (`resources.limits.memory`), or another memory class (`classes`)",
    ),
    causes.OWN: ("compare {name} with its last version: its own work has changed",),
}
"""By cause, the remedies for the slowed pod."""


def advice(found: Sequence[Cause], name: str, classes: Mapping[str, str], names: Mapping[str, str]) -> list[str]:
    """Return a line for each remedy.

    Args:
        found: the pod's causes.
        name: the pod.
        classes: the RDT class of each pod by key; empty for the root class.
        names: the names of pods by key.
    """
    lines: list[str] = []
    for cause in [one for one in found if one["state"] == SUPPORTED]:
        kind = cause["cause"]
        if kind in _OF_CLASS:
            for rdt_class, pods in _by_class(cause, classes, names).items():
                text = (_OF_CLASS if rdt_class else _OF_ROOT_CLASS)[kind]
                lines.append(text.format(rdt_class=rdt_class, pods=", ".join(pods)))
        lines += [text.format(name=name) for text in _OF_POD[kind]]
    return list(dict.fromkeys(lines))


def _by_class(cause: Cause, classes: Mapping[str, str], names: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key in [one["key"] for one in cause["pods"]]:
        found.setdefault(classes.get(key, ""), []).append(names.get(key, key))
    return found
