"""The lines above the table of `top`: the node's sums, domains, memory, power; what has no room is left out."""

from collections.abc import Callable, Sequence

from rich.text import Text

from resctrl_hooks.core.cli.tables import counted
from resctrl_hooks.core.inventory.amounts import scaled
from resctrl_hooks.core.inventory.coverage import MARK
from resctrl_hooks.observe.cli.top_columns import UNKNOWN, number
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.inventory.columns import COLUMNS, LLC, MBM, POWER
from resctrl_hooks.observe.inventory.load_text import capacity_text, load_text
from resctrl_hooks.observe.inventory.palette import memory_title
from resctrl_hooks.observe.inventory.rates import Line
from resctrl_hooks.observe.inventory.usage_models import DomainUsage


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
    rate = number(one.memory_bandwidth_bytes_per_second, "B/s")
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
    packages, pods = number(power.packages_watts, "W"), number(power.attributed_watts, "W")
    rest, others = number(power.unattributed_watts, "W"), number(power.other_tasks_watts, "W")
    text = f"packages {packages}: {pods} attributed to pods, {rest} unattributed (cores, other tasks: {others})"
    return [_line(text, width)]


def memory_lines(scene: Scene, width: int) -> list[Text]:
    """Return a line per memory domain: traffic, load, and the pods with the most traffic."""
    found = []
    for one in scene.memory:
        mark = MARK if one.estimated else ""
        rate, capacity = one.memory_bandwidth_bytes_per_second, one.capacity_bytes_per_second
        text = f"{memory_title(one.domain)} {mark if rate is not None else ''}{number(rate, 'B/s')}"
        if capacity:
            part, source = one.load_percent, one.capacity_source
            load = UNKNOWN if part is None else f"{mark}{load_text(part / 100, source)}"
            text += f", {load} of {capacity_text(capacity, source)}"
        pods = ", ".join(f"{pod.name} {pod.share_percent:.0f}%" for pod in one.pods)
        found.append(_line(f"{text}: {pods}" if pods else text, width))
    return found


def _line(text: str, width: int) -> Text:
    made = Text(text, no_wrap=True)
    made.truncate(width, overflow="ellipsis")
    return made


def _counters(lines: Sequence[Line]) -> str:
    known = [column for column in COLUMNS if any(line[column] is not None for line in lines)]
    return " ".join(column.name or column.key for column in known)
