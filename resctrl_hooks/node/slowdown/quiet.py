"""Whether a pod's neighbours leave it alone in a window, so that its cost there belongs to its baseline. Pure."""

from .constants import QUIET_LOAD, QUIET_SHARE, WAITED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

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
    use = window.uses[key]
    if use.traffic is None or use.price is None:
        return False
    if max(use.waited or 0.0, use.reclaimed or 0.0) > WAITED:
        return False
    for number in memory_of(use):
        load = window.load.get(number)
        if load is not None and load >= QUIET_LOAD:
            return False
        others = others_moved(window, key, number)
        if load is None and others > QUIET_SHARE * peaks.moved.get(number, 0.0):
            return False
    for number in caches_of(use):
        whole = min(size for size in (sizes.get(number), peaks.held.get(number)) if size is not None)
        if others_held(window, key, number) > QUIET_SHARE * whole:
            return False
    return True
