"""The live screen of `top`: the present and the past on the alternate screen, moved through by keys."""

import errno
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click
from rich.console import Console
from rich.live import Live

from resctrl_hooks.core.cli.list_options import ListOptions
from resctrl_hooks.core.cli.tables import console
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.observe.cli import top_state
from resctrl_hooks.observe.cli.keyboard import CONTINUE, RESIZE, SUSPEND, Keys
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_scenes import Scenes
from resctrl_hooks.observe.cli.top_screen import Page, Screen
from resctrl_hooks.observe.cli.top_state import Mode, State
from resctrl_hooks.observe.past.times import parse_time

if TYPE_CHECKING:
    from resctrl_hooks.observe.cli.top_past import PastSamples
    from resctrl_hooks.observe.cli.top_pod import PodPage
from resctrl_hooks.observe.cli.top_samples import LiveSamples

_SOON = 0.5  # seconds until the first rates


class _Owner:
    """Does the effects of keys: moves through time, opens pods' pages, limits pods.

    The past and a page are opened by the first key that needs them.
    """

    def __init__(
        self,
        screen: Screen,
        samples: LiveSamples,
        open_past: Callable[[], "PastSamples"],
        open_page: Callable[[str], "PodPage"],
    ) -> None:
        self._screen = screen
        self._samples = samples
        self._open_past, self._open_page = open_past, open_page
        self._past: PastSamples | None = None
        self._page: PodPage | None = None
        self._effects: Mapping[str, Callable[[str], None]] = {
            top_state.DOMAIN: self._turn_domain,
            top_state.MOVE: lambda key: self._go(lambda past: past.pressed(key)),
            top_state.PRESENT: self._leave,
            top_state.TIME: self._go_to,
            top_state.OPEN: self._open,
            top_state.PLAN: lambda text: self._ask(lambda page: page.plan(text)),
            top_state.PLAN_END: lambda _: self._ask(lambda page: page.plan_end()),
            top_state.APPLY: self._apply,
        }

    def do(self, effect: top_state.Effect) -> None:
        """Do an effect; the screen shows why it cannot."""
        try:
            self._effects[effect.name](effect.text)
        except HookError as error:
            self._screen.show_message(str(error))
        except click.ClickException as error:
            self._screen.show_message(error.format_message())

    def at(self, when: float) -> None:
        """Go to a time in seconds since 1970; the screen shows why it cannot."""
        try:
            self._go(lambda past: past.at(when))
        except (HookError, click.ClickException) as error:
            self._screen.show_message(str(error))

    def sample(self, width: int) -> None:
        """Take a sample, also of the pod whose page is shown."""
        self._screen.update(self._samples.next())
        if self._page is not None and self._screen.state.mode is Mode.TABLE:
            self.close()
        if self._page is not None and not self._screen.state.paused:
            self._page.step()
            self.draw(width)

    def draw(self, width: int) -> None:
        """Draw the page of a pod for a width."""
        if self._page is not None:
            self._screen.page.lines, self._screen.page.limit = self._page.lines(width), self._page.proposal

    def close(self) -> None:
        """Close the page of a pod."""
        page, self._page = self._page, None
        if page is not None:
            page.close()

    @property
    def _scenes(self) -> Scenes:
        return self._past.scenes if self._past and self._screen.past is not None else self._samples.scenes

    def _turn_domain(self, _: str) -> None:
        self._scenes.turn_domain()
        if self._past and self._screen.past:
            self._screen.past = self._past.scene()

    def _leave(self, _: str) -> None:
        if self._past:
            self._past.leave()
        self._screen.past = None

    def _go(self, find: Callable[["PastSamples"], Scene | None]) -> None:
        self._past = self._past or self._open_past()
        self._screen.past = find(self._past)

    def _go_to(self, text: str) -> None:
        try:
            when = parse_time(text, datetime.now().astimezone()).timestamp()
        except ValueError as error:
            self._screen.show_message(str(error))
        else:
            self._go(lambda past: past.at(when))

    def _open(self, key: str) -> None:
        self.close()
        self._screen.page = Page()
        try:
            self._page = self._open_page(key)
        except (HookError, click.ClickException):
            self._screen.state = replace(self._screen.state, mode=Mode.TABLE)
            raise

    def _ask(self, plan: Callable[["PodPage"], list[str]]) -> None:
        if self._page is not None:
            self._screen.ask(plan(self._page))

    def _apply(self, _: str) -> None:
        if self._page is not None:
            self._screen.show_message(self._page.apply())


def show_live(
    samples: LiveSamples,
    interval: float,
    options: ListOptions,
    by: str,
    open_past: Callable[[], "PastSamples"],
    open_page: Callable[[str], "PodPage"],
    when: float | None,
) -> None:
    """Show the table on the alternate screen until q, Ctrl-C, SIGTERM or the terminal's end.

    Ctrl-Z stops it as any program, with the terminal as it was before.
    """
    out = console()
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    screen = Screen(samples.first(), State(options.sort, options.reverse, by))
    owner = _Owner(screen, samples, open_past, open_page)
    if when is not None:
        owner.at(when)
    try:
        while key := _until(out, screen, owner, interval):
            if key == SUSPEND:
                _suspend()
    except (KeyboardInterrupt, EOFError):
        return
    except OSError as error:
        if error.errno != errno.EIO:  # the terminal is gone
            raise
    finally:
        owner.close()


def _until(out: Console, screen: Screen, owner: _Owner, interval: float) -> str:
    """Show the screen until it ends; return `SUSPEND` or `CONTINUE` if the terminal has to be prepared again."""
    with Keys(out.file) as keys, Live(console=out, screen=True, auto_refresh=False) as live:
        until = time.monotonic() + min(interval, _SOON)
        while not screen.state.quit:
            live.update(screen.render(out.width, out.height), refresh=True)
            key = keys.pressed(until - time.monotonic())
            if key in (SUSPEND, CONTINUE):
                return key
            if key == RESIZE:
                owner.draw(out.width)
            elif key and (effect := screen.press(key)):
                owner.do(effect)
                owner.draw(out.width)
            if time.monotonic() >= until:
                owner.sample(out.width)
                until = time.monotonic() + interval
    return ""


def _suspend() -> None:
    """Stop this process as Ctrl-Z does, until it is continued."""
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    try:
        signal.raise_signal(signal.SIGTSTP)
    finally:
        signal.signal(signal.SIGTSTP, handler)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
