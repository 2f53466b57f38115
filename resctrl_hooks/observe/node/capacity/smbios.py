"""The peak bandwidth of the memory modules, from the firmware's SMBIOS table. Pure.

Sources: DMTF DSP0134 3.7, "Structure standards" (6.1) and "Memory Device (Type 17)" (7.18); kernel,
Documentation/ABI/testing/sysfs-firmware-dmi-tables. The table is input of the firmware: all work is bounded by its
size, and a malformed structure ends it.
"""

import re
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = "firmware/dmi/tables/DMI"
"""The table below a sysfs mount; only root can read it."""
LIMIT = 1 << 20
"""Bytes of the largest table that is read."""
_MOST = 1 << 13  # structures
_HEADER = 4
_MEMORY_DEVICE, _END = 17, 127
_NO_DRAM = frozenset({0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x1F})
"""Memory types: ROM, FLASH, EEPROM, FEPROM, EPROM, and logical non-volatile devices."""
_NO_DRAM_TECHNOLOGY = frozenset({5, 6, 7})
"""Technologies: NVDIMM-F, NVDIMM-P and Intel Optane."""
_DIMM_BITS = 64
"""The data width of each module from DDR to DDR5 (JEDEC), where the firmware leaves it unknown."""
_WIDTHS = range(8, 4097)
_SPEEDS = range(50, 100_000)
_SEE_EXTENDED = 0xFFFF
_CHANNEL = re.compile(r".{0,64}?CH(?:ANNEL|AN)[ _-]{0,2}(?:[0-9]{1,3}|[A-Z])")
_LOCATOR = 64  # characters


class Device(NamedTuple):
    """A memory module: the handle of its array, its channel, and bytes per second; 0: unknown."""

    array: int
    channel: str
    rate: float


def peaks(table: bytes) -> "dict[int, float]":
    """Return bytes per second of each array of memory by its handle; empty if a module's rate is unknown.

    Modules in one channel share its rate. Where the locators name no channels, each module counts as one.
    """
    channels: "dict[tuple[int, str], float]" = {}
    for one in devices(table):
        if not one.rate:
            return {}
        place = one.array, one.channel
        channels[place] = max(channels.get(place, 0.0), one.rate)
    found: "dict[int, float]" = {}
    for (array, _), rate in channels.items():
        found[array] = found.get(array, 0.0) + rate
    return found


def devices(table: bytes) -> "list[Device]":
    """Return the installed modules of DRAM in the table's order."""
    found: "list[Device]" = []
    for structure, texts in _structures(table):
        if structure[0] == _MEMORY_DEVICE:
            device = _device(structure, texts, len(found))
            if device is not None:
                found.append(device)
    return found


def _structures(table: bytes) -> "Iterator[tuple[bytes, list[bytes]]]":
    """Yield the formatted part and the strings of each structure, until the end mark or a malformed structure."""
    start = 0
    for _ in range(_MOST):
        length = table[start + 1] if start + _HEADER <= len(table) else 0
        end = table.find(b"\0\0", start + length)
        if length < _HEADER or end < 0 or table[start] == _END:
            return
        yield table[start : start + length], table[start + length : end].split(b"\0")
        start = end + 2


def _device(structure: bytes, texts: "list[bytes]", number: int) -> "Device | None":
    def value(offset: int, size: int = 2) -> int:
        """Return a number; 0 where this version of the structure has none."""
        part = structure[offset : offset + size]
        return int.from_bytes(part, "little") if len(part) == size else 0

    if not value(0x0C) or value(0x12, 1) in _NO_DRAM or value(0x28, 1) in _NO_DRAM_TECHNOLOGY:
        return None  # an empty slot, or no DRAM
    width = value(0x0A)
    speed = _speed(value(0x20), value(0x58, 4)) or _speed(value(0x15), value(0x54, 4))
    rate = speed * 1e6 * (width if width in _WIDTHS else _DIMM_BITS) / 8
    locators = [_text(texts, value(offset, 1)) for offset in (0x11, 0x10)]
    named = next((match.group() for text in locators if (match := _CHANNEL.match(text))), "")
    return Device(value(0x04), named or f"module {number}", rate)


def _speed(short: int, extended: int) -> int:
    """Return million transfers per second; 0: unknown."""
    found = extended & 0x7FFFFFFF if short == _SEE_EXTENDED else short
    return found if found in _SPEEDS else 0


def _text(texts: "list[bytes]", number: int) -> str:
    return texts[number - 1][:_LOCATOR].decode("latin-1").upper() if 0 < number <= len(texts) else ""
