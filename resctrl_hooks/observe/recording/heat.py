"""A map of pods and times: a row for each pod, darker where it used more. It is one small picture for any number."""

import struct
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from math import sqrt
from typing import Final

from resctrl_hooks.observe.inventory.palette import SERIES

from .axes import TimeAxis
from .drawing import Mark, marks_of, time_ticks
from .thinning import largest_of
from .tracks import Line

MOST_COLUMNS: Final = 480
_LEVELS: Final = 255


def levels(lines: Sequence[Line], most: float, columns: int) -> list[list[int]]:
    """Return a level from 0 to 255 for each line and part of the time, by the largest value's share of ``most``.

    It is the root of the share, so that small pods are visible. A value above 0 has level 1 or more.
    """
    found = []
    for line in lines:
        values = largest_of(line, columns)
        found.append([_level(value, most) if value else 0 for value in values])
    return found


def _level(value: float, most: float) -> int:
    return max(round(_LEVELS * sqrt(value / most)), 1)


def png(rows: Sequence[Sequence[int]], color: str) -> bytes:
    """Return a picture of levels, which are the opacity of one colour, so that it fits dark and light pages.

    Source: PNG specification (third edition), 5.3 chunks, 11.2.2 palette, 11.3.1 tRNS.
    """
    rgb = bytes.fromhex(color.lstrip("#"))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows), 9)
    chunks = ((b"IHDR", header), (b"PLTE", rgb * 256), (b"tRNS", bytes(range(256))), (b"IDAT", data), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )


def heat_map(
    lines: Mapping[str, Line], axis: TimeAxis, span: tuple[float, float], most: float, unit: str, marks: Sequence[Mark]
) -> str:
    """Return the map of some lines.

    Args:
        lines: by name, in the order of the rows.
        axis: the page's.
        span: the first and the last time of the lines.
        most: the value with the full colour.
        unit: its unit, for tooltips.
        marks: vertical lines.
    """
    columns = min(MOST_COLUMNS, max(len(line) for line in lines.values()))
    picture = b64encode(png(levels([*lines.values()], most, columns), SERIES[0])).decode()
    names = "".join(map(_name, lines))
    left, right = (100 * axis.part(one) for one in span)
    place = f"left:{left:.2f}%;width:{right - left:.2f}%"
    data = f'data-top="{most:.6g}" data-unit="{escape(unit)}" data-start="{span[0]:.0f}" data-end="{span[1]:.0f}"'
    return (
        f'<div class="row heat" {data}><div class="gutter">{names}</div><div class="plot">'
        f'<img alt="" style="{place}" src="data:image/png;base64,{picture}">{marks_of(marks, axis)}'
        f"</div></div>{time_ticks(axis)}"
    )


def _name(name: str) -> str:
    """Return a name whose namespace a phone leaves out."""
    namespace, slash, pod = name.rpartition("/")
    return f"<span><i>{escape(namespace + slash)}</i>{escape(pod)}</span>"
