"""The table of figures, and its place in a page."""

from pathlib import Path
from typing import NamedTuple

BEGIN = "<!-- figures: nox -s bench -- --write -->"
END = "<!-- end of figures -->"


class Row(NamedTuple):
    """One subject: its median in milliseconds, and against the bare interpreter: that, its CPU time, its instructions.

    ``memory`` is its peak above the bare interpreter's, in MiB. ``instructions`` is None where none were counted.
    """

    name: str
    milliseconds: float
    ratio: float
    used: float
    instructions: float | None
    memory: float


def table(rows: list[Row], machine: str) -> str:
    """Return the rows as Markdown."""
    counted = rows[0].instructions is not None
    head = [
        "",
        "ms",
        "against bare",
        *(["instructions"] if counted else []),
        "MiB above bare",
    ]
    lines = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
    for row in rows:
        figures = [f"{row.milliseconds:.1f}", f"**{row.ratio:.2f}**"]
        if row.instructions is not None:
            figures.append(f"{row.instructions:.2f}")
        lines.append(f"| {' | '.join([row.name, *figures, f'{row.memory:+.1f}'])} |")
    return "\n".join([*lines, "", machine])


def write(page: Path, text: str) -> None:
    """Replace the figures in a page.

    Raises:
        ValueError: the page has no place for them.
    """
    old = page.read_text()
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no place for figures, between {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
