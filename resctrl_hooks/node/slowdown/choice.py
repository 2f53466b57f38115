"""Which pods get performance counters, the most important first. Pure."""

from typing import NamedTuple

from ..names import matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


class Candidate(NamedTuple):
    """A pod: ``name`` is NAMESPACE/POD, ``slowed`` whether its last verdict needs attention."""

    key: str
    name: str
    classes: "tuple[str, ...]"
    slowed: bool
    cpu: float


def chosen(
    pods: "Sequence[Candidate]", patterns: "Sequence[str]", protected: "Collection[str]", most: int
) -> "list[str]":
    """Return at most ``most`` keys: pods of the configured patterns, or else those of protected classes first.

    Without patterns, slowed pods follow, then the others, those with the most CPU time first: a pod needs quiet samples
    before it is slowed.
    """
    if patterns:
        pods = [pod for pod in pods if any(matches(pattern, pod.name) for pattern in patterns)]

    def order(pod: Candidate) -> "tuple[bool, bool, float, str]":
        return not any(name in protected for name in pod.classes), not pod.slowed, -pod.cpu, pod.key

    return [pod.key for pod in sorted(pods, key=order)[:most]]
