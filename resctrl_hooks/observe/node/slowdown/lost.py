"""The time that slowed pods lost, by cause and by culprit.

In a window of S seconds at a ratio of R, the work of S/R quiet seconds is done, so the rest of S is lost. The causes'
factors multiply to the ratio, so each cause has a part by the logarithm of its factor. Each culprit has a part of its
cause by its share of what all others use. Lost CPU-seconds are lost seconds times the CPUs in use.
"""

from math import log
from typing import NamedTuple

from .case import SMALL
from .causes.cause import SUPPORTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from .causes.cause import Cause
    from .verdict import Verdict

    Names = Callable[[str], tuple[str, str, str]]
    """Returns namespace, pod and container of a key."""

UNEXPLAINED = "unknown"
"""Stands for the cause of a slowdown without a supported one."""
OTHERS, OUTSIDE_PODS = "(others)", "(outside pods)"
"""Stand for culprits that are not named, and for the namespace of tasks outside pods."""
_NOISE = 0.05  # of the ratio's logarithm: what the factors leave of it below this is the error of their estimates
_MOST_CULPRITS = 8  # of a pod's cause
_MOST_NAMES = 1024
_MOST_PAIRS = 200  # of namespaces, each of which is a series of the metrics


class Part(NamedTuple):
    """A part of what a pod lost; an empty ``culprit`` stands for a cause without one, such as its own limit."""

    cause: str
    culprit: str
    """The key of a pod; of others their name."""
    outside: bool
    """Whether the culprit is no pod."""
    part: float
    """Of 1."""


def lost_seconds(seconds: float, ratio: "float | None") -> float:
    """Return how much of some seconds of work at a ratio is lost."""
    return seconds * (1 - 1 / ratio) if ratio is not None and ratio > 1 else 0.0


def parts_of(ratio: float, causes: "Iterable[Cause]") -> "list[Part]":
    """Return the parts of the supported causes and of their culprits, which add up to 1.

    What the known factors leave of the ratio belongs to the supported causes without a factor, or to none.
    """
    found = [one for one in causes if one.state == SUPPORTED]
    whole = log(max(ratio, 1.0))
    weights = {one.cause: log(max(1.0, one.factor)) for one in found if one.factor is not None}
    rest = whole - sum(weights.values())
    if rest > _NOISE * whole or not any(weights.values()):
        without = [one.cause for one in found if one.factor is None] or [UNEXPLAINED]
        weights.update({cause: max(rest, _NOISE * whole) / len(without) for cause in without})
    sum_ = sum(weights.values())
    if not sum_:
        return [Part(UNEXPLAINED, "", outside=False, part=1.0)]
    culprits = {one.cause: one.pods for one in found}
    parts: "list[Part]" = []
    for cause, weight in weights.items():
        part, pods = weight / sum_, culprits.get(cause, ())
        if not pods:
            parts.append(Part(cause, "", outside=False, part=part))
            continue
        shares = max(1.0, sum(pod.share for pod in pods))
        parts += [Part(cause, pod.key, pod.outside, part * pod.share / shares) for pod in pods]
        parts.append(Part(cause, OTHERS, outside=True, part=part * (1 - sum(pod.share for pod in pods) / shares)))
    return [one for one in parts if one.part > 0]


def outside_namespace(culprit: str) -> str:
    """Return what stands for the namespace of a culprit that is no pod."""
    return OTHERS if culprit == OTHERS or culprit.startswith(SMALL) else OUTSIDE_PODS


class LostTime:
    """The sums of a process. Of ended pods nothing stays but the sums of their namespaces.

    Args:
        names: the names of pods.
    """

    def __init__(self, names: "Names") -> None:
        self._names = names
        self._known: "dict[str, tuple[str, str, str]]" = {}  # also of culprits that have ended
        self._pods: "dict[str, dict[tuple[str, str, bool], list[float]]]" = {}
        self._pairs: "dict[tuple[str, str], list[float]]" = {}

    def keep(self, keys: "Iterable[str]") -> None:
        """Forget all other pods."""
        self._pods = {key: self._pods[key] for key in keys if key in self._pods}

    def add(
        self, key: str, seconds: float, cpus: "float | None", verdict: "Verdict", causes: "Sequence[Cause]"
    ) -> None:
        """Add some seconds in which a pod was slowed and used so many CPUs."""
        lost = lost_seconds(seconds, verdict.ratio)
        victim = self._name(key)[0]
        for one in parts_of(verdict.ratio, causes) if lost and verdict.ratio else ():
            more = lost * one.part, lost * one.part * (cpus or 0.0)
            namespace, name = self._named(one)
            _add(_place(self._pods.setdefault(key, {}), (one.cause, name, one.outside)), more)
            if one.culprit:
                _add(self._pair((victim, namespace)), more)

    def _name(self, key: str) -> "tuple[str, str, str]":
        found = self._names(key)
        if not found[0]:
            return self._known.get(key, found)
        if len(self._known) >= _MOST_NAMES:
            self._known.clear()
        self._known[key] = found
        return found

    def _named(self, one: Part) -> "tuple[str, str]":
        """Return the namespace and the name of a culprit."""
        if one.outside or not one.culprit:
            return outside_namespace(one.culprit), one.culprit
        namespace, pod, container = self._name(one.culprit)
        return namespace, "/".join(filter(None, (namespace, pod or container)))

    def _pair(self, pair: "tuple[str, str]") -> "list[float]":
        for one in (pair, (pair[0], OTHERS)):
            if one in self._pairs or len(self._pairs) < _MOST_PAIRS:
                return self._pairs.setdefault(one, [0.0, 0.0])
        return self._pairs.setdefault((OTHERS, OTHERS), [0.0, 0.0])

    def by_cause(self, key: str) -> "dict[str, float]":
        """Return the seconds that a pod lost by each cause."""
        found: "dict[str, float]" = {}
        for (cause, _, _), (seconds, _) in self._pods.get(key, {}).items():
            found[cause] = found.get(cause, 0.0) + seconds
        return found

    def of(self, key: str) -> "list[dict[str, Any]]":
        """Return what a pod lost, the largest part first."""
        found = sorted(self._pods.get(key, {}).items(), key=lambda item: -item[1][0])
        return [
            {"cause": cause, "culprit": name, "outside": outside, **_rounded(seconds, cpu)}
            for (cause, name, outside), (seconds, cpu) in found
        ]

    def by_namespace(self) -> "list[dict[str, Any]]":
        """Return what the pods of each namespace lost to culprits of another or the same one."""
        return [
            {"namespace": victim, "culpritNamespace": culprit, **_rounded(seconds, cpu)}
            for (victim, culprit), (seconds, cpu) in self._pairs.items()
        ]


def _place(sums: "dict[tuple[str, str, bool], list[float]]", place: "tuple[str, str, bool]") -> "list[float]":
    """Return the sums of a culprit; beyond `_MOST_CULPRITS` of a cause, those of all others."""
    if place not in sums and place[1] and sum(cause == place[0] for cause, _, _ in sums) >= _MOST_CULPRITS:
        place = place[0], OTHERS, True
    return sums.setdefault(place, [0.0, 0.0])


def _rounded(seconds: float, cpu: float) -> "dict[str, float]":
    """Return sums with milliseconds: the file is written in each window."""
    return {"seconds": round(seconds, 3), "cpuSeconds": round(cpu, 3)}


def _add(sums: "list[float]", more: "tuple[float, float]") -> None:
    sums[0] += more[0]
    sums[1] += more[1]
