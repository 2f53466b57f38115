"""Ways of a cache: masks of declared values, and the ways that exclusive classes leave to others."""

from .capabilities import CacheCapability, Capabilities

_WHOLE = 100
_LEVEL = 2  # L3, L3CODE and L3DATA are the same ways (resctrl.rst, "Cache Allocation", CDP)


def level(resource: str) -> str:
    """Return the cache of a resource: ``L3`` of ``L3CODE``."""
    return resource[:_LEVEL]


class Ways:
    """The ways of each cache and domain that no exclusive class has."""

    def __init__(self, can: Capabilities) -> None:
        self._full = {level(name): cache.full for name, cache in can.caches.items()}
        self._taken: dict[tuple[str, int], int] = {}

    def take(self, resource: str, domain: int, mask: int) -> None:
        """Give ways to an exclusive class."""
        at = level(resource), domain
        self._taken[at] = self._taken.get(at, 0) | mask

    def free(self, resource: str, domain: int) -> int:
        """Return the mask of the free ways."""
        return self._full[level(resource)] & ~self._taken.get((level(resource), domain), 0)

    def are_taken(self, resource: str, domain: int) -> bool:
        """Return whether an exclusive class has any."""
        return bool(self._taken.get((level(resource), domain)))


def is_share(value: object) -> bool:
    """Return whether a declared value is a share such as ``60%``, whose place in the cache is free."""
    return isinstance(value, str) and value.endswith("%") and "-" not in value


def mask_of(value: str, can: CacheCapability, free: int, *, down: bool = False) -> tuple[int, str]:
    """Return the mask of a declared value, and the reason if this cache cannot provide it.

    A share is the lowest free ways that are adjacent, as many as `_ends` returns; ``down`` rounds it down, so that
    shares of 100 % together never need more ways than there are.
    """
    if is_share(value):
        width = can.full.bit_length()
        first, last = _ends(value, width)
        count = max(can.min_bits, int(value.removesuffix("%")) * width // _WHOLE if down else last - first + 1)
        # Ways that the hardware shares make a class less exclusive, so they are the last choice.
        mask = (_lowest(free & ~can.shareable, count) if down else 0) or _lowest(free, count)
        if not mask:
            return 0, f"{value} needs {count} adjacent ways; exclusive classes leave {free:x}"
        return mask, ""
    mask = _range(value, can) if value.endswith("%") else int(value, 16)
    if mask & ~can.full:
        return 0, f"mask {value} is wider than this cache's {can.full:x}"
    if mask.bit_count() < can.min_bits:
        return 0, f"mask {value} has {mask.bit_count()} bits; the minimum is {can.min_bits}"
    if not can.gaps and (mask + (mask & -mask)) & mask:
        return 0, f"mask {value} has gaps, which this processor does not support"
    return mask, ""


def largest_run(mask: int) -> int:
    """Return the longest run of adjacent bits, the lowest one of equals."""
    best = 0
    while mask:
        rest = mask & (mask + (mask & -mask))
        run = mask & ~rest
        best = run if run.bit_count() > best.bit_count() else best
        mask = rest
    return best


def _lowest(free: int, count: int) -> int:
    """Return the lowest ``count`` adjacent bits; 0 if there are none."""
    ones = (1 << count) - 1
    places = range(free.bit_length() - count + 1)
    return next((ones << place for place in places if (free >> place) & ones == ones), 0)


def _range(value: str, can: CacheCapability) -> int:
    width = can.full.bit_length()
    first, last = _ends(value, width)
    # Too few ways grow downwards, then upwards.
    first = max(0, min(first, last + 1 - can.min_bits))
    last = min(width - 1, max(last, first + can.min_bits - 1))
    return (2 << last) - (1 << first)


def _ends(value: str, width: int) -> tuple[int, int]:
    """Return the first and the last way of ``51-100%``; ``50%`` is ``1-50%``, and ``0-50%`` too.

    Per cents count from 1 to 100, and a range has each way in which one of its per cents begins.
    Source: goresctrl, pkg/rdt/config.go, catPctRangeAllocation.Overlay.
    """
    first, _, last = value.removesuffix("%").rpartition("-")
    return (max(1, int(first or 1)) - 1) * width // _WHOLE, (int(last) - 1) * width // _WHOLE
