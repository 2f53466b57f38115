"""Whether a pod's neighbours leave it alone in a window, so that its cost there belongs to its baseline. Pure."""

from collections import Counter

from .constants import QUIET_LOAD, QUIET_SHARE, WAITED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .window import Use, Window

_LEAST_PART = 0.1  # of a pod's traffic or cache, in a domain that is its own


def memory_of(use: "Use") -> "list[int]":
    """Return the memory domains of a pod's traffic."""
    whole = sum((use.traffic or {}).values())
    return [number for number, moved in (use.traffic or {}).items() if whole and moved >= _LEAST_PART * whole]


def caches_of(use: "Use") -> "list[int]":
    """Return the L3 domains that hold a pod's lines."""
    whole = sum(use.occupancy.values())
    return [number for number, held in use.occupancy.items() if whole and held >= _LEAST_PART * whole]


def others_moved(window: "Window", key: str, domain: int) -> float:
    """Return the bytes per second that all but one pod move to a memory domain."""
    own = window.uses[key].traffic or {}
    whole = window.moved.get(domain)
    pods = sum((use.traffic or {}).get(domain, 0.0) for other, use in window.uses.items() if other != key)
    return pods if whole is None else max(pods, whole - own.get(domain, 0.0))


def others_held(window: "Window", key: str, l3: int) -> float:
    """Return the bytes of an L3 that other pods hold."""
    return sum(use.occupancy.get(l3, 0.0) for other, use in window.uses.items() if other != key)


class Peaks:
    """The most that each memory and each L3 was seen to carry: what a share is of, where no capacity is configured."""

    def __init__(self) -> None:
        self.moved: "dict[int, float]" = {}
        self.held: "dict[int, float]" = {}

    def saw(self, window: "Window") -> None:
        """Take a window into account."""
        for number, moved in window.moved.items():
            self.moved[number] = max(self.moved.get(number, 0.0), moved or 0.0)
        held: "dict[int, float]" = {}
        for use in window.uses.values():
            for number, part in use.occupancy.items():
                held[number] = held.get(number, 0.0) + part
        for number, whole in held.items():
            self.held[number] = max(self.held.get(number, 0.0), whole)


def is_quiet(window: "Window", key: str, peaks: Peaks, sizes: "Mapping[int, float]") -> bool:
    """Return whether a window's sample of a pod belongs to its baseline.

    Args:
        window: the node.
        key: the pod.
        peaks: what was seen so far, with this window.
        sizes: bytes of each L3, as far as known.
    """
    return next(_disturbances(window, key, peaks, sizes), None) is None


def disturbance(windows: "Sequence[Window]", key: str, peaks: Peaks, sizes: "Mapping[int, float]") -> str:
    """Return how many samples of a pod were not quiet, and the most frequent reason; empty if all were quiet.

    Args:
        windows: the node; all have the pod.
        key: the pod.
        peaks: what was seen so far, with these windows.
        sizes: bytes of each L3, as far as known.
    """
    found = [dict(_disturbances(window, key, peaks, sizes)) for window in windows]
    kinds = Counter(kind for one in found for kind in one)
    if not kinds:
        return ""
    kind = kinds.most_common(1)[0][0]
    text = next(one[kind] for one in reversed(found) if kind in one)
    return f"{sum(map(bool, found))} of {len(found)} samples were not quiet; most often: {text}"


def _disturbances(
    window: "Window", key: str, peaks: Peaks, sizes: "Mapping[int, float]"
) -> "Iterator[tuple[str, str]]":
    """Yield each condition of a quiet sample that a window does not meet: its kind, and a text with the values."""
    use = window.uses[key]
    if use.traffic is None or use.price is None:
        yield "work", "the pod did too little work, or was not counted"
        return
    waited = max(use.waited or 0.0, use.reclaimed or 0.0)
    if waited > WAITED:
        yield "waits", f"it waited for CPUs or memory for {waited:.0%} of the time (limit {WAITED:.0%})"
    for number in memory_of(use):
        load = window.load.get(number)
        if load is not None and load >= QUIET_LOAD:
            yield "load", f"memory domain {number} is loaded to {load:.0%} (limit {QUIET_LOAD:.0%})"
        if load is None and others_moved(window, key, number) > QUIET_SHARE * peaks.moved.get(number, 0.0):
            yield "traffic", f"other traffic is above {QUIET_SHARE:.0%} of the maximum of memory domain {number}"
    for number in caches_of(use):
        whole = min(size for size in (sizes.get(number), peaks.held.get(number)) if size is not None)
        held = others_held(window, key, number)
        if held > QUIET_SHARE * whole:
            yield "cache", f"other pods hold {held / whole:.0%} of L3 {number} (limit {QUIET_SHARE:.0%})"
