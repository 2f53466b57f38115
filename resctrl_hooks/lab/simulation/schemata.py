"""`schemata`, `mode` and `size`: their writes, their content, and the kernel's refusals.

Source: the kernel's fs/resctrl/ctrlmondata.c and its documentation (filesystems/resctrl), each refusal observed on
Linux 7.2.
"""

import errno
from collections.abc import Callable, Iterable
from typing import NamedTuple

from .errors import RefusedError
from .group import Group
from .machine import CACHE_BYTES, CBM_BITS, FULL_MASK, SHAREABLE_BITS, Machine

_HEX = frozenset("0123456789abcdefABCDEF")
_UINT = 1 << 32
_ULONG = 1 << 64


class Staged(NamedTuple):
    """The request of one write to `schemata`, masks by resource and all by domain; applied completely or not at all."""

    masks: dict[str, dict[int, int]]
    mb: dict[int, int]


def overlaps(mask: int, domain: int, others: Iterable[Group], *, exclusive: bool) -> bool:
    """Return whether other CTRL groups use ways of `mask`.

    ``exclusive`` counts exclusive groups only, otherwise every group and the hardware itself.
    """
    if not exclusive and mask & SHAREABLE_BITS:
        return True
    users = (other for other in others if not exclusive or other.mode == "exclusive")
    return any(mask & used[domain] for other in users for used in other.masks.values())


def _mask(text: str, machine: Machine, domain: int, group: Group, others: list[Group]) -> int:
    digits = text.removeprefix("0x").removeprefix("0X")
    if not digits or not _HEX.issuperset(digits) or int(digits, 16) >= _ULONG:
        raise RefusedError(errno.EINVAL, f"Non-hex character in the mask {text}")
    mask = int(digits, 16)
    if mask < machine.traits.min_cbm_bits or mask > FULL_MASK:
        raise RefusedError(errno.EINVAL, "Mask out of range")
    lowest = mask & -mask
    if not machine.sparse and (mask + lowest) & mask:
        raise RefusedError(errno.EINVAL, f"The mask {mask:x} has non-consecutive 1-bits")
    if overlaps(mask, domain, others, exclusive=True):
        raise RefusedError(errno.EINVAL, "Overlaps with exclusive group")
    if group.mode == "exclusive" and overlaps(mask, domain, others, exclusive=False):
        raise RefusedError(errno.EINVAL, "Overlaps with other group")
    return mask


def _bandwidth(text: str, machine: Machine) -> int:
    digits = text.removeprefix("+")
    if not digits.isascii() or not digits.isdigit() or int(digits) >= _UINT:
        raise RefusedError(errno.EINVAL, f"Invalid MB value {text}")
    value = int(digits)
    least, most, step = machine.traits.bandwidth
    if not least <= value <= most:
        raise RefusedError(errno.EINVAL, f"MB value {value} out of range [{least},{most}]")
    return -(-value // step) * step


def parse(text: str, machine: Machine, group: Group, others: list[Group]) -> Staged:
    """Parse a write to a CTRL group's `schemata`, without its last newline.

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
        if name not in {*machine.caches, "MB"}:
            raise RefusedError(errno.EINVAL, f"Unknown or unsupported resource name '{name}'")
        target = staged.mb if name == "MB" else staged.masks.setdefault(name, {})
        for part in values.removesuffix(";").split(";"):
            number, equals, value = part.partition("=")
            digits = number.removeprefix("+")
            if not equals or not digits.isascii() or not digits.isdigit():
                raise RefusedError(errno.EINVAL, "Missing '=' or non-numeric domain")
            domain = int(digits)
            if domain not in (machine.limited_domains if name == "MB" else machine.domains):
                raise RefusedError(errno.EINVAL)
            if domain in target:
                raise RefusedError(errno.EINVAL, f"Duplicate domain {domain}")
            value = value.strip()
            target[domain] = (
                _bandwidth(value, machine) if name == "MB" else _mask(value, machine, domain, group, others)
            )
    return staged


def first_allocation(machine: Machine, others: Iterable[Group]) -> Staged:
    """Return a new CTRL group's masks: the first contiguous part that no exclusive group has.

    Raises:
        RefusedError: ENOSPC if exclusive groups have taken all.
    """
    groups = list(others)
    masks: dict[int, int] = {}
    for domain in machine.domains:
        mask = FULL_MASK
        for other in groups:
            for used in other.masks.values() if other.mode == "exclusive" else ():
                mask &= ~used[domain]
        mask |= SHAREABLE_BITS
        lowest = mask & -mask
        masks[domain] = mask & ~(mask + lowest)
        if masks[domain].bit_count() < machine.traits.min_cbm_bits:
            raise RefusedError(errno.ENOSPC, f"No space on {machine.caches[0]}:{domain}")
    most = machine.traits.bandwidth[1]
    return Staged({name: dict(masks) for name in machine.caches}, dict.fromkeys(machine.limited_domains, most))


def set_mode(text: str, group: Group, others: list[Group]) -> None:
    """Write `mode`, without its last newline.

    Raises:
        RefusedError: EINVAL, with the kernel's words.
    """
    if text == group.mode:
        return
    masks = [row for used in group.masks.values() for row in used.items()]
    if text == "exclusive" and any(overlaps(mask, domain, others, exclusive=False) for domain, mask in masks):
        raise RefusedError(errno.EINVAL, "Schemata overlaps")
    if text == "pseudo-locksetup":
        raise RefusedError(errno.EINVAL, "Pseudo-locking not supported")
    if text not in {"shareable", "exclusive"}:
        raise RefusedError(errno.EINVAL, "Unknown or unsupported mode")
    group.mode = text


def _lines(group: Group, of_mask: Callable[[int], str]) -> str:
    caches = {name: {domain: of_mask(mask) for domain, mask in used.items()} for name, used in group.masks.items()}
    rows: dict[str, dict[int, str] | dict[int, int]] = {"MB": group.mb, **caches}
    return "".join(f"{name:>6}:{';'.join(f'{d}={v}' for d, v in values.items())}\n" for name, values in rows.items())


def schemata_text(group: Group, others: str = "") -> str:
    """Return the content of a CTRL group's `schemata`, with other lines before it."""
    return "".join(f"{line}\n" for line in others.split()) + _lines(group, "{:x}".format)


def size_text(group: Group) -> str:
    """Return the content of a CTRL group's `size`: the bytes of cache of its masks."""
    return _lines(group, lambda mask: str(CACHE_BYTES // CBM_BITS * mask.bit_count()))


def bit_usage_text(machine: Machine, classes: Iterable[Group]) -> str:
    """Return the content of `info/L3/bit_usage`: the user of each way, for code or for data, the highest first."""
    groups = list(classes)
    domains: list[str] = []
    for domain in machine.domains:
        letters = ""
        for way in reversed(range(CBM_BITS)):
            users = {group.mode for group in groups for used in group.masks.values() if used[domain] >> way & 1}
            if SHAREABLE_BITS >> way & 1:
                letters += "X" if "shareable" in users else "H"
            else:
                letters += "S" if "shareable" in users else "E" if users else "0"
        domains.append(f"{domain}={letters}")
    return ";".join(domains) + "\n"
