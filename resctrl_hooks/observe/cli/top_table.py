"""The table and head line of `top`, for any terminal size; the least important columns are dropped first."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from resctrl_hooks.core.cli.tables import Name, counted, table
from resctrl_hooks.core.inventory.amounts import scaled
from resctrl_hooks.core.inventory.coverage import MARK
from resctrl_hooks.observe.cli.bars import bar, sparkline
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.inventory.columns import COLUMNS, LLC, MBM, POWER, Column
from resctrl_hooks.observe.inventory.limited import HEADING as LIMITED
from resctrl_hooks.observe.inventory.limited import as_cell
from resctrl_hooks.observe.inventory.load_text import capacity_text, load_text
from resctrl_hooks.observe.inventory.rates import POD, TOTAL, UNGROUPED, Line
from resctrl_hooks.observe.inventory.slowdown import HEADING, as_text
from resctrl_hooks.observe.inventory.usage import USERS
from resctrl_hooks.observe.inventory.usage_models import DomainUsage

_UNKNOWN = "-"
_BAR, _SPARKS = 8, 16
_STYLES = {POD: "", UNGROUPED: "dim", TOTAL: "bold"}
_FOREIGN_STYLE = "cyan"
_HOT = ((1 / 3, "red"), (1 / 5, "yellow"))
"""Share of all memory traffic from which a line is coloured. Rich omits colours where NO_COLOR is set."""


@dataclass(frozen=True, slots=True)
class _Cells:
    """A displayed column: a measured one, or a picture or share of it."""

    head: str
    of: Column | None
    least: int  # minimum width of the terminal for this column
    cell: Callable[[Line, Scene], str]
    picture: bool = False


def _cell(value: float | None, unit: str, *, binary: bool = False) -> str:
    return _UNKNOWN if value is None else scaled(value, unit, binary=binary)


def _share(line: Line, scene: Scene) -> str:
    share = scene.share(line)
    return _UNKNOWN if share is None else f"{share:.1%}" if share < 0.1 else f"{share:.0%}"  # noqa: PLR2004  # 9.9% 10%


def _bandwidth_bar(line: Line, scene: Scene) -> str:
    if line.kind == TOTAL:
        return " " * _BAR
    total = line[MBM]
    return bar(None if total is None else total / scene.most if scene.most else 0.0, _BAR)


def _sparks(line: Line, scene: Scene) -> str:
    if line.kind == TOTAL:
        return " " * _SPARKS
    return sparkline(list(scene.history.get(line.name, [])), scene.most, _SPARKS)


def _llc_bar(line: Line, scene: Scene) -> str:
    return " " * _BAR if line.kind == TOTAL else bar(scene.share(line), _BAR)


def _value(column: Column) -> Callable[[Line, Scene], str]:
    """Return the cells of a measured column; an estimated rate has a mark."""

    def cell(line: Line, scene: Scene) -> str:
        value = line[column]
        is_estimated = column.is_rate and not column.of_cgroup and line.estimated
        mark = MARK if is_estimated and value is not None else ""
        return f"{mark}{_cell(value, column.unit, binary=not column.is_rate)}"

    return cell


def _counted(line: Line, scene: Scene) -> str:
    if line.counted is None:
        return "0%" if line.kind == POD and line.uncounted == line.members else _UNKNOWN
    return f"{line.counted:.0%}"


def _slow(line: Line, scene: Scene) -> str:
    return as_text(line.slowdown)


def _limited(line: Line, scene: Scene) -> str:
    return as_cell(line.limited)


_PICTURES = {
    LLC: (_Cells("", LLC, 110, _llc_bar, picture=True),),
    MBM: (_Cells("", MBM, 76, _bandwidth_bar, picture=True), _Cells("LAST", MBM, 130, _sparks, picture=True)),
}


def _displayed() -> Iterator[_Cells]:
    """Yield all columns in their order: each measured one with its share and its pictures."""
    for column in COLUMNS:
        yield _Cells(column.heading, column, column.min_width, _value(column))
        if column.share:
            yield _Cells(column.share.heading, column, column.share.min_width, _share)
        yield from _PICTURES.get(column, ())
    yield _Cells(HEADING, None, 0, _slow)
    yield _Cells("COUNTED", None, 0, _counted)
    yield _Cells(LIMITED, None, 0, _limited)


def usage_table(
    scene: Scene, lines: Sequence[Line], *, by: str, sort: str, reverse: bool, width: int, pictures: bool, headers: bool
) -> Table:
    """Return the lines as a table of the columns that fit; ``pictures`` adds bars and sparklines."""
    known = {one for one in COLUMNS if any(line[one] is not None for line in scene.lines)}
    estimated = any(line.estimated or (line.uncounted and line.kind == POD) for line in scene.lines)
    judged = any(line.slowdown is not None for line in scene.lines)
    limited = any(line.limited for line in scene.lines)
    only_cgroups = bool(known) and all(one.of_cgroup for one in known)  # a node without resctrl
    columns = [
        column
        for column in _displayed()
        if (width >= column.least or only_cgroups)
        and (pictures or not column.picture)
        and (column.of is None or column.of in known or not (column.of.is_optional or only_cgroups))
        and (scene.llc_bytes or column.cell is not _share)
        and (estimated or column.cell is not _counted)
        and (judged or column.cell is not _slow)
        and (limited or column.cell is not _limited)
    ]
    marks = {sort: "▴" if reverse else "▾"}
    heads = [by.upper() + marks.get("name", "")]
    marked = False
    for column in columns:
        mark = marks.get(column.of.key if column.of else column.head.lower(), "") if column.head and not marked else ""
        marked = marked or bool(mark)
        heads.append(column.head + mark)
    right = frozenset(head for head, column in zip(heads[1:], columns, strict=True) if not column.picture)
    made = table(*heads, right=right, names=heads[0], headers=headers)
    for line in lines:
        name = line.name if by == "pod" or line.kind != POD else f"{line.name} ({line.members})"
        if by == "class" and line.kind == POD and line.name in scene.lowered:
            name += f" {scene.lowered[line.name]}"
        cells = (Text(column.cell(line, scene), no_wrap=True) for column in columns)
        made.add_row(
            Name(f"{MARK}{name}" if line.partial else name),
            *cells,
            style=_heat(line, scene) or _STYLES.get(line.kind, _FOREIGN_STYLE),
        )
    return made


def head_line(scene: Scene, width: int) -> str:
    """Return host, time, and as many of the node's sums as fit."""
    total = scene.total
    parts = [scene.past, scene.host] if scene.past else [scene.host, scene.time]
    if (rate := total[MBM]) is not None:
        parts.append(scaled(rate, MBM.unit))
    if scene.rmids:
        waits = f", {scene.waiting} waiting" if scene.waiting else ""
        parts.append(f"RMIDs {scene.rmids.used}/{scene.rmids.total}{waits}")
    if scene.uncounted:
        parts.append(f"{counted(scene.uncounted, 'pod')} not counted")
    if (watts := total[POWER]) is not None:
        parts.append(scaled(watts, POWER.unit))
    if (occupied := total[LLC]) is not None and scene.llc_bytes:
        parts.append(f"L3 {scaled(occupied, 'B', binary=True)} of {scaled(scene.llc_bytes, 'B', binary=True)}")
    if scene.lines:
        parts.append(f"counters {_counters(scene.lines) or 'none'}")
    while len(parts) > 1 and len("  ".join(parts)) > width:
        parts.pop()
    return "  ".join(parts)[:width]


