"""`schemata`, `mode` and `size`: what is written to them, what they show, and what the kernel refuses.

Source: the kernel's fs/resctrl/ctrlmondata.c and its documentation (filesystems/resctrl), each refusal seen on a 7.2.
"""

import errno
from collections.abc import Iterable
from typing import NamedTuple

from .errors import RefusedError
from .group import Group
from .machine import (
    BANDWIDTH_GRAN,
    CACHE_BYTES,
    CBM_BITS,
    FULL_MASK,
    MIN_BANDWIDTH,
    MIN_CBM_BITS,
    SHAREABLE_BITS,
    Machine,
)

_HEX = frozenset("0123456789abcdefABCDEF")
_UINT = 1 << 32
_ULONG = 1 << 64


class Staged(NamedTuple):
    """What one write to `schemata` asks for, by domain; it is applied as a whole or not at all."""

    l3: dict[int, int]
    mb: dict[int, int]


def overlaps(mask: int, domain: int, others: Iterable[Group], *, exclusive: bool) -> bool:
    """Whether other CTRL groups use ways of `mask`: exclusive ones only, or any of them and the hardware itself."""
    if not exclusive and mask & SHAREABLE_BITS:
        return True
    return any(mask & other.l3[domain] for other in others if not exclusive or other.mode == "exclusive")


def _mask(text: str, domain: int, group: Group, others: list[Group]) -> int:
    digits = text.removeprefix("0x").removeprefix("0X")
    if not digits or not _HEX.issuperset(digits) or int(digits, 16) >= _ULONG:
        raise RefusedError(errno.EINVAL, f"Non-hex character in the mask {text}")
    mask = int(digits, 16)
    if mask < MIN_CBM_BITS or mask > FULL_MASK:
        raise RefusedError(errno.EINVAL, "Mask out of range")
    lowest = mask & -mask
    if (mask + lowest) & mask:
        raise RefusedError(errno.EINVAL, f"The mask {mask:x} has non-consecutive 1-bits")
    if overlaps(mask, domain, others, exclusive=True):
        raise RefusedError(errno.EINVAL, "Overlaps with exclusive group")
    if group.mode == "exclusive" and overlaps(mask, domain, others, exclusive=False):
        raise RefusedError(errno.EINVAL, "Overlaps with other group")
    return mask


def _per_cent(text: str) -> int:
    digits = text.removeprefix("+")
    if not digits.isascii() or not digits.isdigit() or int(digits) >= _UINT:
        raise RefusedError(errno.EINVAL, f"Invalid MB value {text}")
    value = int(digits)
    if not MIN_BANDWIDTH <= value <= 100:  # noqa: PLR2004
        raise RefusedError(errno.EINVAL, f"MB value {value} out of range [{MIN_BANDWIDTH},100]")
    return -(-value // BANDWIDTH_GRAN) * BANDWIDTH_GRAN


def parse(text: str, machine: Machine, group: Group, others: list[Group]) -> Staged:
    """Read what is written to a CTRL group's `schemata`, without its last newline.

    Raises:
        RefusedError: EINVAL, with the kernel's words; it has none for a domain that does not exist.
    """
    staged = Staged({}, {})
    for line in text.split("\n"):
        name, colon, values = line.partition(":")
        name = name.strip()
        if not colon:
            raise RefusedError(errno.EINVAL, "Missing ':'")
        if not values:
            raise RefusedError(errno.EINVAL, f"Missing '{name}' value")
        if name not in {"L3", "MB"}:
            raise RefusedError(errno.EINVAL, f"Unknown or unsupported resource name '{name}'")
        target = staged.l3 if name == "L3" else staged.mb
        for part in values.removesuffix(";").split(";"):
            number, equals, value = part.partition("=")
            digits = number.removeprefix("+")
            if not equals or not digits.isascii() or not digits.isdigit():
                raise RefusedError(errno.EINVAL, "Missing '=' or non-numeric domain")
            domain = int(digits)
            if domain not in machine.domains:
                raise RefusedError(errno.EINVAL)
            if domain in target:
                raise RefusedError(errno.EINVAL, f"Duplicate domain {domain}")
            value = value.strip()
            target[domain] = _mask(value, domain, group, others) if name == "L3" else _per_cent(value)
    return staged


def first_allocation(machine: Machine, others: Iterable[Group]) -> Staged:
    """What a new CTRL group gets: everything that no exclusive group has, as far as it is in one piece.

    Raises:
        RefusedError: ENOSPC where exclusive groups have taken all.
    """
    groups = list(others)
    masks: dict[int, int] = {}
    for domain in machine.domains:
        mask = FULL_MASK
        for other in groups:
            if other.mode == "exclusive":
                mask &= ~other.l3[domain]
        mask |= SHAREABLE_BITS
        lowest = mask & -mask
        masks[domain] = mask & ~(mask + lowest)
        if masks[domain].bit_count() < MIN_CBM_BITS:
            raise RefusedError(errno.ENOSPC, f"No space on L3:{domain}")
    return Staged(masks, dict.fromkeys(machine.domains, 100))


def set_mode(text: str, group: Group, others: list[Group]) -> None:
    """Write `mode`, without its last newline.

    Raises:
        RefusedError: EINVAL, with the kernel's words.
    """
    if text == group.mode:
        return
    if text == "exclusive" and any(overlaps(mask, d, others, exclusive=False) for d, mask in group.l3.items()):
        raise RefusedError(errno.EINVAL, "Schemata overlaps")
    if text == "pseudo-locksetup":
        raise RefusedError(errno.EINVAL, "Pseudo-locking not supported")
    if text not in {"shareable", "exclusive"}:
        raise RefusedError(errno.EINVAL, "Unknown or unsupported mode")
    group.mode = text


def _lines(l3: dict[int, str], mb: dict[int, int]) -> str:
    rows: tuple[tuple[str, dict[int, str] | dict[int, int]], ...] = (("MB", mb), ("L3", l3))
    return "".join(f"{name:>6}:{';'.join(f'{d}={v}' for d, v in values.items())}\n" for name, values in rows)


def schemata_text(group: Group) -> str:
    """What `schemata` of a CTRL group shows."""
    return _lines({domain: f"{mask:x}" for domain, mask in group.l3.items()}, group.mb)


def size_text(group: Group) -> str:
    """What `size` of a CTRL group shows: the bytes of cache that its masks mean."""
    way = CACHE_BYTES // CBM_BITS
    return _lines({domain: str(way * mask.bit_count()) for domain, mask in group.l3.items()}, group.mb)


def bit_usage_text(machine: Machine, classes: Iterable[Group]) -> str:
    """What `info/L3/bit_usage` shows: who uses each way, the highest first."""
    groups = list(classes)
    domains: list[str] = []
    for domain in machine.domains:
        letters = ""
        for way in reversed(range(CBM_BITS)):
            users = {group.mode for group in groups if group.l3[domain] >> way & 1}
            if SHAREABLE_BITS >> way & 1:
                letters += "X" if "shareable" in users else "H"
            else:
                letters += "S" if "shareable" in users else "E" if users else "0"
        domains.append(f"{domain}={letters}")
    return ";".join(domains) + "\n"
