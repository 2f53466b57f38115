"""The table of `top`, of the columns that fit."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from resctrl_hooks.core.cli.tables import Name, table
from resctrl_hooks.core.inventory.coverage import MARK
from resctrl_hooks.observe.cli.top_columns import SHOWN, Fitted, fitting
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.inventory.columns import MBM
from resctrl_hooks.observe.inventory.limited import HEADING as LIMITED
from resctrl_hooks.observe.inventory.limited import MARK as LIMIT_MARK
from resctrl_hooks.observe.inventory.rates import POD, TOTAL, UNGROUPED, Line
from resctrl_hooks.observe.inventory.usage import USERS

_STYLES = {POD: "", UNGROUPED: "dim", TOTAL: "bold"}
_FOREIGN_STYLE = "cyan"
_SELECTED = "reverse"
_HOT = ((1 / 3, "red"), (1 / 5, "yellow"))
"""Share of all memory traffic from which a line is coloured. Rich omits colours where NO_COLOR is set."""


def line_id(line: Line) -> str:
    """Return what a line is selected by: a pod's key, otherwise its name."""
    return line.key or line.name


def usage_table(
    scene: Scene,
    lines: Sequence[Line],
    *,
    by: str,
    sort: str,
    reverse: bool,
    width: int,
    pictures: bool,
    headers: bool,
    selected: str = "",
) -> Table:
    """Return the lines as a table of the columns that fit; ``pictures`` adds those of a terminal.

    ``selected`` is the `line_id` of the line that is shown reversed.
    """
    columns = [
        one for one in SHOWN if one.is_known(scene) and (pictures or not one.screen) and (by == "pod" or not one.pods)
    ]
    names = [_name(line, scene, by) for line in lines]
    fitted = fitting(columns, sort, max(map(len, names), default=0), width)
    if all(one.head != LIMITED for one, _ in fitted):
        names = [f"{LIMIT_MARK if line.limited else ''}{name}" for line, name in zip(lines, names, strict=True)]
    heads = _heads(fitted, by, sort, "▴" if reverse else "▾")
    right = frozenset(head for head, (one, _) in zip(heads[1:], fitted, strict=True) if not one.color and not one.left)
    made = table(*heads, right=right, names=heads[0], headers=headers)
    for line, name in zip(lines, names, strict=True):
        is_selected = line.kind in USERS and line_id(line) == selected
        style = _SELECTED if is_selected else _heat(line, scene) or _STYLES.get(line.kind, _FOREIGN_STYLE)
        cells = (
            Text(one.cell(line, scene, wide), "" if is_selected else one.color or one.heat(line), no_wrap=True)
            for one, wide in fitted
        )
        made.add_row(Name(name), *cells, style=style)
    return made


def _name(line: Line, scene: Scene, by: str) -> str:
    name = line.name if by == "pod" or line.kind != POD else f"{line.name} ({line.members})"
    if by == "class" and line.kind == POD and line.name in scene.lowered:
        name += f" {scene.lowered[line.name]}"
    return f"{MARK}{name}" if line.partial else name


def _heads(fitted: Sequence[Fitted], by: str, sort: str, mark: str) -> list[str]:
    """Return the headings, the first of the sorted quantity with a mark."""
    heads = [by.upper() + (mark if sort == "name" else "")]
    marked = False
    for one, _ in fitted:
        is_sorted = bool(one.head) and not marked and (one.of.key if one.of else one.head.lower()) == sort
        marked = marked or is_sorted
        heads.append(one.head + (mark if is_sorted else ""))
    return heads


def _heat(line: Line, scene: Scene) -> str:
    """Return a pod's style by its share of all traffic."""
    total, rate = scene.total[MBM], line[MBM]
    if line.kind not in USERS or not total or rate is None:
        return ""
    return next((style for share, style in _HOT if rate >= share * total), "")
