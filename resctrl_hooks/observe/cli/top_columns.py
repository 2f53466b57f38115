"""The columns of `top` on a terminal, one row each: measured values, shares, pictures, facts; and which of them fit."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from resctrl_hooks.core.cli.tables import class_text
from resctrl_hooks.core.inventory.amounts import scaled
from resctrl_hooks.core.inventory.coverage import MARK
from resctrl_hooks.observe.cli.bars import bar, sparkline
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.inventory.columns import COLUMNS, LLC, MBM, Column
from resctrl_hooks.observe.inventory.limited import HEADING as LIMITED
from resctrl_hooks.observe.inventory.limited import as_cell
from resctrl_hooks.observe.inventory.palette import QUANTITIES
from resctrl_hooks.observe.inventory.rates import POD, TOTAL, Line
from resctrl_hooks.observe.inventory.slowdown import HEADING, as_text, style_of

UNKNOWN = "-"
NAME, LONG_NAME = 28, 56
"""The characters of names that come before all columns but the first, and before the less important ones."""
LESS: Final = 100
"""The first rank of less important columns."""
_GAP = 2  # between columns
_WIDTHS = {"B": 8, "B/s": 9, "W": 6, "%": 4, "": 5}
"""The usual width of a value by unit: ``1000 MiB``, ``99.9 MB/s``."""


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """A displayed column.

    Attributes:
        head: its heading; empty for a picture of the column before it.
        of: the measured column that it is or belongs to.
        rank: its place among all; the smallest ranks that fit are shown.
        width: the usual width of its cells; a picture can grow from it to ``most``.
        cell: the text of a line, for a width.
        is_known: whether a scene has values for it.
        color: that of a picture.
        left: whether it is text, aligned at the left.
        screen: whether it is on terminals only: programs read the other ones.
        heat: the style of a line's cell.
        pods: whether only lines of pods have it, not their sums.
    """

    head: str
    of: Column | None
    rank: int
    width: int
    cell: Callable[[Line, Scene, int], str]
    most: int = 0
    is_known: Callable[[Scene], bool] = bool
    color: str = ""
    left: bool = False
    screen: bool = True
    pods: bool = False
    heat: Callable[[Line], str] = lambda _: ""


class Fitted(NamedTuple):
    """A column with its width."""

    column: Shown
    width: int


def number(value: float | None, unit: str, *, binary: bool = False) -> str:
    """Return a value with its unit, or a dash while it is unknown."""
    return UNKNOWN if value is None else scaled(value, unit, binary=binary)


def _per_cent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.1%}" if share < 0.1 else f"{share:.0%}"  # noqa: PLR2004  # 9.9% 10%


def _value(column: Column) -> Callable[[Line, Scene, int], str]:
    """Return the cells of a measured column; an estimated rate has a mark."""

    def cell(line: Line, scene: Scene, width: int) -> str:
        value = line[column]
        is_estimated = column.is_rate and not column.of_cgroup and line.estimated
        mark = MARK if is_estimated and value is not None else ""
        return f"{mark}{number(value, column.unit, binary=not column.is_rate)}"

    return cell


def _bandwidth_bar(line: Line, scene: Scene, width: int) -> str:
    total = line[MBM]
    return _picture(line, width, bar(None if total is None else total / scene.most if scene.most else 0.0, width))


def _sparks(line: Line, scene: Scene, width: int) -> str:
    return _picture(line, width, sparkline(list(scene.history.get(line.name, [])), scene.most, width))


def _llc_share(line: Line, scene: Scene, width: int) -> str:
    return _per_cent(scene.share(line))


def _llc_bar(line: Line, scene: Scene, width: int) -> str:
    return _picture(line, width, bar(scene.share(line), width))


def _picture(line: Line, width: int, text: str) -> str:
    """Return a picture, which a total has not: it would be the largest."""
    return " " * width if line.kind == TOTAL else text


def _traffic(line: Line, scene: Scene, width: int) -> str:
    total, rate = scene.total[MBM], line[MBM]
    return _per_cent(rate / total if total and rate is not None else None)


def _counted(line: Line, scene: Scene, width: int) -> str:
    if line.counted is None:
        return "0%" if line.kind == POD and line.uncounted == line.members else UNKNOWN
    return f"{line.counted:.0%}"


def _has(column: Column) -> Callable[[Scene], bool]:
    return lambda scene: any(line[column] is not None for line in scene.lines)


def _has_traffic(scene: Scene) -> bool:
    return bool(scene.total[MBM])


def _has_shares(scene: Scene) -> bool:
    return bool(scene.llc_bytes) and _is_counted(scene)


def _has_history(scene: Scene) -> bool:
    return any(scene.history.values())


def _is_judged(scene: Scene) -> bool:
    return any(line.slowdown is not None for line in scene.lines)


def _is_estimated(scene: Scene) -> bool:
    return any(line.estimated or (line.uncounted and line.kind == POD) for line in scene.lines)


def _is_limited(scene: Scene) -> bool:
    return any(line.limited for line in scene.lines)


def _has_classes(scene: Scene) -> bool:
    return any(line.rdt_class for line in scene.lines if line.kind == POD)


def _is_counted(scene: Scene) -> bool:
    """Return whether something counts, or cgroups do not either: on a node without resctrl they alone do."""
    known = [one for one in COLUMNS if any(line[one] is not None for line in scene.lines)]
    return not known or any(not one.of_cgroup for one in known)


def _measured(column: Column) -> Iterator[Shown]:
    is_known = _has(column) if column.is_optional or column.of_cgroup else _is_counted
    width = max(_WIDTHS[column.unit], len(column.heading))
    yield Shown(column.heading, column, column.rank, width, _value(column), is_known=is_known, screen=False)
    if column.share:
        heading, rank = column.share.heading, column.share.rank
        yield Shown(heading, column, rank, 4, _llc_share, is_known=_has_shares, screen=False)


_MORE: Final = {
    LLC: (Shown("", LLC, 100, 8, _llc_bar, 16, _has_shares, QUANTITIES[LLC.key]),),
    MBM: (
        Shown("", MBM, 40, 8, _bandwidth_bar, 24, _is_counted, QUANTITIES[MBM.key]),
        Shown("MBM%", MBM, 130, 4, _traffic, is_known=_has_traffic),
        Shown("LAST", MBM, 140, 16, _sparks, 64, _has_history, QUANTITIES[MBM.key]),
    ),
}
"""Pictures and shares by the column that they follow."""
SHOWN: Final = (
    *(shown for column in COLUMNS for shown in (*_measured(column), *_MORE.get(column, ()))),
    Shown(
        HEADING,
        None,
        5,
        4,
        lambda line, _, __: as_text(line.slowdown),
        is_known=_is_judged,
        screen=False,
        heat=lambda line: style_of(line.slowdown),
    ),
    Shown("COUNTED", None, 45, 7, _counted, is_known=_is_estimated, screen=False),
    Shown(
        LIMITED, None, 25, 20, lambda line, _, __: as_cell(line.limited), is_known=_is_limited, left=True, screen=False
    ),
    Shown(
        "CLASS",
        None,
        150,
        8,
        lambda line, _, __: class_text(line.rdt_class) if line.kind == POD else "",
        is_known=_has_classes,
        left=True,
        pods=True,
    ),
)
"""All columns from left to right."""


def fitting(columns: Sequence[Shown], sort: str, names: int, width: int) -> list[Fitted]:
    """Return the columns that fit in a terminal, from left to right.

    The column of the order comes first, then the others by rank, up to the first one without room. What is left widens
    the pictures.

    Args:
        columns: those with values.
        sort: the key of the order.
        names: characters of the longest name.
        width: that of the terminal.
    """
    ranked = sorted(columns, key=lambda one: (not _is_sorted(one, sort), one.rank))
    chosen: dict[Shown, int] = {}
    taken = 0
    for one in ranked:
        taken += one.width + _GAP
        if chosen and taken + min(names, NAME if one.rank < LESS else LONG_NAME) > width:
            taken -= one.width + _GAP
            break
        chosen[one] = one.width
    spare = max(width - names - taken, 0)
    for one in chosen:
        more = min(spare, max(one.most - one.width, 0))
        chosen[one] += more
        spare -= more
    return [Fitted(one, chosen[one]) for one in columns if one in chosen]


def _is_sorted(column: Shown, sort: str) -> bool:
    """Return whether the lines are in the order of a column."""
    return column.of is not None and column.of.key == sort and column.head == column.of.heading
