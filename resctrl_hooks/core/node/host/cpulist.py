"""Sets of CPUs or memory nodes as integers, one bit each, and their conversion to the kernel's list format."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_CPUS = 1 << 14
"""More CPUs than any node has: the kernel's own limit is 8192 (CONFIG_NR_CPUS)."""


def parse_list(text: str) -> int:
    """Return the set of a list such as ``0-3,8``.

    Raises:
        ValueError: it is invalid.
    """
    found = 0
    for part in text.strip().split(","):
        if not part:
            continue
        if "-" in part:
            low, high = map(int, part.split("-", 1))
        else:
            low = high = int(part)
        if not 0 <= low <= high < MOST_CPUS:
            raise ValueError(f"{part[:40]!r} is not a range of CPUs")
        found |= (1 << high + 1) - (1 << low)
    return found


def format_list(mask: int) -> str:
    """Return the kernel's list of a set; empty for the empty set."""
    parts = []
    place = 0
    while mask:
        skip = (mask & -mask).bit_length() - 1
        mask >>= skip
        place += skip
        run = (~mask & mask + 1).bit_length() - 1
        parts.append(str(place) if run == 1 else f"{place}-{place + run - 1}")
        mask >>= run
        place += run
    return ",".join(parts)


def parse_mask(text: str) -> int:
    """Return the set of a mask such as ``ff,00000001``: hexadecimal words of 32 bits, the highest first.

    Raises:
        ValueError: it is invalid.
    """
    found = 0
    for word in text.strip().split(","):
        found = found << 32 | int(word, 16)
    if not 0 <= found < 1 << MOST_CPUS:
        raise ValueError(f"{text[:40]!r} is not a mask of CPUs")
    return found


def format_mask(mask: int) -> str:
    """Return the kernel's mask of a set."""
    words = [f"{mask & 0xFFFFFFFF:x}"]
    while mask >> 32:
        words[0] = words[0].rjust(8, "0")
        mask >>= 32
        words.insert(0, f"{mask & 0xFFFFFFFF:x}")
    return ",".join(words)


def members(mask: int) -> "list[int]":
    """Return the numbers in a set, in order."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def union(sets: "Iterable[int]") -> int:
    """Return the union of sets."""
    found = 0
    for one in sets:
        found |= one
    return found


def lowest(mask: int) -> int:
    """Return the lowest number in a set; -1 for the empty set."""
    return (mask & -mask).bit_length() - 1


def count(mask: int) -> int:
    """Return the number of members (int.bit_count needs Python 3.10)."""
    return bin(mask).count("1")
