"""Whether a pod's neighbours leave it alone in a window, so that its cost there belongs to its baseline. Pure."""

from collections import Counter

from .constants import QUIET_LOAD, QUIET_SHARE, WAITED
from .neighbours import held_by, moved_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .window import Window


def others_moved(window: "Window", key: str, domain: int) -> float:
    """Return the bytes per second that all but one pod move to a memory domain."""
    return window.together.carried_to((domain,)) - moved_by(window.uses[key], (domain,))


def others_held(window: "Window", key: str, l3: int) -> float:
    """Return the bytes of an L3 that other pods hold."""
    return window.together.held_in((l3,)).whole - held_by(window.uses[key], (l3,))


class Peaks:
    """The most that each memory and each L3 was seen to carry: what a share is of, where no capacity is configured."""

    def __init__(self) -> None:
        self.moved: "dict[int, float]" = {}
        self.held: "dict[int, float]" = {}

    def saw(self, window: "Window") -> None:
        """Take a window into account."""
        for number, moved in window.moved.items():
            self.moved[number] = max(self.moved.get(number, 0.0), moved or 0.0)
        for number, total in window.together.held.items():
            self.held[number] = max(self.held.get(number, 0.0), total.whole)


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
    waited = max(float(use.waited or 0), float(use.reclaimed or 0))
    if waited > WAITED:
        yield "waits", f"it waited for CPUs or memory for {waited:.0%} of the time (limit {WAITED:.0%})"
    for number in window.together.memory[key]:
        load = window.load.get(number)
        if load is not None and load >= QUIET_LOAD:
            yield "load", f"memory domain {number} is loaded to {load:.0%} (limit {QUIET_LOAD:.0%})"
        if load is None and others_moved(window, key, number) > QUIET_SHARE * peaks.moved.get(number, 0.0):
            yield "traffic", f"other traffic is above {QUIET_SHARE:.0%} of the maximum of memory domain {number}"
    for number in window.together.caches[key]:
        whole = min(size for size in (sizes.get(number), peaks.held.get(number)) if size is not None)
        held = others_held(window, key, number)
        if held > QUIET_SHARE * whole:
            yield "cache", f"other pods hold {held / whole:.0%} of L3 {number} (limit {QUIET_SHARE:.0%})"
