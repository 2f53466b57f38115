"""The live screen of `top`: effects of keys, when it samples, and the terminal's mode, bars and areas."""

import contextlib
import io
import os
import pty
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NoReturn, Self

import click
import pytest
from conftest import raising
from rich.text import Text

from resctrl_hooks.core.cli.list_options import ListOptions
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.observe.cli import top_live
from resctrl_hooks.observe.cli.bars import area, bar, sparkline
from resctrl_hooks.observe.cli.keyboard import Keys, first_key
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_screen import Screen

from .test_top_screen import scene


def test_terminal_keys_have_names() -> None:
    names = {
        "q": ["q"], "wr": ["w", "r"], "\x1b[A\x1b[6~j": ["up", "pagedown", "j"], "\x1b": ["escape"], "\x1bOB": ["down"],
        "\x1b[99~x": ["", "x"], "\r\x7f": ["enter", "backspace"], "\x1b[Mq!!x": ["", "x"],
        "\x1b[<0;3;7M\x1b[<0;3;7m\x1b[<2;1;1M": ["click 6", "", ""],
        "\x1b[<64;1;1M\x1b[<65;1;1Mq": ["up", "down", "q"],
        "\x1b[Dq\x1bOC\x1b[1;2D\x1b[1;2C": ["left", "q", "right", "shift-left", "shift-right"],
    }  # fmt: skip
    for typed, keys in names.items():
        left, found = typed, []
        while left:
            key, left = first_key(left)
            found.append(key)
        assert found == keys


def test_bars_and_sparklines_match_values() -> None:
    shares = (0.0, 0.5, 1.0, 2.0, 1 / 32, None)
    assert [bar(share, 4) for share in shares] == ["    ", "██  ", "████", "████", "▏   ", "·   "]
    assert sparkline([0.0, 5.0, None, 10.0], 10.0, 6) == "  ▁▅·█"
    assert sparkline([1.0, 2.0, 3.0], 0.0, 2) == "▁▁"
    assert area([0.0, 0.01, 5.0, None, 10.0, 20.0], 10.0, 7.5, 7, 2) == ["╌╌╌╌╌██", "  ▁█ ██"]
    assert area([1.0], 0.0, 1.0, 2, 1) == area([], 5.0, None, 2, 1) == ["  "]


def noting(log: list[str], prefix: str, **methods: Callable[..., Any]) -> Any:
    """Return an object whose methods note their calls before they answer."""

    def method(name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any) -> Any:
            log.append(" ".join([prefix + name, *(f"{one:.0f}" if isinstance(one, float) else one for one in given)]))
            return answer(*given)

        return called

    made = SimpleNamespace(**{name: method(name, answer) for name, answer in methods.items()})
    made.scenes = made
    return made


def refused(text: str) -> NoReturn:
    raise (click.ClickException if text.startswith("no ") else HookError)(text)


