"""The live screen of `top`: the present and the past on the alternate screen, moved through by keys."""

import signal
import time
from collections.abc import Callable
from datetime import datetime
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click
from rich.live import Live

from resctrl_hooks.core.cli.list_options import ListOptions
from resctrl_hooks.core.cli.tables import console
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.observe.cli.keyboard import Keys
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_scenes import Scenes
from resctrl_hooks.observe.cli.top_screen import PAST_KEYS, Screen
from resctrl_hooks.observe.past.times import parse_time

if TYPE_CHECKING:
    from resctrl_hooks.observe.cli.top_past import PastSamples
from resctrl_hooks.observe.cli.top_samples import LiveSamples

_SOON = 0.5  # seconds until the first rates


class _Shown:
    """The moments that a screen shows: the present, and the past from the first key that asks for it on."""

    def __init__(self, screen: Screen, samples: LiveSamples, open_past: Callable[[], "PastSamples"]) -> None:
        self._screen = screen
        self._samples = samples
        self._open = open_past
        self._past: PastSamples | None = None

    @property
    def scenes(self) -> Scenes:
        """The scenes whose L3 cache is selected."""
        return self._past.scenes if self._past and self._screen.past else self._samples.scenes

    def go(self, key: str) -> None:
        """Go where a key leads; the screen shows why it cannot."""
        self._show(lambda past: past.pressed(key))

    def at(self, when: float) -> None:
        """Go to a time in seconds since 1970."""
        self._show(lambda past: past.at(when))

    def turn_domain(self) -> None:
        """Show the next L3 cache."""
        self.scenes.turn_domain()
        if self._past and self._screen.past:
            self._screen.show(self._past.scene())

    def leave(self) -> None:
        """Return to the present."""
        if self._past:
            self._past.leave()
        self._screen.show(None)

    def _show(self, find: Callable[["PastSamples"], Scene | None]) -> None:
        try:
            self._past = self._past or self._open()
            self._screen.show(find(self._past))
        except HookError as error:
            self._screen.show_message(str(error))
        except click.ClickException as error:
            self._screen.show_message(error.format_message())


def show_live(
    samples: LiveSamples,
    interval: float,
    options: ListOptions,
    by: str,
    open_past: Callable[[], "PastSamples"],
    when: float | None,
) -> None:
    """Show the table on the alternate screen until q, Ctrl-C, SIGTERM or the terminal's end."""
    out = console()
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    screen = Screen(samples.first(), sort=options.sort, reverse=options.reverse, by=by)
    shown = _Shown(screen, samples, open_past)
    if when is not None:
        shown.at(when)
    try:
        with Keys() as keys, Live(console=out, screen=True, auto_refresh=False) as live:
            until = time.monotonic() + min(interval, _SOON)
            while not screen.quit:
                live.update(screen.render(out.width, out.height), refresh=True)
                key = keys.pressed(until - time.monotonic())
                if key == "d" and screen.takes_keys:
                    shown.turn_domain()
                elif key in PAST_KEYS and screen.takes_keys:
                    shown.go(key)
                elif key == "end" and screen.past and screen.takes_keys:
                    shown.leave()
                elif key:
                    screen.press(key)
                if asked := screen.asked():
                    _go_to(shown, screen, asked)
                if time.monotonic() >= until:
                    screen.update(samples.next())
                    until = time.monotonic() + interval
    except (KeyboardInterrupt, EOFError):
        return


def _go_to(shown: _Shown, screen: Screen, asked: str) -> None:
    try:
        shown.at(parse_time(asked, datetime.now().astimezone()).timestamp())
    except ValueError as error:
        screen.show_message(str(error))


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
