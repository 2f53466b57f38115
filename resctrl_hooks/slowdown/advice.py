"""What helps a slowed pod, by cause, and the commands and configuration keys for it. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from resctrl_hooks.node.slowdown import causes
from resctrl_hooks.node.slowdown.causes import SUPPORTED

ROOT = "the root class"
Cause = Mapping[str, Any]
"""A cause as `record_of` returns it."""
_PROOF = "prove it: `resctrl-hook diagnose {name} --experiment`"
_ELSEWHERE = "or run one of them on another node"


def advice(found: Sequence[Cause], name: str, classes: Mapping[str, str], names: Mapping[str, str]) -> list[str]:
    """Return a line for each remedy.

    Args:
        found: the pod's causes.
        name: the pod.
        classes: the RDT class of each pod by key; empty for the root class.
        names: the names of pods by key.
    """
    lines: list[str] = []
    for cause in found:
        if cause["state"] == SUPPORTED:
            lines += _REMEDIES[cause["cause"]](cause, name, classes, names)
    return list(dict.fromkeys(lines))


def _by_class(cause: Cause, classes: Mapping[str, str], names: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key in [one["key"] for one in cause["pods"]]:
        found.setdefault(classes.get(key, ""), []).append(names.get(key, key))
    return found


def _bandwidth(cause: Cause, name: str, classes: Mapping[str, str], names: Mapping[str, str]) -> list[str]:
    lines = []
    for rdt_class, pods in _by_class(cause, classes, names).items():
        if rdt_class:
            lines.append(
                f"a smaller MB value for class {rdt_class} ({', '.join(pods)}): `rdt.classes.{rdt_class}.MB`, then "
                "`resctrl-hook config apply` and `resctrl-hook rdt apply`"
            )
        else:
            lines.append(f"an RDT class with an MB value for {', '.join(pods)}: `rdt.classes` and `rdt.defaults`")
    lines.append("or let the guard do it when it is needed: `rdt.guard`")
    return [*lines, _PROOF.format(name=name), _ELSEWHERE]


def _cache(cause: Cause, name: str, classes: Mapping[str, str], names: Mapping[str, str]) -> list[str]:
    lines = []
    for rdt_class, pods in _by_class(cause, classes, names).items():
        if rdt_class:
            lines.append(f"fewer L3 ways for class {rdt_class} ({', '.join(pods)}): `rdt.classes.{rdt_class}.L3`")
        else:
            lines.append(f"an RDT class with few L3 ways for {', '.join(pods)}: `rdt.classes` and `rdt.defaults`")
    return [*lines, f"or exclusive L3 ways for {name}: `rdt.classes` with `exclusive: true`", _ELSEWHERE]


def _limit(cause: Cause, name: str, *_: object) -> list[str]:
    return [f"a higher CPU limit for {name} (`resources.limits.cpu`), or fewer threads in it"]


def _contention(cause: Cause, name: str, *_: object) -> list[str]:
    return [f"CPUs of its own for {name}: `placement`", f"or a larger CPU request of {name} (`resources.requests.cpu`)"]


def _frequency(*_: object) -> list[str]:
    return ["look for the node's power or temperature limit; `resctrl-hook top` shows which pods use the power"]


def _memory(cause: Cause, name: str, *_: object) -> list[str]:
    return [f"a higher memory limit for {name} (`resources.limits.memory`), or another memory class (`classes`)"]


def _own(cause: Cause, name: str, *_: object) -> list[str]:
    return [f"compare {name} with its last version: its own work has changed"]


_REMEDIES: dict[str, Callable[..., list[str]]] = {
    causes.BANDWIDTH: _bandwidth,
    causes.CACHE: _cache,
    causes.LIMIT: _limit,
    causes.CONTENTION: _contention,
    causes.FREQUENCY: _frequency,
    causes.MEMORY: _memory,
    causes.OWN: _own,
}