def domain_line(scene: Scene, width: int) -> Text:
    """Return the traffic and occupancy of the domains; the selected one is underlined.

    Details are left out where they have no room. If there are still too many domains, those with the most traffic come
    first, and the number of the others is last.
    """
    for details in (_peak, _full), (_peak,), ():
        texts = [(_of_domain(one, details), (one.resource, one.domain) == scene.domain) for one in scene.domains]
        if sum(len(text) for text, _ in texts) + 3 * len(texts) - 3 <= width:
            return _joined(texts)
    busiest = sorted(scene.domains, key=lambda one: -(one.memory_bandwidth_bytes_per_second or 0))
    for left_out in range(1, len(busiest)):
        texts = [(_of_domain(one, ()), (one.resource, one.domain) == scene.domain) for one in busiest[:-left_out]]
        made = _joined([*texts, (f"+{left_out}", False)])
        if len(made) <= width:
            return made
    return Text()


def _joined(texts: Sequence[tuple[str, bool]]) -> Text:
    made = Text("   ", no_wrap=True)
    return made.join(Text(text, "underline" if selected else "", no_wrap=True) for text, selected in texts)


def _of_domain(one: DomainUsage, details: Sequence[Callable[[DomainUsage], str]]) -> str:
    rate = _cell(one.memory_bandwidth_bytes_per_second, "B/s")
    return f"{one.resource} {one.domain} {rate}" + "".join(detail(one) for detail in details)


