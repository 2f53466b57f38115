"""Culprits for people: many small ones of the same owner or namespace are one entry."""

from collections.abc import Callable, Sequence

from resctrl_hooks.observe.node.slowdown.baseline.workload import owner_of

from .diagnosis import CausePod

MANY = 4
"""Pods of one owner or namespace that are one entry."""


def grouped(pods: Sequence[CausePod]) -> list[CausePod]:
    """Return the culprits, the largest first; `MANY` pods of the same owner, or of a namespace, are one of them."""
    found = list(pods)
    for of, called in ((_owner, "{number} pods of {name}"), (_namespace, "{number} pods of namespace {name}")):
        found = _united(found, of, called)
    return sorted(found, key=lambda one: -one.share)


def _united(pods: list[CausePod], of: Callable[[str], str], called: str) -> list[CausePod]:
    groups: dict[str, list[CausePod]] = {}
    for one in pods:
        groups.setdefault("" if one.outside else of(one.name), []).append(one)
    found: list[CausePod] = []
    for name, some in groups.items():
        if not name or len(some) < MANY:
            found += some
        else:
            text = called.format(number=len(some), name=name)
            found.append(CausePod(name=text, share=sum(one.share for one in some), correlation=None, outside=True))
    return found


def _owner(name: str) -> str:
    namespace, _, pod = name.rpartition("/")
    return f"{namespace}/{owner_of(pod)}" if namespace else ""


def _namespace(name: str) -> str:
    return name.rpartition("/")[0]
