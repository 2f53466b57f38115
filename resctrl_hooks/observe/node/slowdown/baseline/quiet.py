"""Whether a pod's neighbours leave it alone in a window, so that its cost there belongs to its baseline. Pure."""

from collections import Counter

from ..constants import QUIET_LOAD, QUIET_SHARE, WAITED
from ..evidence.neighbours import held_by, moved_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..evidence.window import Window
    from .baseline import Baseline


def others_moved(window: "Window", key: str, domain: int) -> float:
    """Return the bytes per second that all but one pod move to a memory domain."""
    return window.together.carried_to((domain,)) - moved_by(window.uses[key], (domain,))


def others_held(window: "Window", key: str, l3: int) -> float:
    """Return the bytes of an L3 that other pods hold."""
    return window.together.held_in((l3,)).whole - held_by(window.uses[key], (l3,))


def held_beside(window: "Window", key: str) -> float:
    """Return the other pods' part of what pods hold in a pod's L3."""
    l3 = window.together.caches[key]
    whole = window.together.held_in(l3).whole
    return (whole - held_by(window.uses[key], l3)) / whole if whole else 0.0


def surroundings(window: "Window", key: str) -> "dict[str, float | None]":
    """Return a pod's neighbours as a baseline has them: ``load``, ``beside`` and ``held`` of its `MEANS`."""
    domains = window.together.memory[key]
    loads = [load for number in domains if (load := window.load.get(number)) is not None]
    beside = window.together.carried_to(domains) - moved_by(window.uses[key], domains)
    return {"load": max(loads, default=None), "beside": beside, "held": held_beside(window, key)}


class Peaks:
    """The most that each memory and each L3 was seen to carry: what a share is of, where no capacity is known.

    Args:
        moved: bytes per second of each memory before the first window.
    """

    def __init__(self, moved: "Mapping[int, float] | None" = None) -> None:
        self.moved: "dict[int, float]" = dict(moved or {})
        self.held: "dict[int, float]" = {}

    def saw(self, window: "Window") -> None:
        """Take a window into account."""
        for number, moved in window.moved.items():
            self.moved[number] = max(self.moved.get(number, 0.0), moved or 0.0)
        for number, total in window.together.held.items():
            self.held[number] = max(self.held.get(number, 0.0), total.whole)


def is_quiet(
    window: "Window", key: str, peaks: Peaks, sizes: "Mapping[int, float]", baseline: "Baseline | None"
) -> bool:
    """Return whether a window's sample of a pod belongs to its baseline.

    Args:
        window: the node.
        key: the pod.
        peaks: what was seen so far, with this window.
        sizes: bytes of each L3, as far as known.
        baseline: what is known of its workload.
    """
    return next(_disturbances(window, key, peaks, sizes, baseline), None) is None


def disturbance(
    windows: "Sequence[Window]", key: str, peaks: Peaks, sizes: "Mapping[int, float]", baseline: "Baseline | None"
) -> str:
    """Return how many samples of a pod were not quiet, and the most frequent reason; empty if all were quiet.

    Args:
        windows: the node; all have the pod.
        key: the pod.
        peaks: what was seen so far, with these windows.
        sizes: bytes of each L3, as far as known.
        baseline: what is known of its workload.
    """
    found = [dict(_disturbances(window, key, peaks, sizes, baseline)) for window in windows]
    kinds = Counter(kind for one in found for kind in one)
    if not kinds:
        return ""
    kind = kinds.most_common(1)[0][0]
    text = next(one[kind] for one in reversed(found) if kind in one)
    return f"{sum(map(bool, found))} of {len(found)} samples were not quiet; most often: {text}"


def _disturbances(
    window: "Window", key: str, peaks: Peaks, sizes: "Mapping[int, float]", baseline: "Baseline | None"
) -> "Iterator[tuple[str, str]]":
    """Yield each condition of a quiet sample that a window does not meet: its kind, and a text with the values.

    Waits for CPUs do not change the cost of the work that is done between them. Others may hold the cache that the pod
    does not need: they disturb it if it lost what it had.
    """
    use = window.uses[key]
    if use.price is None or (use.traffic is None and window.counted):
        yield "work", "the pod did too little work, or was not counted"
        return
    waited = float(use.reclaimed or 0)
    if waited > WAITED:
        yield "waits", f"it waited for memory for {waited:.0%} of the time (limit {WAITED:.0%})"
    for number in window.together.memory[key]:
        load = window.load.get(number)
        beside = others_moved(window, key, number)
        if load is not None and load >= QUIET_LOAD and beside > QUIET_SHARE * window.together.carried_to((number,)):
            yield "load", f"memory domain {number} is loaded to {load:.0%} (limit {QUIET_LOAD:.0%})"
        if load is None and beside > QUIET_SHARE * peaks.moved.get(number, 0.0):
            yield "traffic", f"other traffic is above {QUIET_SHARE:.0%} of the maximum of memory domain {number}"
    if baseline is None or not baseline.lost_cache(use):
        return
    for number in window.together.caches[key]:
        whole = sizes.get(number) or peaks.held.get(number) or 1.0
        held = others_held(window, key, number)
        if held > QUIET_SHARE * whole:
            part = f"{held / whole:.0%} of L3 {number} (limit {QUIET_SHARE:.0%})"
            yield "cache", f"other pods hold {part}, and it lost its part"
