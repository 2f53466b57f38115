"""SMBIOS tables as firmwares write them (DMTF DSP0134, 7.18)."""

import struct
from typing import NamedTuple

ARRAY, END = b"\x10\x17\x00\x10" + bytes(19) + b"\0\0", b"\x7f\x04\xff\xfe\0\0"
"""The array of memory, and the end mark."""


class Module(NamedTuple):
    """A memory module, or an empty slot. Speeds are in MT/s, 0 is unknown; 0 as ``width`` is unknown, too."""

    array: int = 0x1000
    configured: int = 4800
    rated: int = 5600
    width: int = 64
    size: int = 0x4000
    kind: int = 0x22
    technology: int = 3
    locators: tuple[str, ...] = ()
    length: int = 0x5C

    @property
    def structure(self) -> bytes:
        """The structure with its strings."""
        made = bytearray(0x5C)
        start = (17, self.length, 0x1100, self.array, 0xFFFE, 72, self.width or 0xFFFF, self.size, 9, 0)
        texts = (1, 2) if self.locators else (0, 0)
        struct.pack_into("<BBHHHHHHBBBBB", made, 0, *start, *texts, self.kind)
        for value, short, extended in ((self.rated, 0x15, 0x54), (self.configured, 0x20, 0x58)):
            struct.pack_into("<H", made, short, min(value, 0xFFFF))
            struct.pack_into("<I", made, extended, value if value >= 0xFFFF else 0)
        made[0x28] = self.technology
        return bytes(made[: self.length]) + "\0".join(self.locators).encode() + b"\0\0"


def table(*modules: Module) -> bytes:
    """Return a table with these modules."""
    return ARRAY + b"".join(one.structure for one in modules) + END
