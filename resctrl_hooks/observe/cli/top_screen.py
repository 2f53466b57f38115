"""Picture and key handling of `top`, free of effects so that tests can compare the picture.

It uses rich, which is required anyway: one table does not justify Textual's dependency and event loop on every node.
"""

from collections import deque

from rich.console import Group
from rich.text import Text

from resctrl_hooks.observe.cli.class_lines import changed
from resctrl_hooks.observe.cli.lost_text import lost_lines
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_table import (
    absence_lines,
    domain_line,
    head_line,
    memory_lines,
    power_lines,
    usage_table,
)
from resctrl_hooks.observe.inventory.columns import COLUMNS, MBM
from resctrl_hooks.observe.inventory.rates import Line
from resctrl_hooks.observe.inventory.slowdown import HEADING, MEANING
from resctrl_hooks.observe.inventory.slowdown import SORT as SLOW
from resctrl_hooks.observe.inventory.usage import GROUPINGS, USERS, grouped, ordered, with_total

SORT_KEYS = {**{column.press: column.key for column in COLUMNS}, "s": SLOW, "n": "name"}
_LINES = {"up": -1, "k": -1, "down": 1, "j": 1, "home": -1_000_000, "end": 1_000_000}
_PAGES = {"pageup": -1, "pagedown": 1}
_FRAME = 6  # lines around the table: head, state, table head, place, blank, keys
_SPARKLINE = 64  # samples in a sparkline
PAST_KEYS = frozenset(("left", "right", "shift-left", "shift-right", "[", "]", "{", "}"))
"""Keys that go to another moment of the history."""
_FOOT = "q quit  / filter  space pause  t totals  ? help"
_HEADINGS = ", ".join(column.heading for column in COLUMNS)
_MEANINGS = "\n".join(f"{column.heading:<10}{column.meaning}" for column in COLUMNS).replace("`", "")
_HELP = f"""\
{" ".join(SORT_KEYS)}   sort by {_HEADINGS}, {HEADING} or name
r           reverse the order
t           next totals: pods, namespaces, RDT classes
d           next domain: all, then each L3 cache, then each memory that counts itself
/           filter by part of a name; Enter applies the filter, Esc removes it
space       pause or continue
up down, j k, PgUp PgDn, Home End   scroll
left right  one sample back or forth in the history; with Shift ten
[ ]  {{ }}    a minute back or forth; an hour
g           go to a time: 14:00, yesterday 14:00, 3m ago
End         return to the present
q           quit

{_MEANINGS}
{HEADING:<10}{MEANING.replace("`", "")}
LAST      MBM of the last samples; all rows have the same scale

Press any key to return."""


