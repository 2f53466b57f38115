"""What keys do on the screen of `top`: state and key become the next state and an effect, without anything else.

A `View` is what is shown at the time of the key. A selected row is always one of its rows. The selection begins with
the first key that moves it, so that until then the largest lines stay in view, and it follows its pod.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from resctrl_hooks.observe.inventory.columns import COLUMNS
from resctrl_hooks.observe.inventory.slowdown import SORT as SLOW
from resctrl_hooks.observe.inventory.usage import GROUPINGS, NO_NAMESPACE

SORT_KEYS: Final = {**{column.press: column.key for column in COLUMNS}, "s": SLOW, "n": "name"}
CLICK: Final = "click "
"""Begins a key of the mouse; the screen's line, from 0, follows."""
POD, NAMESPACE = "pod", "namespace"
_STEPS = {"up": -1, "k": -1, "down": 1, "j": 1, "home": -1_000_000, "end": 1_000_000}
_PAGES = {"pageup": -1, "pagedown": 1}


class Mode(Enum):
    """What keys mean."""

    TABLE = "table"
    HELP = "help"
    FILTER = "filter"
    TIME = "time"
    POD = "pod"
    LIMIT = "limit"
    QUESTION = "question"


class Effect(NamedTuple):
    """What the screen's owner does after a key: `EFFECTS` has the names."""

    name: str
    text: str = ""


DOMAIN, MOVE, PRESENT, TIME, OPEN, PLAN, PLAN_END, APPLY = EFFECTS = (
    *("next domain", "move in time", "return to the present", "go to a time"),
    *("open a pod's page", "plan a limit", "plan the end of a pod's limits", "apply the plan"),
)
PAST_KEYS: Final = frozenset(("left", "right", "shift-left", "shift-right", "[", "]", "{", "}"))
"""Keys that go to another moment of the history."""


class View(NamedTuple):
    """What the screen shows: the ids of all rows that can be selected, and the lengths of its parts in lines."""

    rows: tuple[str, ...] = ()
    room: int = 1
    """Rows that fit."""
    top: int = 0
    """The screen's line of the first row."""
    past: bool = False
    lines: int = 0
    """Of a pod's page."""
    page: int = 1
    """Those of them that fit."""
    limit: str = ""
    """The limit that a pod's page proposes, as options of `limit`; empty where no pod can be limited."""


@dataclass(frozen=True, slots=True)
class State:
    """State of the screen."""

    sort: str = "mbm"
    reverse: bool = False
    by: str = POD
    mode: Mode = Mode.TABLE
    paused: bool = False
    quit: bool = False
    filter: str = ""
    text: str = ""
    """The typed time or limit."""
    selected: str = ""
    """The id of the selected row; empty before the first selection."""
    place: int = 0
    """The place of the selected row when it was shown last."""
    offset: int = 0
    """The first row in view."""
    pod: str = ""
    """The id of the row whose page is shown."""
    line: int = 0
    """The first line of the page in view."""
    message: str = ""


def settled(state: State, view: View) -> State:
    """Return the state with a selection and offsets that exist in the view.

    A row that is gone is followed by the one at its place.
    """
    rows, selected, place, offset = view.rows, state.selected, state.place, state.offset
    if not rows or not selected:
        selected, place = "", 0
    elif selected in rows:
        place = rows.index(selected)
    else:
        place = min(place, len(rows) - 1)
        selected = rows[place]
    if selected:
        offset = min(max(offset, place - view.room + 1), place)
    offset = max(0, min(offset, len(rows) - view.room))
    line = max(0, min(state.line, view.lines - view.page))
    return replace(state, selected=selected, place=place, offset=offset, line=line)


def pressed(state: State, key: str, view: View) -> tuple[State, Effect | None]:
    """Return the state after a key, and its effect."""
    state = replace(settled(state, view), message="")
    return _MODES[state.mode](state, key, view)


def _table(state: State, key: str, view: View) -> tuple[State, Effect | None]:
    if key in SORT_KEYS:
        return replace(state, sort=SORT_KEYS[key]), None
    if key in PAST_KEYS:
        return state, Effect(MOVE, key)
    if key == "end" and view.past:
        return state, Effect(PRESENT)
    if key in _STEPS or key in _PAGES or key.startswith(CLICK):
        return _moved(state, key, view)
    if key == "enter":
        return _opened(state if state.selected or not view.rows else _selected(state, 0, view), view)
    return _COMMANDS[key](state) if key in _COMMANDS else (state, None)


def _moved(state: State, key: str, view: View) -> tuple[State, Effect | None]:
    if key.startswith(CLICK):
        place = int(key.removeprefix(CLICK)) - view.top + state.offset
        if not state.offset <= place < min(state.offset + view.room, len(view.rows)):
            return state, None
        return _opened(state, view) if view.rows[place] == state.selected else (_selected(state, place, view), None)
    steps = _STEPS.get(key, 0) + _PAGES.get(key, 0) * view.room
    return _selected(state, steps + (state.place if state.selected else -(steps > 0)), view), None


