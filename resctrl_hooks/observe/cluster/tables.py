"""The tables of `kubectl resctrl`: nodes, and pods or their sums."""

from collections.abc import Sequence

import click
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from resctrl_hooks.core.cli.tables import Name, aligned, console, print_table, table
from resctrl_hooks.core.inventory.amounts import scaled
from resctrl_hooks.observe.inventory.columns import COLUMNS, value_in
from resctrl_hooks.observe.inventory.limited import HEADING as LIMITED
from resctrl_hooks.observe.inventory.limited import values_cell
from resctrl_hooks.observe.inventory.load_text import load_text, source_text
from resctrl_hooks.observe.inventory.slowdown import HEADING as SLOW
from resctrl_hooks.observe.inventory.slowdown import as_text, style_of

from .nodes import Node
from .usage import PodUsage, name_of

_NONE = "-"
_MOST_STYLED = 1000  # rows; Rich takes a third of a millisecond for each
_NODE_HEADS = ("NODE", "COUNTING", "RMIDS", "FREE", "WAITING", "LOAD", "SLOWED", "VERSION")
_POD_HEADS = {"pod": ("POD", "NODE"), "namespace": ("NAMESPACE", "PODS"), "node": ("NODE", "PODS")}
_NUMBERS = frozenset({"RMIDS", "FREE", "WAITING", "LOAD", "SLOWED", "PODS", SLOW, *(one.heading for one in COLUMNS)})


def print_nodes(nodes: Sequence[Node], *, wide: bool, headers: bool) -> None:
    """Print nodes."""
    print_table(console(), nodes_table(nodes, wide=wide, headers=headers))


def nodes_table(nodes: Sequence[Node], *, wide: bool, headers: bool) -> Table:
    """Return the table of nodes."""
    printed = table(
        *_NODE_HEADS, *(["KNOWN", "IMAGE"] if wide else []), "PROBLEM", right=_NUMBERS, names="PROBLEM", headers=headers
    )
    for node in nodes:
        numbers = (
            _NONE if node.rmids is None else f"{node.rmids_used}/{node.rmids}",
            *(_NONE if value is None else str(value) for value in (node.rmids_free, node.waiting)),
            _load(node),
            _NONE if node.slowed is None else str(node.slowed),
        )
        image = [",".join(node.known) or _NONE, node.image or _NONE] if wide else []
        printed.add_row(
            node.name, node.counting, *numbers, escape(node.version or _NONE), *image, Name(node.problem or _NONE)
        )
    return printed


def _load(node: Node) -> str:
    if node.load is None:
        return _NONE
    return load_text(node.load, node.capacity_source) + source_text(node.capacity_source)


def print_pods(lines: Sequence[PodUsage], by: str, *, headers: bool) -> None:
    """Print pods, or their sums; very many without styles."""
    if len(lines) > _MOST_STYLED:
        heads, rows = _cells(lines, by)
        for line in aligned([heads, *rows] if headers else rows, {heads.index(head) for head in _NUMBERS & {*heads}}):
            click.echo(line)
    else:
        print_table(console(), pods_table(lines, by, headers=headers))


def pods_table(lines: Sequence[PodUsage], by: str, *, headers: bool) -> Table:
    """Return the table of pods, or of their sums."""
    heads, rows = _cells(lines, by)
    printed = table(*heads, right=_NUMBERS, names=heads[0], headers=headers)
    slow = heads.index(SLOW) - 1
    for (name, *cells), line in zip(rows, lines, strict=True):
        marked = Text(cells[slow], style_of(line.slowdown))
        printed.add_row(Name(name), *cells[:slow], marked, *cells[slow + 1 :])
    return printed


def _cells(lines: Sequence[PodUsage], by: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    columns = [of for of in COLUMNS if not of.of_cgroup or any(value_in(one, of) is not None for one in lines)]
    is_limited = any(one.limited for one in lines)
    heads = (*_POD_HEADS[by], *(of.heading for of in columns), SLOW, *([LIMITED] if is_limited else []))
    rows = [
        (
            name_of(one),
            one.node if by == "pod" else str(one.pods),
            *(_cell(value_in(one, of), of.unit, binary=not of.is_rate) for of in columns),
            as_text(one.slowdown),
            *([values_cell(one.limited, one.limit_ends) or _NONE] if is_limited else []),
        )
        for one in lines
    ]
    return heads, rows


def _cell(value: float | None, unit: str, *, binary: bool = False) -> str:
    return _NONE if value is None else scaled(value, unit, binary=binary)
