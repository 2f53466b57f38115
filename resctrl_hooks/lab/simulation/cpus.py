"""CPU masks: the formats of `cpus` and `cpus_list`, and the transfer of CPUs between groups.

Source: the kernel's bitmap parsing and cpus_ctrl_write and cpus_mon_write of fs/resctrl.
"""

import errno
from collections.abc import Iterable

from .errors import RefusedError
from .group import Group
from .machine import Machine

_CHUNK_BITS = 32
_CHUNK_DIGITS = 8
_HEX = frozenset("0123456789abcdefABCDEF")


def mask_text(mask: int, machine: Machine) -> str:
    """Return a mask as `cpus` shows it: hexadecimal, in chunks of 32 bits."""
    width = -(-machine.cpus // 4)
    digits = f"{mask:0{width}x}"
    head = len(digits) % _CHUNK_DIGITS
    chunks = [digits[i : i + _CHUNK_DIGITS] for i in range(head, len(digits), _CHUNK_DIGITS)]
    return ",".join([digits[:head], *chunks] if head else chunks)


def _bad(number: int) -> RefusedError:
    return RefusedError(number, "Bad CPU list/mask")


def parse_mask(text: str, machine: Machine) -> int:
    """Parse a write to `cpus`.

    Raises:
        RefusedError: EINVAL for an invalid mask, EOVERFLOW for CPUs that the machine does not have.
    """
    line = text.partition("\n")[0].strip()
    chunks = line.removesuffix(",").split(",")
    mask = 0
    for chunk in chunks if line else []:
        if not chunk or not _HEX.issuperset(chunk):
            raise _bad(errno.EINVAL)
        if len(chunk) > _CHUNK_DIGITS:
            raise _bad(errno.EOVERFLOW)
        mask = mask << _CHUNK_BITS | int(chunk, 16)
    if len(chunks) > -(-machine.cpus // _CHUNK_BITS) or mask & ~machine.all_cpus:
        raise _bad(errno.EOVERFLOW)
    return mask


def _number(text: str, machine: Machine) -> int:
    if text == "N":
        return machine.cpus - 1
    if not text.isascii() or not text.isdigit():
        raise _bad(errno.EINVAL)
    return int(text)


def parse_list(text: str, machine: Machine) -> int:
    """Parse a write to `cpus_list`.

    Raises:
        RefusedError: EINVAL for an invalid list, ERANGE for CPUs that the machine does not have.
    """
    mask = 0
    for word in text.partition("\n")[0].split(","):
        region = word.strip()
        if not region:
            continue
        span, _, pattern = region.partition(":")
        first, dash, last = ("0", "-", "N") if span == "all" else span.partition("-")
        start = _number(first, machine)
        end = _number(last, machine) if dash else start
        used, slash, group = pattern.partition("/") if pattern else ("1", "/", "1")
        keep, every = (_number(used, machine), _number(group, machine)) if slash else (0, 0)
        if start > end or not 0 < keep <= every:
            raise _bad(errno.EINVAL)
        if end >= machine.cpus:
            raise _bad(errno.ERANGE)
        mask |= sum(1 << cpu for cpu in range(start, end + 1) if (cpu - start) % every < keep)
    return mask


def assign(group: Group, mask: int, root: Group, classes: Iterable[Group]) -> None:
    """Make `mask` the CPUs of `group`, and take them from, or return them to, the others.

    The root group has the CPUs of no other group. `classes` are all CTRL groups, including the root group.

    Raises:
        RefusedError: EINVAL: the root group cannot drop CPUs, a MON group can have those of its parent only.
    """
    added = mask & ~group.cpus
    if group.parent is not None:
        if mask & ~group.parent.cpus:
            raise RefusedError(errno.EINVAL, "Can only add CPUs to mongroup that belong to parent")
        for sibling in group.parent.monitored.values():
            if sibling is not group:
                sibling.cpus &= ~added
        group.cpus = mask
        return
    dropped = group.cpus & ~mask
    if dropped and group is root:
        raise RefusedError(errno.EINVAL, "Can't drop CPUs from default group")
    root.cpus |= dropped
    for other in classes:
        if other is not group:
            for member in other.family():
                member.cpus &= ~added
    group.cpus = mask
    for child in group.monitored.values():
        child.cpus = 0
