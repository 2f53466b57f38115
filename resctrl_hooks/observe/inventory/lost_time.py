"""What slowed pods lost in the sampled time, by culprit or by namespace, as `diagnose --by` prints it."""

from collections.abc import Iterable

from pydantic import Field

from resctrl_hooks.core.inventory.base import Record
from resctrl_hooks.observe.node.slowdown.lost import outside_namespace

LIST = "LostTimeList"
"""The kind of a document of lost time."""
NO_NAMESPACE = "(none)"
"""Stands for the namespace of a pod without one in a table."""


class LostPart(Record):
    """A part of what one pod lost."""

    cause: str
    culprit: str = Field(description="A pod, or tasks outside pods; empty for a cause without culprits.")
    outside: bool = Field(default=False, description="Whether the culprit is no pod.")
    seconds: float = Field(description="Time that the pod lost.")
    cpu_seconds: float = Field(description="The same, times the CPUs that the pod used.")


class LostTime(Record):
    """What a pod lost to a culprit by a cause; by namespace, both are namespaces and the cause is empty."""

    culprit: str = Field(description="A pod, tasks outside pods, or (others), which are not named.")
    victim: str
    cause: str = ""
    seconds: float = Field(description="Time that the victim lost in the sampled time.")
    cpu_seconds: float = Field(description="The same, times the CPUs that the victim used.")


def by_culprit(found: Iterable[tuple[str, Iterable[LostPart]]]) -> list[LostTime]:
    """Return what each pod lost to each culprit, the culprit of the largest sum first.

    Args:
        found: the names of pods, and what each lost.
    """
    rows = [
        LostTime(culprit=one.culprit, victim=name, cause=one.cause, seconds=one.seconds, cpu_seconds=one.cpu_seconds)
        for name, parts in found
        for one in parts
        if one.culprit
    ]
    return ordered(rows)


def by_namespace(found: Iterable[tuple[str, Iterable[LostPart]]]) -> list[LostTime]:
    """Return what the pods of each namespace lost to those of each namespace; the argument is as for `by_culprit`."""
    sums: dict[tuple[str, str], LostTime] = {}
    for name, parts in found:
        for one in parts:
            if one.culprit:
                culprit, victim = _namespace(one), namespace_of(name)
                sum_ = sums.setdefault(
                    (culprit, victim), LostTime(culprit=culprit, victim=victim, seconds=0.0, cpu_seconds=0.0)
                )
                sum_.seconds += one.seconds
                sum_.cpu_seconds += one.cpu_seconds
    return ordered(sums.values())


def namespace_of(name: str) -> str:
    """Return the namespace of a pod's name; empty for Podman's."""
    return name.partition("/")[0] if "/" in name else ""


def _namespace(one: LostPart) -> str:
    if one.outside:
        return outside_namespace(one.culprit)
    return namespace_of(one.culprit)


def matrix(rows: Iterable[LostTime]) -> tuple[list[str], dict[str, list[float | None]]]:
    """Return the culprits, and by victim its lost seconds to each of them; None where it lost nothing."""
    found = {(one.victim, one.culprit): one.seconds for one in rows}
    culprits = list(dict.fromkeys(culprit for _, culprit in found))
    return culprits, {
        victim: [found.get((victim, culprit)) for culprit in culprits] for victim in sorted({of for of, _ in found})
    }


def ordered(rows: Iterable[LostTime]) -> list[LostTime]:
    """Return rows with the culprit of the largest sum first, and its victims by their losses."""
    rows = list(rows)
    sums: dict[str, float] = {}
    for one in rows:
        sums[one.culprit] = sums.get(one.culprit, 0.0) + one.seconds
    return sorted(rows, key=lambda one: (-sums[one.culprit], one.culprit, -one.seconds, one.victim))