class Live:
    """A screen that gets keys from a list, one each tenth of a second, and notes what happens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.opened = 0
        self.now = 100.0
        self.waits: list[float] = []
        self._keys: Iterator[str] = iter(())
        self._step = 0.1
        monkeypatch.setattr(top_live, "Keys", lambda _: self)
        monkeypatch.setattr(top_live, "_suspend", lambda: self.log.append("stopped"))
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        monkeypatch.setattr(Screen, "show_message", lambda _, text: self.log.append(f"say {text}"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.append("restored")

    def pressed(self, seconds: float) -> str:
        self.waits.append(round(seconds, 3))
        self.now += self._step
        return next(self._keys)

    def past(self) -> Any:
        self.opened += 1
        return noting(
            self.log, "past ",
            at=lambda when: scene() if when else refused("no sample there"),
            pressed=lambda key: refused("no labels") if key == "{" else None if key == "right" else scene(),
            scene=scene, turn_domain=str, leave=str,
        )  # fmt: skip

    def page(self, name: str) -> Any:
        self.log.append(f"open {name}")
        if name == "payments-0":
            refused("ended")
        made = noting(
            self.log, "",
            plan=lambda text: [text] if text == "--cpu 50%" else refused("no such option"),
            plan_end=list, apply=lambda: "limited", step=str, close=str,
        )  # fmt: skip
        made.proposal, made.lines = "--cpu 50%", lambda _: [Text("page")]
        return made

    def run(self, *keys: str, step: float = 0.0, when: float | None = None, interval: float = 2.0) -> list[str]:
        self.log.clear()
        self._keys, self._step = iter(keys), step
        samples = noting(self.log, "", next=scene, turn_domain=str)
        samples.first = lambda: Scene("node", "first", [])
        top_live.show_live(samples, interval, ListOptions(sort="mbm"), "pod", self.past, self.page, when)
        assert self.log[-1:] == ["restored"] or self.log[-2:] == ["restored", "close"]
        return [one for one in self.log if one != "restored"]


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Live:
    return Live(monkeypatch)


@pytest.mark.parametrize(
    "keys, log",
    [
        (["d"], ["turn_domain"]),
        (["left", "d"], ["past pressed left", "past turn_domain", "past scene"]),
        (["left", "end", "d"], ["past pressed left", "past leave", "turn_domain"]),
        (["left", "right", "d"], ["past pressed left", "past pressed right", "turn_domain"]),
        (["end"], []), (["{"], ["past pressed {", "say no labels"]), (["/", "d", "left", "end", "enter"], []),
        (["?", "d", "left"], ["past pressed left"]), (["g", "d", "enter"], ["say "]),
    ],
)  # fmt: skip
def test_key_leads_to_the_present_or_the_past(live: Live, keys: list[str], log: list[str]) -> None:
    found = live.run(*keys, "q")
    assert [one.partition("'")[0] if one.startswith("say 'd'") else one for one in found] == log
    assert live.opened == any("past" in one for one in found)


CART = "open cart-5b8fd6f7c4-8m2lq"


@pytest.mark.parametrize(
    "keys, log",
    [
        (["enter"], ["open reports-nightly-28913760-qtz7k", "next", "step", "close"]),
        (["down", "down", "enter", "escape"], [CART, "next", "close"]),
        (["n", "end", *["up"] * 3, "enter"], ["open payments-0", "say ended", "next"]),
        (["down", "down", "enter", "l", "enter", "y"],
         [CART, "plan --cpu 50%", "apply", "say limited", "next", "step", "close"]),
        (["down", "down", "enter", "l", "x", "enter", "backspace", "enter", "n"],
         [CART, "plan --cpu 50%x", "say no such option", "plan --cpu 50%", "next", "step", "close"]),
        (["down", "down", "enter", "u", "y"], [CART, "plan_end", "apply", "say limited", "next", "step", "close"]),
        (["suspend", "continue"], ["stopped", "next"]),
    ],
)  # fmt: skip
def test_page_is_opened_sampled_limited_and_closed(live: Live, keys: list[str], log: list[str]) -> None:
    """The first sample comes before the keys, the second after them."""
    found = live.run(*[""] * 6, *keys, *[""] * 25, "q", step=0.1, interval=2.5)
    assert found[0] == "next"
    assert found[1:] == log


def test_history_is_opened_once_at_an_entered_time_or_the_reason_is_shown(live: Live) -> None:
    assert live.run("left", "[", "q", when=50.0) == ["past at 50", "past pressed left", "past pressed ["]
    assert live.opened == 1
    assert live.run("q", when=0.0) == ["past at 0", "say no sample there"]
    assert live.run("g", *"2001-09-09T01:46:40Z", "enter", "q") == ["past at 1000000000"]
    (said,) = live.run("g", "x", "enter", "q")
    assert said.startswith("say 'x' is not a time")


def test_first_sample_comes_soon_and_others_at_the_interval(live: Live) -> None:
    keys = [""] * 7 + ["q"]
    assert live.run(*keys, step=0.25, interval=1.0) == ["next"] * 2
    assert live.waits == [0.5, 0.25, 1.0, 0.75, 0.5, 0.25, 1.0, 0.75]
    live.waits.clear()
    assert live.run("", "q", step=0.25, interval=0.25) == ["next"] * 2
    assert live.waits == [0.25, 0.25]


def test_interrupts_signals_and_the_terminals_end_end_the_screen(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, Callable[..., Any]] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    live.run("q")
    assert handlers.keys() == {signal.SIGTERM, signal.SIGHUP}
    for handler in handlers.values():
        with pytest.raises(KeyboardInterrupt):
            handler(0, None)
    for error in (KeyboardInterrupt(), EOFError()):
        monkeypatch.setattr(live, "pressed", raising(error))
        live.run()
        assert live.log == ["restored"]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """Return both ends of a terminal that is stdin."""
    theirs, ours = pty.openpty()
    with os.fdopen(ours, "r", closefd=True) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield theirs, ours
    with contextlib.suppress(OSError):
        os.close(theirs)  # unless the test has closed it


def test_keys_are_read_one_at_a_time_and_the_mode_is_restored(terminal: tuple[int, int]) -> None:
    theirs, ours = terminal
    before, seen, out = termios.tcgetattr(ours), [], io.StringIO()
    with Keys(out) as keys:
        assert not termios.tcgetattr(ours)[3] & termios.ICANON
        assert keys.pressed(0) == keys.pressed(-1) == ""
        os.write(theirs, b"a\x1b[A\x1b[99~")
        assert [keys.pressed(5) for _ in range(3)] == ["a", "up", ""]
        assert keys.pressed(0) == ""
        for number in (signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP):
            os.kill(os.getpid(), number)
            seen.append(keys.pressed(5))
    assert seen == ["resize", "continue", "suspend"]
    assert termios.tcgetattr(ours) == before
    assert signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL
    assert out.getvalue().count("\x1b[?1000h") == out.getvalue().count("\x1b[?1000l") == 1


def test_keys_end_with_the_terminal_or_are_none(terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    with Keys() as keys:
        os.close(terminal[0])
        with pytest.raises(EOFError):
            keys.pressed(5)
    with open(os.devnull, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with Keys() as keys:
            assert keys.pressed(0) == ""