class Screen:
    """State of the screen: the last sample, the sort order, the filter, the grouping and the scroll position."""

    def __init__(self, scene: Scene, *, sort: str = "mbm", reverse: bool = False, by: str = "pod") -> None:
        self.sort = sort
        self.reverse = reverse
        self.by = by
        self.paused = False
        self.quit = False
        self._scene = scene
        self._filter = ""
        self._editing = False
        self._help = False
        self._offset = 0
        self._page, self._rows = 1, 0
        self._history: dict[str, deque[float | None]] = {}
        self._past: Scene | None = None
        self._time: str | None = None
        self._asked = ""
        self._message = ""

    @property
    def past(self) -> bool:
        """Whether it shows the past."""
        return self._past is not None

    def show(self, scene: Scene | None) -> None:
        """Show a scene of the past, or with None the present."""
        self._past, self._message = scene, ""

    def show_message(self, text: str) -> None:
        """Show a message until the next key."""
        self._message = text

    def asked(self) -> str:
        """Return a time that was entered, once."""
        found, self._asked = self._asked, ""
        return found

    def update(self, scene: Scene) -> None:
        """Take a new sample; a paused screen shows it after the pause."""
        for by in GROUPINGS:
            for line in grouped(scene.lines, by):
                self._history.setdefault(_id(by, line), deque(maxlen=_SPARKLINE)).append(line[MBM])
        if not self.paused:
            self._scene = scene

    @property
    def takes_keys(self) -> bool:
        """Whether a key is a command, not a character of the filter."""
        return not (self._editing or self._help or self._time is not None)

    def press(self, key: str) -> None:
        """Handle a key."""
        self._message = ""
        if self._editing:
            self._edit(key)
        elif self._time is not None:
            self._edit_time(key)
        elif self._help:
            self._help = False
        elif key in SORT_KEYS:
            self.sort = SORT_KEYS[key]
        else:
            self._command(key)

    def _command(self, key: str) -> None:
        match key:
            case "q" | "Q":
                self.quit = True
            case "r":
                self.reverse = not self.reverse
            case "t":
                names = [*GROUPINGS]
                self.by = names[(names.index(self.by) + 1) % len(names)]
                self._offset = 0
            case "?" | "h":
                self._help = True
            case "/":
                self._editing = True
            case "g":
                self._time = ""
            case "escape":
                self._filter = ""
            case " " | "p":
                self.paused = not self.paused
            case _:
                self._scroll(_LINES.get(key, 0) + _PAGES.get(key, 0) * self._page)

    def _edit(self, key: str) -> None:
        if key == "enter":
            self._editing = False
        elif key == "escape":
            self._editing, self._filter = False, ""
        else:
            self._filter = _edited(self._filter, key)
        self._offset = 0

    def _edit_time(self, key: str) -> None:
        text = self._time or ""
        if key == "enter":
            self._asked, self._time = text, None
        elif key == "escape":
            self._time = None
        else:
            self._time = _edited(text, key)

    def _scroll(self, lines: int) -> None:
        self._offset = max(0, min(self._offset + lines, self._rows - self._page))

    def render(self, width: int, height: int) -> Group:
        """Return the picture for a terminal of this size."""
        scene = self._past or self._scene
        if self._help:
            return Group(Text(head_line(scene, width), style="reverse", no_wrap=True), Text(f"\n{_HELP}"))
        if not scene.lines:
            return Group(Text(head_line(scene, width), style="reverse", no_wrap=True), Text("\nmeasuring …"))
        lines = grouped(scene.lines, self.by)
        if self._filter:
            lines = with_total([line for line in lines if self._filter.lower() in line.name.lower()])
        lines = ordered(lines, self.sort, reverse=self.reverse)
        users = [line for line in lines if line.kind in USERS]
        rest = [line for line in lines if line.kind not in USERS]
        extra = [
            *absence_lines(scene, width),
            *memory_lines(scene, width),
            *power_lines(scene, width),
            *lost_lines(scene, self.by, width),
            *changed(scene, self.by, width),
        ]
        self._page, self._rows = max(height - _FRAME - len(rest) - bool(scene.domains) - len(extra), 1), len(users)
        self._scroll(0)
        shown = users[self._offset : self._offset + self._page]
        if self._past is None:
            scene.history = {line.name: list(self._history.get(_id(self.by, line), ())) for line in lines}
        made = usage_table(
            scene,
            [*shown, *rest],
            by=self.by,
            sort=self.sort,
            reverse=self.reverse,
            width=width,
            pictures=True,
            headers=True,
        )
        return Group(
            Text(head_line(scene, width).ljust(width), style="reverse", no_wrap=True, overflow="crop"),
            *([domain_line(scene, width)] if scene.domains else []),
            *extra,
            Text(self._state(), no_wrap=True, overflow="ellipsis"),
            made,
            Text(self._place(len(shown)), style="dim"),
            Text(_FOOT, no_wrap=True, overflow="ellipsis"),
        )

    def _state(self) -> str:
        if self._time is not None:
            return f"go to time: {self._time}_"
        scene = self._past or self._scene
        if self._message:
            return self._message
        domain = "" if scene.domain is None else f"{' '.join(map(str, scene.domain))}: "
        parts = [f"{domain}{self.by} by {self.sort}{', smallest first' if self.reverse else ''}"]
        if self._editing or self._filter:
            parts.append(f"filter: {self._filter}{'_' if self._editing else ''}")
        if self.paused:
            parts.append("PAUSED")
        if scene.note:
            parts.append(scene.note)
        return "   ".join(parts)

    def _place(self, shown: int) -> str:
        if shown == self._rows:
            return ""
        return f"{self._offset + 1} to {self._offset + shown} of {self._rows}"


def _edited(text: str, key: str) -> str:
    """Return a typed text after a key."""
    if key == "backspace":
        return text[:-1]
    return text + key if len(key) == 1 and key.isprintable() else text


def _id(by: str, line: Line) -> str:
    return f"{by} {line.name}"