def _peak(one: DomainUsage) -> str:
    rate, peak = one.memory_bandwidth_bytes_per_second, one.peak_bytes_per_second
    if rate is None or not peak:
        return ""
    if one.peak_is == "configured":
        return f" ({rate / peak:.0%} of {scaled(peak, 'B/s')})"
    return f" ({MARK}{rate / peak:.0%} of max so far)"


def _full(one: DomainUsage) -> str:
    if not one.llc_bytes or one.llc_occupancy_bytes is None:
        return ""
    return f", {one.llc_occupancy_bytes / one.llc_bytes:.0%} full"


def absence_lines(scene: Scene, width: int) -> list[Text]:
    """Return the line with the reason why the node has no counters; empty if it has some."""
    return [_line(scene.absent, width)] if scene.absent else []


def power_lines(scene: Scene, width: int) -> list[Text]:
    """Return the line of the packages' power; empty where the kernel does not count both it and that of pods."""
    power = scene.power
    if power is None or power.attributed_watts is None:
        return []
    packages, pods = _cell(power.packages_watts, "W"), _cell(power.attributed_watts, "W")
    rest, others = _cell(power.unattributed_watts, "W"), _cell(power.other_tasks_watts, "W")
    text = f"packages {packages}: {pods} attributed to pods, {rest} unattributed (cores, other tasks: {others})"
    return [_line(text, width)]


def memory_lines(scene: Scene, width: int) -> list[Text]:
    """Return a line per memory domain: traffic, load, and the pods with the most traffic."""
    found = []
    for one in scene.memory:
        mark = MARK if one.estimated else ""
        rate, capacity = one.memory_bandwidth_bytes_per_second, one.capacity_bytes_per_second
        text = f"memory {one.domain} {mark if rate is not None else ''}{_cell(rate, 'B/s')}"
        if capacity:
            part, source = one.load_percent, one.capacity_source
            load = _UNKNOWN if part is None else f"{mark}{load_text(part / 100, source)}"
            text += f", {load} of {capacity_text(capacity, source)}"
        pods = ", ".join(f"{pod.name} {pod.share_percent:.0f}%" for pod in one.pods)
        found.append(_line(f"{text}: {pods}" if pods else text, width))
    return found


def _line(text: str, width: int) -> Text:
    made = Text(text, no_wrap=True)
    made.truncate(width, overflow="ellipsis")
    return made


def _heat(line: Line, scene: Scene) -> str:
    """Return a pod's style by its share of all traffic."""
    total, rate = scene.total[MBM], line[MBM]
    if line.kind not in USERS or not total or rate is None:
        return ""
    return next((style for share, style in _HOT if rate >= share * total), "")


def _counters(lines: Sequence[Line]) -> str:
    known = [column for column in COLUMNS if any(line[column] is not None for line in lines)]
    return " ".join(column.name or column.key for column in known)
