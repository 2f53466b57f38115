"""The pods that have performance counters: which are chosen, and which have them now, in windows spread over them."""

from typing import NamedTuple

from ......core.node.log import NOTICE, WARNING
from ......core.node.names import matches
from ...constants import SLOTS
from .counters import PASSING, OneCpuError, PerfCounters, PerfError, PodGoneError, TooManyError
from .node_fact import NodeFact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from .counters import PerfCount

    Log = Callable[[int, str], None]


BY_TRAFFIC, BY_WAITS = "by memory traffic", "by its waits alone"
"""How pods without performance counters are compared, with and without counters of resctrl."""


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


def turn_of(keys: "Sequence[str]", most: int, number: int) -> "list[str]":
    """Return the pods of a window: at most ``most`` pods take turns, a `SLOTS`th part of ``most`` at a time. Pure.

    So few pods as one part are watched in every window.
    """
    keys = keys[:most]
    size = min(-(-most // SLOTS), len(keys))
    return [keys[(number * size + place) % len(keys)] for place in range(size)]


class Watched:
    """Performance counters of some pods.

    Args:
        sys_path: where sysfs is mounted.
        cgroups: returns the folders of a pod's cgroups.
        log: logs a line with its priority. Each kind of failure is logged once.
        enabled: False: no pod is ever watched.
        otherwise: by what pods without counters are compared.
    """

    def __init__(
        self,
        sys_path: str,
        cgroups: "Callable[[str], list[str]]",
        log: "Log",
        *,
        enabled: bool = True,
        otherwise: str = BY_TRAFFIC,
    ) -> None:
        self._sys_path = sys_path
        self._cgroups = cgroups
        self._log = log
        self._otherwise = otherwise
        self._logged: "set[str]" = set()
        self._open: "dict[str, PerfCounters]" = {}
        self._off = "" if enabled else "slowdown.perf is false"
        self._lacking = NodeFact()

    @property
    def why_not(self) -> str:
        """Why this node has no performance counters; empty: it has, as far as known."""
        return self._off or self._lacking.reason

    def __contains__(self, key: object) -> bool:
        return key in self._open

    def turn(self, keys: "Sequence[str]") -> None:
        """Watch these pods and no others."""
        for key in [key for key in self._open if key not in keys]:
            self._open.pop(key).close()
        for key in keys:
            if self.why_not:
                return
            if key not in self._open:
                self._add(key)

    def _add(self, key: str) -> None:
        """Open a pod's counters if it can have any now."""
        try:
            self._open[key] = PerfCounters(self._cgroups(key), self._sys_path)
            self._lacking.granted()
        except PodGoneError as error:
            self._log_once(NOTICE, "gone", f"{error}: pod {key} ended; other pods are still watched")
        except TooManyError as error:
            self._log_once(WARNING, "many", f"{error}: pod {key} is not watched; others that fit are")
        except PerfError as error:
            if error.errno in PASSING or isinstance(error, OneCpuError):
                self._log_once(NOTICE, "passing", f"{error}: pod {key} is tried again at its next turn")
            elif error.errno:
                self._log_once(NOTICE, "refused", f"{error}: pod {key} is compared {self._otherwise}; others are tried")
                if self._lacking.refused(key, str(error)):
                    self._log_once(NOTICE, str(error), f"{error}; all pods are compared {self._otherwise} for an hour")

    def read(self, key: str) -> "tuple[PerfCount | None, object]":
        """Return a pod's counts and what they are counts of; None without counters."""
        counters = self._open.get(key)
        if counters is None:
            return None, None
        try:
            return counters.read(), counters
        except (PerfError, OSError) as error:
            self._open.pop(key).close()
            self._log_once(NOTICE, "lost", str(error))
            return None, None

    def close(self) -> None:
        """Close all counters."""
        self.turn([])

    def _log_once(self, priority: int, kind: str, text: str) -> None:
        if kind not in self._logged:
            self._logged.add(kind)
            self._log(priority, text)
