"""Pictures of `top` from its state, free of effects so that tests can compare them.

It uses rich, which is required anyway: one table does not justify Textual's dependency and event loop on every node.
"""

import textwrap
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from rich.console import Group
from rich.table import Table
from rich.text import Text

from resctrl_hooks.observe.cli.class_lines import changed
from resctrl_hooks.observe.cli.lost_text import lost_lines
from resctrl_hooks.observe.cli.top_curves import Past, curves
from resctrl_hooks.observe.cli.top_help import FOOTS, HELP
from resctrl_hooks.observe.cli.top_lines import absence_lines, domain_line, head_line, memory_lines, power_lines
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_state import Effect, Mode, State, View, pressed, settled
from resctrl_hooks.observe.cli.top_table import line_id, usage_table
from resctrl_hooks.observe.inventory.columns import MBM
from resctrl_hooks.observe.inventory.rates import Line
from resctrl_hooks.observe.inventory.usage import GROUPINGS, USERS, grouped, ordered, with_total

_FRAME = 6  # lines around the table: head, state, table head, place, blank, keys
_LEAST_ROWS = 5  # pods that come before the lines above the table
_POD_FRAME = 3  # lines around a pod's page: head, blank, keys
_SPARKLINE = 64  # samples in a sparkline


@dataclass(slots=True)
class Page:
    """A pod's page: its lines for a width of the terminal, and the limit that it proposes, as options of `limit`."""

    lines: Sequence[Text] = ()
    limit: str = ""
    question: Sequence[str] = ()
    """The planned limit, or the end of limits, in words."""


