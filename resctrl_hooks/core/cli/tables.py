"""Numbers, ages and tables for terminal output."""

import re
import textwrap
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from resctrl_hooks.core.node.names import printable

_STEPS = ((86400, "d"), (3600, "h"), (60, "m"))
_WIDTH_OF_NO_TERMINAL = 10_000
_LEAST_NAME = 12
_LEAST_TEXT = 30
_CUT = "…"
Item = TypeVar("Item")
ROOT, NONE = "/", "-"
"""The name of the root class, and the text of an empty cell."""
NO_BREAK = "\N{NO-BREAK SPACE}"


class SafeConsole(Console):
    """Console that prints only its own escape sequences, since names and reasons are text from others."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return Rich's segments with question marks in place of non-printable characters."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else "\n".join(map(printable, text.split("\n"))), style, control)


def console() -> Console:
    """Return a console as wide as the terminal; without a terminal it keeps lines whole."""
    found = SafeConsole(highlight=False)
    return found if found.is_terminal else SafeConsole(highlight=False, width=_WIDTH_OF_NO_TERMINAL)


class Name:
    """A name in a table: the only cell that shrinks in a narrow terminal, because Kubernetes names are the longest.

    It loses its middle, since the pods of a namespace often differ only at the end.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return the range from the least width to the full name."""
        whole = cell_len(self.text)
        return Measurement(min(whole, _LEAST_NAME), whole)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the part of the name that fits."""
        yield Text(shortened(self.text, options.max_width), no_wrap=True, overflow="crop")


def shortened(text: str, width: int) -> str:
    """Return a text of at most so many characters, with the middle left out."""
    if len(text) <= width:
        return text
    end = width // 2
    return text[: width - end - 1] + _CUT + text[len(text) - end :]


def table(*columns: str, right: frozenset[str] = frozenset(), names: str = "", headers: bool = True) -> Table:
    """Return an empty table without frames, for cut and grep; the column ``names`` shrinks as `Name` does."""
    made = Table(box=None, pad_edge=False, header_style="bold", show_header=headers)
    for column in columns:
        one_line = column != names  # rich shrinks only columns that may wrap; `Name` never takes a second line
        made.add_column(column, justify="right" if column in right else "left", no_wrap=one_line, overflow="ellipsis")
    return made


def print_table(out: Console, rows: Table) -> None:
    """Print a table with all of its columns; it exceeds the terminal's width if names cannot shrink enough.

    Rich would drop whole columns, for example a pod's state.
    """
    unbounded = out.options.update(max_width=_WIDTH_OF_NO_TERMINAL)
    spare = 0
    for column in rows.columns:
        names = [cell_len(cell.text) for cell in column.cells if isinstance(cell, Name)]
        spare += max(max(names, default=0) - _LEAST_NAME, 0)
    out.width = max(out.width, out.measure(rows, options=unbounded).maximum - spare)
    out.print(rows)


def aligned(rows: Sequence[Sequence[str]], right: Collection[int]) -> Iterator[str]:
    """Yield the lines of a long table without styles: Rich would take seconds for thousands of rows.

    ``right`` are the numbers of the columns that are aligned at the right.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = zip(row, widths, range(len(widths)), strict=True)
        line = (
            " " * (width - cell_len(cell)) + cell if at in right else cell.ljust(width) for cell, width, at in cells
        )
        yield "  ".join(line).rstrip()


def print_wrapped(out: Console, text: Text, indent: int) -> None:
    """Print a line whose continuation lines are indented in a narrow terminal.

    A command in backticks, or a very long word, stays whole so that it can be copied. Words with a `NO_BREAK` between
    them stay together; it prints as a space.
    """
    whole = re.sub("`[^`]*`", lambda command: command[0].replace(" ", NO_BREAK), text.plain)
    room = max(out.width - indent, _LEAST_TEXT)
    wrapper = textwrap.TextWrapper(
        room, break_long_words=False, break_on_hyphens=False, expand_tabs=False, replace_whitespace=False
    )
    lines, at = [], indent
    for line in wrapper.wrap(whole[indent:]):
        at = whole.index(line, at)
        lines.append(text[at : at + len(line)])
        at += len(line)
    printed = text[:indent] + Text("\n" + " " * indent).join(lines)
    printed.plain = printed.plain.replace(NO_BREAK, " ")
    out.print(printed, soft_wrap=True)


def class_text(rdt_class: str | None) -> str:
    """Return the name of a class, which is empty for the root class; None is an empty cell."""
    return NONE if rdt_class is None else rdt_class or ROOT


def age(since: int, now: float | None = None) -> str:
    """Return how long ago, in the largest fitting unit; a dash if unknown."""
    if not since:
        return "-"
    seconds = max(int((now or time.time()) - since), 0)
    for length, name in _STEPS:
        if seconds >= length:
            return f"{seconds // length}{name}"
    return f"{seconds}s"


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units: `2d3h`, `5m7s`."""
    left = int(seconds)
    words: list[str] = []
    for length, name in (*_STEPS, (1, "s")):
        if left >= length or (name == "s" and not words):
            words.append(f"{left // length}{name}")
            left %= length
    return "".join(words[:2])


def counted(number: int, what: str) -> str:
    """Return a number with its noun: `no problems`, `1 thread`, `2 threads`."""
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def repeated(items: Iterable[Item], same: Callable[[Item], Hashable]) -> list[tuple[Item, int]]:
    """Return repeated items once, with the last one's data and the count, ordered by last occurrence."""
    found: dict[Hashable, tuple[Item, int]] = {}
    for item in items:
        _, times = found.pop(same(item), (item, 0))
        found[same(item)] = (item, times + 1)
    return list(found.values())


def often(times: int) -> str:
    """Return the count of a repeated item: `` (5 times)``, empty for 1."""
    return f" ({times} times)" if times > 1 else ""
