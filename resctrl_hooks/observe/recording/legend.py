"""The users that have a colour of their own on the page, and the names of all bands: one legend for every chart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from resctrl_hooks.core.cli.tables import counted
from resctrl_hooks.observe.inventory.palette import SERIES
from resctrl_hooks.observe.node.history.rows import PACKAGE, POD, REST

from .analysis import BANDWIDTH, MEASURES, OCCUPANCY, POWER, Measure, by_name, series, together
from .drawing import Band, Limit
from .tracks import Line, Recording, User, known

OTHER, OUTSIDE = "rest", "outside"
_UNGROUPED: Final = "(ungrouped)"
_RANKED: Final = (BANDWIDTH, OCCUPANCY, POWER)


@dataclass(frozen=True, slots=True)
class Legend:
    """The styles of names with a colour, the largest first, and the name of all others."""

    styles: Mapping[str, str]
    others: str = ""
    has_ungrouped: bool = False

    def bands(self, users: Mapping[User, Line]) -> list[Band]:
        """Return the bands of users: those with a colour in the legend's order, the others as one, ungrouped tasks."""
        named = by_name({user: line for user, line in users.items() if user.kind != REST})
        found = [Band(name, style, named[name]) for name, style in self.styles.items() if name in named]
        rest = [line for name, line in named.items() if name not in self.styles]
        ungrouped = [line for user, line in users.items() if user.kind == REST]
        if rest:
            found.append(Band(self.others, OTHER, together(rest)))
        if ungrouped:
            found.append(Band(_UNGROUPED, OUTSIDE, together(ungrouped)))
        return found

    def style(self, name: str) -> str:
        """Return the style of a name."""
        return self.styles.get(name, OTHER)

    def html(self, limits: Iterable[Limit]) -> str:
        """Return the legend, with the lines of ``limits``, those of one style as one entry."""
        entries = [*((style, name) for name, style in self.styles.items())]
        entries += [(OTHER, self.others)] if self.others else []
        entries += [(OUTSIDE, _UNGROUPED)] if self.has_ungrouped else []
        lines: dict[str, dict[str, None]] = {}
        for one in limits:
            lines.setdefault(one.style, {})[one.name] = None
        entries += [(style, " or ".join(names)) for style, names in lines.items()]
        items = "".join(f'<li class="{style}">{escape(name)}</li>' for style, name in entries)
        return f'<ul class="legend">{items}</ul>'


def legend_of(recording: Recording, first: Sequence[str]) -> Legend:
    """Return the legend of a recording: the users with the largest shares of bandwidth, cache or power, else of others.

    ``first`` are names that have a colour in any case: pods that slowed others, and those that were slowed.
    """
    scores = _scores(recording, _RANKED) or _scores(recording, [one for one in MEASURES if one.adds])
    order = sorted(scores, key=lambda name: (name not in first, -scores[name], name))
    chosen = sorted(order[: len(SERIES)], key=lambda name: (-scores[name], name))
    pods = {user.name for user in recording.users if user.kind == POD}
    others = {user.name for user in recording.users if user.kind not in (REST, PACKAGE)} - {*chosen}
    word = "pod" if others <= pods else "user"
    return Legend(
        {name: f"s{number}" for number, name in enumerate(chosen)},
        counted(len(others), f"other {word}") if others else "",
        any(user.kind == REST for user in recording.users),
    )


def _scores(recording: Recording, measures: Iterable[Measure]) -> dict[str, float]:
    """Return the largest share of each name in one of the measures."""
    scores: dict[str, float] = {}
    for measure in measures:
        users = {user: line for user, line in series(recording, measure).items() if user.kind not in (REST, PACKAGE)}
        sums = {name: sum(known(line)) for name, line in by_name(users).items()}
        whole = sum(sums.values()) or 1.0
        for name, value in sums.items():
            scores[name] = max(scores.get(name, 0.0), value / whole)
    return scores