@dataclass(slots=True)
class Screen:
    """What `top` shows: the newest scene, an older one while it is paused or in the past, a pod's page, and the state.

    The owner sets ``past`` and ``page``, calls `update` for each sample and `press` for each key, and does the effects.
    """

    scene: Scene
    state: State = field(default_factory=State)
    past: Scene | None = None
    page: Page = field(default_factory=Page)
    _room: int = 1
    _top: int = 0
    _page_room: int = 1
    _history: dict[str, deque[float | None]] = field(default_factory=dict)
    _node: Past = field(default_factory=Past)

    @property
    def shown(self) -> Scene:
        """The scene that is shown."""
        return self.past or self.scene

    def show_message(self, text: str) -> None:
        """Show a message until the next key."""
        self.state = replace(self.state, message=" ".join(text.split()))

    def ask(self, question: Sequence[str]) -> None:
        """Show a plan, and ask whether to apply it."""
        self.page.question = question
        self.state = replace(self.state, mode=Mode.QUESTION)

    def update(self, scene: Scene) -> None:
        """Take a new sample; a paused screen shows it after the pause."""
        self._node.add(scene)
        before, self._history = self._history, {}  # ended pods, and other domains, are forgotten
        for by in GROUPINGS:
            for line in grouped(scene.lines, by):
                name = _id(scene, by, line)
                self._history[name] = before.get(name) or deque(maxlen=_SPARKLINE)
                self._history[name].append(line[MBM])
        if not self.state.paused:
            self.scene = scene

    def press(self, key: str) -> Effect | None:
        """Handle a key, and return what the owner has to do."""
        self.state, effect = pressed(self.state, key, self.view(self._users()))
        return effect

    def view(self, users: Sequence[Line]) -> View:
        """Return what the last picture showed, with the lines of now."""
        return View(
            tuple(map(line_id, users)),
            self._room,
            self._top,
            self.past is not None,
            len(self.page.lines),
            self._page_room,
            self.page.limit,
        )

    def _lines(self) -> list[Line]:
        """Return the lines of the table in their order."""
        state, lines = self.state, grouped(self.shown.lines, self.state.by)
        if state.filter:
            lines = with_total([line for line in lines if state.filter.lower() in line.name.lower()])
        return ordered(lines, state.sort, reverse=state.reverse)

    def _users(self) -> list[Line]:
        return [line for line in self._lines() if line.kind in USERS]

    def render(self, width: int, height: int) -> Group:
        """Return the picture for a terminal of this size."""
        head = Text(head_line(self.shown, width).ljust(width), style="reverse", no_wrap=True, overflow="crop")
        match self.state.mode:
            case Mode.HELP:
                return Group(head, Text(f"\n{HELP}"))
            case Mode.POD | Mode.LIMIT | Mode.QUESTION:
                return self._pod(head, width, height)
        if not self.shown.lines:
            return Group(head, Text("\nmeasuring …"))
        return self._table(head, width, height)

    def _table(self, head: Text, width: int, height: int) -> Group:
        scene, lines = self.shown, self._lines()
        users = [line for line in lines if line.kind in USERS]
        rest = [line for line in lines if line.kind not in USERS]
        extra = [
            *([] if self.past else curves(self._node, scene, width, height)),
            *([domain_line(scene, width)] if scene.domains else []),
            *absence_lines(scene, width),
            *memory_lines(scene, width),
            *power_lines(scene, width),
            *lost_lines(scene, self.state.by, width),
            *changed(scene, self.state.by, width),
        ]
        extra = extra[: max(height - _FRAME - len(rest) - min(len(users), _LEAST_ROWS), 0)]
        self._room = max(height - _FRAME - len(rest) - len(extra), 1)
        self._top = len(extra) + 3
        state = self.state = settled(self.state, self.view(users))
        shown = users[state.offset : state.offset + self._room]
        made = self._usage([*shown, *rest], width, state.selected)
        place = ""
        if len(shown) < len(users):
            place = f"{state.offset + 1} to {state.offset + len(shown)} of {len(users)}"
        return Group(head, *extra, _cut(self._words(), width), made, Text(place, style="dim"), _foot(state.mode, width))

    def _usage(self, lines: Sequence[Line], width: int, selected: str = "") -> Table:
        scene, state = self.shown, self.state
        if self.past is None:
            scene.history = {line.name: list(self._history.get(_id(scene, state.by, line), ())) for line in lines}
        return usage_table(
            scene,
            lines,
            by=state.by,
            sort=state.sort,
            reverse=state.reverse,
            width=width,
            pictures=True,
            headers=True,
            selected=selected,
        )

    def _pod(self, head: Text, width: int, height: int) -> Group:
        """Return the page of a pod: its line of the table, and what its page has of it."""
        scene, asks = self.shown, self.page.question if self.state.mode is Mode.QUESTION else ()
        line = next((one for one in scene.lines if line_id(one) == self.state.pod), None)
        rates = [] if line is None else [self._usage([line], width)]
        room = max(height - _POD_FRAME - 2 * len(rates) - 2, 1)
        asked = [*_lines_of(asks, width)]
        if len(asked) > room:  # the question itself stays in view
            more = f"and {len(asked) - room + 1} more lines: `resctrl-hook limit --dry-run` prints all"
            asked = [*asked[: room - 1], more]
        said = [*asked, *_lines_of((self._words(),), width)]
        self._page_room = max(height - _POD_FRAME - 2 * len(rates) - len(said), 1)
        state = self.state = settled(self.state, self.view(self._users()))
        page = self.page.lines[state.line : state.line + self._page_room]
        words = [Text(one, no_wrap=True) for one in (*asked, *_lines_of((self._words(),), width))]
        return Group(head, *rates, *page, Text(), *words, _foot(state.mode, width))

    def _words(self) -> str:
        state, scene = self.state, self.shown
        if state.mode is Mode.TIME:
            return f"go to time: {state.text}_"
        if state.message:
            return state.message
        if state.mode is Mode.LIMIT:
            return f"limit: {state.text}_"
        if state.mode is Mode.QUESTION:
            return "apply this? y: yes, any other key: no"
        if state.mode is Mode.POD:
            last = min(state.line + self._page_room, len(self.page.lines))
            place = f"lines {state.line + 1} to {last} of {len(self.page.lines)}" if self.page.lines else ""
            return f"{place}{'   PAUSED' if state.paused else ''}"
        domain = "" if scene.domain is None else f"{' '.join(map(str, scene.domain))}: "
        parts = [f"{domain}{state.by} by {state.sort}{', smallest first' if state.reverse else ''}"]
        if state.mode is Mode.FILTER or state.filter:
            parts.append(f"filter: {state.filter}{'_' if state.mode is Mode.FILTER else ''}")
        if state.paused:
            parts.append("PAUSED")
        if scene.note:
            parts.append(scene.note)
        return "   ".join(parts)


def _lines_of(texts: Sequence[str], width: int) -> Iterator[str]:
    for one in texts:
        yield from textwrap.wrap(one, width) or [""]


def _cut(text: str, width: int) -> Text:
    made = Text(text, no_wrap=True)
    made.truncate(width, overflow="ellipsis")
    return made


def _foot(mode: Mode, width: int) -> Text:
    """Return the keys of a mode: as many as fit."""
    words = list(FOOTS[mode])
    while len(words) > 1 and len("  ".join(words)) > width:
        words.pop(-2)  # the last one is the way to the others
    return _cut("  ".join(words), width)


def _id(scene: Scene, by: str, line: Line) -> str:
    return f"{scene.domain} {by} {line.name}"
