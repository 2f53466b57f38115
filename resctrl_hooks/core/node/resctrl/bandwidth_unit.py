"""The unit of ``MB`` values on this mount, and the conversion of values with units to it.

Intel's number is a percentage of each processor's rate; with the mount option ``mba_MBps`` it is MB/s of the class;
AMD's is 1/8 GB/s for each L3. Sources: kernel, Documentation/filesystems/resctrl.rst, "Memory bandwidth Allocation and
monitoring" and "mba_MBps"; fs/resctrl and arch/x86/kernel/cpu/resctrl/core.c (AMD's ``min_bandwidth`` is 0).
"""

from ..host.files import kernel_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Value = int | str

PER_CENT, MB_PER_SECOND, AMD = "per cent", "MB/s", "1/8 GB/s"
AMD_UNIT = 125_000_000
"""Bytes per second of one unit of an AMD limit."""
SUFFIXES = {"MBps": 10**6, "GBps": 10**9}
_MOST_PER_CENT = 100
_MOST_U32 = (1 << 32) - 1


def unit_of(least: int, values: "Sequence[int]", *, mbps: bool = False) -> str:
    """Return the unit of a mount.

    Args:
        least: ``info/MB/min_bandwidth``.
        values: The root class's values, which begin with everything: 100, 2048 or 4294967295.
        mbps: Whether the mount has the option ``mba_MBps``.
    """
    if least == 0:
        return AMD
    return MB_PER_SECOND if mbps or any(value > _MOST_PER_CENT for value in values) else PER_CENT


def bounds_of(unit: str, least: int, step: int) -> "tuple[int, int, int]":
    """Return minimum, step and maximum (0 if unknown) of a mount's numbers.

    ``info/MB`` has those of per cents, also with ``mba_MBps`` (Linux, bw_validate).
    """
    if unit == MB_PER_SECOND:
        return 1, 1, _MOST_U32
    return least, step, _MOST_PER_CENT if unit == PER_CENT else 0


def is_mbps(root: str) -> bool:
    """Return whether resctrl is mounted at ``root`` with ``mba_MBps``."""
    mounts = [line.split() for line in kernel_text("/proc/self/mounts").splitlines()]
    return any(mount[1] == root and "mba_MBps" in mount[3].split(",") for mount in mounts if len(mount) > 3)  # noqa: PLR2004  # fstab(5)


def parse_amount(text: str) -> "tuple[int, str] | None":
    """Return number and unit of ``50%``, ``2000MBps`` or ``2GBps``; None for anything else."""
    for suffix in ("%", *SUFFIXES):
        digits = text[: -len(suffix)].strip()
        if text.endswith(suffix) and digits.isascii() and digits.isdigit():
            return int(digits), suffix
    return None


def convert(value: "Value", unit: str, capacity: float = 0.0) -> "tuple[int, str]":
    """Return a declared value as the mount's number, and an empty string or the reason why that is impossible.

    A bare number has the mount's own unit. ``capacity`` is the maximum traffic of one domain's memory in bytes per
    second, 0 if it is not configured.
    """
    if isinstance(value, int) or value.isdigit():
        return int(value), ""
    amount = parse_amount(value)
    if amount is None:
        return 0, f"{value!r} is not a bandwidth"
    number, suffix = amount
    if suffix == "%" and unit == PER_CENT:
        return number, ""
    if suffix != "%" and unit == PER_CENT:
        return 0, f"{value} cannot be converted: this processor limits per cent of each CPU's rate"
    if suffix == "%" and not capacity:
        return 0, f"{value} needs monitoring.capacity: this mount's unit is {unit}"
    bytes_per_second = number * SUFFIXES[suffix] if suffix in SUFFIXES else capacity * number / _MOST_PER_CENT
    return max(1, -(-int(bytes_per_second) // (AMD_UNIT if unit == AMD else 10**6))), ""


def convert_first(values: "Sequence[Value]", unit: str, capacity: float = 0.0) -> "tuple[int, str]":
    """Return the first of several declared values that this mount understands, or the reason of the last."""
    number, reason = 0, "the list is empty"
    for value in values:
        number, reason = convert(value, unit, capacity)
        if not reason:
            break
    return number, reason


def rounded(value: int, step: int) -> int:
    """Return a value as the kernel rounds it: up to a multiple of ``info/MB/bandwidth_gran`` (Linux, bw_validate)."""
    return -(-value // step) * step


def capacity_of(capacities: "dict[str, float]", domain: int) -> float:
    """Return the configured bytes per second of a memory domain, 0 where none is configured; ``*`` is all others."""
    return float(capacities.get(str(domain)) or capacities.get("*") or 0.0)
