"""A recording as one self-contained HTML page: what happened in a sentence, in a timeline, in charts, and in tables."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from resctrl_hooks import __version__
from resctrl_hooks.core.cli.tables import counted, duration
from resctrl_hooks.core.inventory.amounts import scaled
from resctrl_hooks.observe.node.history.rows import POD

from .analysis import BANDWIDTH, MEASURES, OCCUPANCY, POWER, Measure, by_name, domains, series, together
from .answers import sentences
from .axes import TimeAxis, axis_of
from .drawing import Mark, chart
from .full import by_memory, memories
from .heat import heat_map
from .legend import Legend, legend_of
from .limits import limits_of
from .noise import answer, noisy
from .script import SCRIPT
from .slowdown import lost_time, slowed_pods
from .style import HEAD, STYLE
from .tables import (
    energy_table,
    events_table,
    full_table,
    gaps_table,
    lost_table,
    noisy_table,
    slowed_table,
    turns_table,
    use_table,
)
from .texts import domain_name, number, utc
from .timeline import marks_of_events, timeline
from .tracks import Line, Recording, User, known
from .turns import turn_rates

_POINTS: Final = 400_000
"""Points of all charts of a page, of some seven bytes each."""
_MOST_SAMPLES: Final = 2_400
"""Samples of a chart, of which a screen has room for about so many."""
_FIRST: Final = (BANDWIDTH, OCCUPANCY, POWER)
_MANY: Final = 10
_MOST_ROWS: Final = 40
"""Rows of a map that are not folded."""
_MOST_MAPPED: Final = 1_000
"""Rows of all maps of a measure."""


def page_of(
    recording: Recording, grams_per_kwh: float | None = None, capacity: Mapping[str, float] | None = None
) -> str:
    """Return the page as text, with CO2 if ``grams_per_kwh`` is given; ``capacity`` replaces the recorded one."""
    page = _Page(recording, capacity or {})
    title = f"resctrl recording of {', '.join(filter(None, recording.times)) or 'a node'}"
    rest = [measure for measure in MEASURES if measure not in _FIRST]
    first = "".join(page.charts(measure) for measure in _FIRST)
    parts = [
        f"<h1>{escape(title)}</h1>",
        *(f'<p class="answer">{escape(text)}</p>' for text in sentences(recording, page.slowed)),
        f"<p>{escape(answer(recording, page.noisy))}</p>" if domains(recording, BANDWIDTH) else "",
        page.summary(),
        page.legend.html(one for of in page.limits.values() for one in of.values()),
        timeline(recording, page.slowed, page.culprits, page.legend, page.axis, page.all_marks),
        first,
        page.heat(),
        _folded("More measures", "".join(page.charts(measure, level=3) for measure in rest), is_open=not first),
        slowed_table(page.slowed, recording),
        lost_table(lost_time(recording)),
        noisy_table(page.noisy, recording),
        full_table(recording, capacity or {}),
        use_table(recording),
        turns_table(turn_rates(recording)),
        energy_table(recording, grams_per_kwh),
        events_table(recording),
        gaps_table(recording),
        f'<div id="tip"></div><script>{SCRIPT}</script>',
    ]
    head = f"{HEAD}<title>{escape(title)}</title><style>{STYLE}</style>"
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>{"".join(parts)}</body></html>\n'


class _Page:
    """What all parts of a page have in common: the axis, the legend, the marks."""

    def __init__(self, recording: Recording, capacity: Mapping[str, float]) -> None:
        self.recording = recording
        self.slowed = slowed_pods(recording)
        self.noisy = noisy(recording)
        blamed = dict.fromkeys(user.name for pod in self.slowed for user in pod.culprits)
        loud = dict.fromkeys(time.user.name for time in self.noisy if time.user.kind == POD)
        self.culprits = [*(blamed or loud)]
        first = self.culprits[:5] + [pod.user.name for pod in self.slowed[:3]]
        self.legend: Legend = legend_of(recording, first)
        self.all_marks: list[Mark] = marks_of_events(recording)
        self.marks = [one for one in self.all_marks if one.number]
        ends = [moment for of in recording.times.values() for moment in (of.each[0], of.each[-1])]
        self.axis = TimeAxis(min(ends), max(ends))
        self.memory = memories(recording, capacity)
        self.limits = {measure: limits_of(recording, measure, self.memory) for measure in _FIRST}
        number = sum(len(domains(recording, measure)) for measure in MEASURES) or 1
        self.samples = min(_MOST_SAMPLES, _POINTS // (number * (len(self.legend.styles) + 2)))

    def summary(self) -> str:
        """Return the line with the time and the size of the recording."""
        times = max((of.each for of in self.recording.times.values()), key=len)
        start, end, samples = times[0], times[-1], len(times)
        every = f", one every {number((end - start) / (samples - 1), 's')}" if samples > 1 else ""
        pods = sum(user.kind == POD for user in self.recording.users)
        return (
            f'<p class="note">{utc(start)} to {utc(end)} ({duration(end - start)}): {samples} samples{every}; '
            f"{counted(pods, 'monitored pod')}. Made by resctrl-hooks {escape(__version__)}.</p>"
        )

    def charts(self, measure: Measure, level: int = 2) -> str:
        """Return a chart of each domain; of a measure that does not add up, a map."""
        is_bandwidth = measure is BANDWIDTH
        found = by_memory(self.recording, self.memory) if is_bandwidth else domains(self.recording, measure)
        if not found:
            return ""
        if not measure.adds:
            return f"<h{level}>{escape(measure.title)}</h{level}>{self._map(series(self.recording, measure), measure)}"
        limits = self.limits.get(measure, {})
        most: dict[str, float] = {}
        for domain, users in found.items():
            values = known(together(users.values()))
            values += known(limits[domain].line) if domain in limits else []
            most[domain] = max(values)
        made = [self._chart(measure, domain, users, most[domain]) for domain, users in found.items()]
        return f"<h{level}>{escape(measure.title)}</h{level}>{''.join(made)}"

    def _chart(self, measure: Measure, domain: str, users: Mapping[User, Line], most: float) -> str:
        caption = escape(self._caption(measure, domain))
        limit = self.limits.get(measure, {}).get(domain)
        if limit:
            largest = max(known(limit.line))
            text = scaled(largest, measure.unit, binary=measure is OCCUPANCY)
            caption += f" <small>{escape(limit.name)} {'up to ' if measure is POWER else ''}{escape(text)}</small>"
        return chart(
            caption,
            self.legend.bands(users),
            self.recording.times[next(iter(users)).host],
            self.axis,
            axis_of(most, measure.unit, binary=measure.unit == "B"),
            limits=[limit] if limit else [],
            marks=self.marks,
            most=self.samples,
        )

    def _caption(self, measure: Measure, domain: str) -> str:
        """Return the name of a domain, with its caches if they are several."""
        several = len(self.recording.times) > 1
        name = domain_name(domain, several=several)
        l3 = next((one.l3 for one in self.memory if one.name == domain and measure is BANDWIDTH), [])
        return f"memory of {', '.join(domain_name(one, several=several) for one in l3)}" if len(l3) > 1 else name

    def heat(self) -> str:
        """Return the map of all pods' bandwidth if they are more than have a colour."""
        users = {user: line for user, line in series(self.recording, BANDWIDTH).items() if user.kind == POD}
        return f"<h2>Memory bandwidth of each pod</h2>{self._map(users, BANDWIDTH)}" if len(users) > _MANY else ""

    def _map(self, users: Mapping[User, Line], measure: Measure) -> str:
        hosts: dict[str, dict[User, Line]] = {}
        for user, line in users.items():
            hosts.setdefault(user.host, {})[user] = line
        most = _MOST_MAPPED // len(hosts)
        return "".join(self._map_of(host, by_name(of), measure, most) for host, of in hosts.items())

    def _map_of(self, host: str, lines: dict[str, Line], measure: Measure, most_rows: int) -> str:
        order = sorted(lines, key=lambda name: -sum(known(lines[name])))
        marks = [Mark(one.moment) for one in self.marks]
        span = self.recording.times[host].each[0], self.recording.times[host].each[-1]

        def drawn(names: Sequence[str]) -> str:
            rows = {name: lines[name] for name in names}
            most = max(max(known(line)) for line in rows.values()) or 1.0
            note = f"Full colour is {scaled(most, measure.unit)}; half as strong is a quarter of that."
            return f'<p class="note">{note}</p>{heat_map(rows, self.axis, span, most, measure.unit, marks)}'

        rest, left_out = order[_MOST_ROWS:most_rows], len(order[max(most_rows, _MOST_ROWS) :])
        title = counted(len(rest), "more pod") + (f"; {left_out} smaller ones are left out" if left_out else "")
        return drawn(order[:_MOST_ROWS]) + (_folded(title, drawn(rest)) if rest else "")


def _folded(title: str, text: str, *, is_open: bool = False) -> str:
    return f"<details{' open' if is_open else ''}><summary>{escape(title)}</summary>{text}</details>" if text else ""
