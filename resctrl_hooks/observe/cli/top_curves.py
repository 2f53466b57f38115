"""The curves of the node above the table of `top`, side by side where the terminal is wide and high enough."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from rich.text import Text

from resctrl_hooks.core.cli.tables import duration
from resctrl_hooks.core.inventory.amounts import scaled
from resctrl_hooks.observe.cli.bars import MARK, area
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.inventory.columns import CPU, LLC, MBM, POWER, Column
from resctrl_hooks.observe.inventory.palette import CAPACITY, QUANTITIES

HEIGHT: Final = 5
"""Lines of the curves: a title and the area."""
_LEAST_WIDTH, _LEAST_HEIGHT = 160, 24
"""The smallest terminal that has curves."""
_CURVE_WIDTH = 60  # the least of one curve
_GAP = "   "
_SAMPLES = 600


@dataclass(frozen=True, slots=True)
class _Curve:
    """A quantity of the node over time: its key in the palette, its value, the most that it can be, and its words."""

    key: str
    title: str
    value: Callable[[Scene], float | None]
    most: Callable[[Scene], float | None]
    text: Callable[[float], str]


def _total(column: Column) -> Callable[[Scene], float | None]:
    return lambda scene: scene.total[column]


def _amount(column: Column) -> Callable[[float], str]:
    return lambda value: scaled(value, column.unit, binary=not column.is_rate)


def _capacity(scene: Scene) -> float | None:
    """Return the capacity of all memory; None while one of them is unknown, or a domain is selected."""
    known = [one.capacity_bytes_per_second for one in scene.memory]
    if not known or scene.domain is not None or None in known:
        return None
    return sum(one for one in known if one is not None)


def _unbounded(_: Scene) -> None:
    """Return that a quantity has no known limit."""


_CURVES: Final = (
    _Curve("mbm", "memory bandwidth", _total(MBM), _capacity, _amount(MBM)),
    _Curve(
        "rmids",
        "RMIDs in use",
        lambda scene: scene.rmids.used if scene.rmids else None,
        lambda scene: scene.rmids.total if scene.rmids else None,
        lambda value: f"{value:.0f}",
    ),
    _Curve("llc", "L3 occupancy", _total(LLC), lambda scene: scene.llc_bytes or None, _amount(LLC)),
    _Curve("cpu", "CPUs in use", _total(CPU), _unbounded, _amount(CPU)),
    _Curve("watts", "power of the cores", _total(POWER), _unbounded, _amount(POWER)),
)
"""In the order in which a wider terminal adds them."""


@dataclass(slots=True)
class Past:
    """The node's values in the last samples, the oldest first, of the selected domain or of all."""

    domain: tuple[str, int] | None = None
    values: deque[Mapping[str, float | None]] = field(default_factory=lambda: deque(maxlen=_SAMPLES))
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_SAMPLES))

    def add(self, scene: Scene) -> None:
        """Add a sample; those of another domain are forgotten."""
        if scene.domain != self.domain:
            self.domain = scene.domain
            self.values.clear()
            self.seconds.clear()
        self.values.append({one.key: one.value(scene) for one in _CURVES})
        self.seconds.append(scene.seconds)


def curves(past: Past, scene: Scene, width: int, height: int) -> list[Text]:
    """Return the lines of the curves; none on a small terminal."""
    if width < _LEAST_WIDTH or height < _LEAST_HEIGHT:
        return []
    known = [one for one in _CURVES if any(values[one.key] is not None for values in past.values)]
    shown = known[: max(width // _CURVE_WIDTH, 1)]
    if not shown:
        return []
    wide = (width - len(_GAP) * (len(shown) - 1)) // len(shown)
    columns = [[*_lines(one, past, scene, wide)] for one in shown]
    return [Text(_GAP, no_wrap=True).join(parts) for parts in zip(*columns, strict=True)]


def _lines(one: _Curve, past: Past, scene: Scene, width: int) -> Iterator[Text]:
    values = [found[one.key] for found in past.values][-width:]
    capacity, now = one.most(scene), values[-1]
    largest = max((value for value in values if value is not None), default=0.0)
    since = duration(sum([*past.seconds][-width:]))
    room = max(width - len(since) - 2, 0)
    parts = [f"{one.title} {'-' if now is None else one.text(now)}"]
    if capacity:
        parts[0] += f" of {one.text(capacity)}"
        parts += [] if now is None else [f"{now / capacity:.0%}"]
    if largest > (capacity or 0.0):
        parts.append(f"max {one.text(largest)}")
    while len(parts) > 1 and len(", ".join(parts)) > room:
        parts.pop()
    yield Text(", ".join(parts)[:room].ljust(room), "bold", no_wrap=True).append(f"  {since}"[:width], "not bold dim")
    mark = capacity if capacity and capacity < largest else None
    for line in area(values, max(largest, capacity or 0.0), mark, width, HEIGHT - 1):
        drawn = Text(line, QUANTITIES[one.key], no_wrap=True)
        drawn.highlight_words([MARK], CAPACITY)
        yield drawn