def _selected(state: State, place: int, view: View) -> State:
    if not view.rows:
        return state
    place = max(0, min(place, len(view.rows) - 1))
    return settled(replace(state, selected=view.rows[place], place=place), view)


def _opened(state: State, view: View) -> tuple[State, Effect | None]:
    """Open the selected row: a pod's page, or the pods of a namespace."""
    if not state.selected:
        return state, None
    if state.by == NAMESPACE and state.selected != NO_NAMESPACE:
        return replace(state, by=POD, filter=f"{state.selected}/", selected="", offset=0), None
    if state.by != POD:
        return replace(state, message="only pods and namespaces can be opened: `t` returns to pods"), None
    if view.past:
        return replace(state, message="a pod's page shows the present: End returns to it"), None
    return replace(state, mode=Mode.POD, pod=state.selected, line=0), Effect(OPEN, state.selected)


def _grouped(state: State) -> State:
    names = [*GROUPINGS]
    return replace(state, by=names[(names.index(state.by) + 1) % len(names)], selected="", offset=0)


def _escaped(state: State) -> State:
    """Remove the filter, or without one the selection."""
    return replace(state, filter="") if state.filter else replace(state, selected="", offset=0)


_COMMANDS: Final[Mapping[str, Callable[[State], tuple[State, Effect | None]]]] = {
    "q": lambda state: (replace(state, quit=True), None),
    "Q": lambda state: (replace(state, quit=True), None),
    "r": lambda state: (replace(state, reverse=not state.reverse), None),
    "t": lambda state: (_grouped(state), None),
    "?": lambda state: (replace(state, mode=Mode.HELP), None),
    "h": lambda state: (replace(state, mode=Mode.HELP), None),
    "/": lambda state: (replace(state, mode=Mode.FILTER), None),
    "g": lambda state: (replace(state, mode=Mode.TIME, text=""), None),
    "d": lambda state: (state, Effect(DOMAIN)),
    "escape": lambda state: (_escaped(state), None),
    " ": lambda state: (replace(state, paused=not state.paused), None),
    "p": lambda state: (replace(state, paused=not state.paused), None),
}


def _help(state: State, key: str, view: View) -> tuple[State, Effect | None]:
    return replace(state, mode=Mode.TABLE), None


def _filter(state: State, key: str, view: View) -> tuple[State, Effect | None]:
    if key in ("enter", "escape"):
        return replace(state, mode=Mode.TABLE, filter=state.filter if key == "enter" else ""), None
    if key in ("up", "down"):
        return _moved(state, key, view)
    return replace(state, filter=_edited(state.filter, key)), None


def _time(state: State, key: str, view: View) -> tuple[State, Effect | None]:
    if key in ("enter", "escape"):
        return replace(state, mode=Mode.TABLE), Effect(TIME, state.text) if key == "enter" and state.text else None
    return replace(state, text=_edited(state.text, key)), None


def _pod(state: State, key: str, view: View) -> tuple[State, Effect | None]:
    match key:
        case "q" | "Q":
            return replace(state, quit=True), None
        case "escape" | "left" | "backspace":
            return replace(state, mode=Mode.TABLE), None
        case "l" if view.limit:
            return replace(state, mode=Mode.LIMIT, text=view.limit), None
        case "u" if view.limit:
            return state, Effect(PLAN_END)
        case " " | "p":
            return replace(state, paused=not state.paused), None
    return settled(replace(state, line=state.line + _STEPS.get(key, 0) + _PAGES.get(key, 0) * view.page), view), None


def _limit(state: State, key: str, view: View) -> tuple[State, Effect | None]:
    if key == "escape":
        return replace(state, mode=Mode.POD), None
    if key == "enter":
        return state, Effect(PLAN, state.text)
    return replace(state, text=_edited(state.text, key)), None


def _question(state: State, key: str, view: View) -> tuple[State, Effect | None]:
    return replace(state, mode=Mode.POD), Effect(APPLY) if key in ("y", "Y") else None


_MODES: Final[Mapping[Mode, Callable[[State, str, View], tuple[State, Effect | None]]]] = {
    Mode.TABLE: _table,
    Mode.HELP: _help,
    Mode.FILTER: _filter,
    Mode.TIME: _time,
    Mode.POD: _pod,
    Mode.LIMIT: _limit,
    Mode.QUESTION: _question,
}


def _edited(text: str, key: str) -> str:
    """Return a typed text after a key."""
    if key == "backspace":
        return text[:-1]
    return text + key if len(key) == 1 and key.isprintable() else text
