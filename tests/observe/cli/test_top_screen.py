"""The screen of `top`: its picture at several widths, the effect of each key, and when it samples."""

import contextlib
import io
import os
import pty
import re
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

import click
import pytest
from conftest import examples
from golden import Golden
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from resctrl_hooks.core.cli.list_options import ListOptions
from resctrl_hooks.core.inventory.models import Rmids
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.observe.cli import top_live
from resctrl_hooks.observe.cli.bars import bar, sparkline
from resctrl_hooks.observe.cli.keyboard import Keys, first_key
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_screen import Screen
from resctrl_hooks.observe.inventory.rates import Line, added

PODS = (
    ("shop", "checkout-7d9f8c6b54-x2x9z", "", 1.0),
    ("shop", "cart-5b8fd6f7c4-8m2lq", "", 2.0),
    ("batch", "reports-nightly-28913760-qtz7k", "", 6.0),
    ("shop", "catalog-66c9b7d5f-kk4vw", "", 1.0),
    ("payments", "payments-0", "gold", 0.5),
    ("openshift-cluster-node-tuning-operator", "tuned-9gdxc", "", 0.1),
)


def used(amount: float | None) -> dict[str, float | None]:
    if amount is None:
        return {}
    return {"llc": amount * (1 << 20), "mbm": amount * 1e8, "local": amount * 75e6, "watts": amount * 4}


def scene(**amounts: float | None) -> Scene:
    lines = [
        Line("pod", f"{namespace}/{pod}", pod, used(amounts.get(namespace, amount)), namespace, pod, rdt_class)
        for namespace, pod, rdt_class, amount in PODS
    ]
    lines += [Line("foreign", "mon_groups/somebody", "", used(0.2)), Line("ungrouped", "(ungrouped)", "", used(0.7))]
    lines.append(added(lines, "total", "TOTAL"))
    return Scene("worker-3", "01:48:06", lines, 32 << 20, Rmids(total=64, used=9), 1)


def screen(*keys: str) -> Screen:
    made = Screen(scene())
    made.update(scene())
    for key in keys:
        made.press(key)
    return made


def picture(made: Screen, width: int = 120, height: int = 24) -> list[str]:
    out = Console(file=io.StringIO(), width=width, height=height, record=True, color_system="truecolor")
    out.print(made.render(width, height))
    assert "worker-3" in out.export_svg(title="top", clear=False).replace("&#160;", " ")
    return out.export_text().splitlines()


def names(made: Screen, height: int = 24) -> list[str]:
    lines = picture(made, 200, height)
    end = next(place for place, line in enumerate(lines) if line.startswith(("(ungrouped)", "TOTAL")))
    return [line.split()[0] for line in lines[3:end]]


BATCH = "batch/reports-nightly-28913760-qtz7k"


def test_pictures(golden: Golden) -> None:
    for width in (40, 60, 80, 130):
        lines = picture(screen(), width)
        assert len(lines) <= 24
        golden("\n".join(line.rstrip() for line in lines), f"{width} columns")
    for keys, label in ((["t"], "by namespace"), (["t", "t"], "by class"), (["?"], "help")):
        golden("\n".join(line.rstrip() for line in picture(screen(*keys), 80)), label)
    unknown = Screen(scene(batch=None))
    unknown.update(scene(batch=None))
    golden("\n".join(line.rstrip() for line in picture(unknown)), "unknown value")
    without = scene()
    without.absent = f"this node has no resctrl: {'a long reason ' * 12}"
    made = screen()
    made.update(without)
    golden("\n".join(line.rstrip() for line in picture(made, 80)), "no counters")


KEYS = st.lists(
    st.sampled_from(
        [*"tnrlmow jk", "up", "down", "pageup", "pagedown", "home", "end", "/", "a", "enter", "escape", "?"]
    ),
    max_size=8,
)


@settings(max_examples=examples(40))
@given(KEYS, st.integers(20, 140), st.integers(9, 24))
def test_any_keys_leave_a_picture_within_the_terminal(keys: list[str], width: int, height: int) -> None:
    made = screen(*keys)
    lines = picture(made, width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    made.update(scene(payments=3.0))
    assert len(picture(made, width, height)) <= height


def test_t_key_cycles_grouping_and_r_key_reverses_the_order() -> None:
    made = screen("t", "t", "t")
    assert names(made) == names(screen())
    made.press("n")
    before = names(made)
    made.press("r")
    assert names(made) == before[::-1]
    made.press("r")
    assert names(made) == before


def test_filter_is_typed_kept_and_dropped() -> None:
    made = screen("/", "q", "t", "z")  # none of them is a command now
    assert (made.quit, names(made)) == (False, [BATCH])
    assert "filter: qtz_" in picture(made)[1]
    made.press("backspace")
    made.press("enter")
    assert "filter: qt   " in picture(made)[1] + "   "
    made.press("escape")
    assert len(names(made)) == 7
    made.press("q")
    assert made.quit


@pytest.mark.parametrize(
    "by, text, total",
    [
        ("", "", "1.15 GB/s"),
        ("", "ca", "300 MB/s"),  # cart, catalog
        ("", "CART", "200 MB/s"),
        ("", "a", "960 MB/s"),  # all but checkout, mon_groups/somebody and (ungrouped)
        ("", "ungrouped", "70.0 MB/s"),
        ("", "mon_groups", "20.0 MB/s"),
        ("", "none", "-"),
        ("t", "sho", "400 MB/s"),
        ("tt", "gold", "50.0 MB/s"),
    ],
)
def test_total_is_that_of_the_lines_above_and_the_first_line_of_the_node(by: str, text: str, total: str) -> None:
    lines = picture(screen(*by, *(["/", *text, "enter"] if text else [])), 80)
    assert lines[0].startswith("worker-3  01:48:06  1.15 GB/s")
    (found,) = (line for line in lines if line.startswith("TOTAL"))
    assert re.sub("  +", "|", found).split("|")[3] == total


def test_space_pauses_and_resumes() -> None:
    made = screen(" ")
    made.update(scene(payments=50.0))
    assert "PAUSED" in picture(made)[1]
    assert names(made)[0] == BATCH
    made.press(" ")
    made.update(scene(payments=50.0))
    assert names(made)[0] == "payments/payments-0"


def test_long_table_scrolls() -> None:
    made = screen()
    whole = names(made)
    assert names(made, height=11) == whole[:3]
    assert "1 to 3 of 7" in "\n".join(picture(made, height=11))
    for keys, first in (
        (["down"], 1), (["pagedown"], 4), (["pagedown"], 4), (["up"], 3), (["home"], 0), (["end"], 4), (["k", "j"], 4),
    ):  # fmt: skip
        for key in keys:
            made.press(key)
        assert names(made, height=11) == whole[first : first + 3], keys
    assert "(ungrouped)" in "\n".join(picture(made, height=11)), "the sums stay"
    assert len(names(made, height=5)) == 1
    made.press("end")
    assert names(made) == whole, "a larger terminal shows all"


@pytest.mark.parametrize(
    "typed, keys",
    [
        ("q", ["q"]),
        ("wr", ["w", "r"]),
        ("\x1b[A\x1b[6~j", ["up", "pagedown", "j"]),
        ("\x1b", ["escape"]),
        ("\x1bOB", ["down"]),
        ("\x1b[99~x", ["", "x"]),
        ("\r\x7f", ["enter", "backspace"]),
        ("\x1b[Dq\x1bOC\x1b[1;2D\x1b[1;2C", ["left", "q", "right", "shift-left", "shift-right"]),
    ],
)
def test_terminal_keys_have_names(typed: str, keys: list[str]) -> None:
    found = []
    while typed:
        key, typed = first_key(typed)
        found.append(key)
    assert found == keys


def test_bars_and_sparklines_match_values() -> None:
    shares = (0.0, 0.5, 1.0, 2.0, 1 / 32, None)
    assert [bar(share, 4) for share in shares] == ["    ", "██  ", "████", "████", "▏   ", "·   "]
    assert sparkline([0.0, 5.0, None, 10.0], 10.0, 6) == "  ▁▅·█"
    assert sparkline([1.0, 2.0, 3.0], 0.0, 2) == "▁▁"


def test_past_is_in_the_first_line_until_the_present_returns() -> None:
    made, past = screen(), scene()
    past.past, past.note = "PAST 14:00:00 (2h ago)", "no samples in the 10m before, so no rates"
    made.show(past)
    lines = picture(made)
    assert lines[0].startswith("PAST 14:00:00 (2h ago)  worker-3")
    assert "no samples in the 10m before, so no rates" in lines[1]
    made.update(scene())
    assert picture(made)[0].startswith("PAST"), "a sample of the present does not end the past"
    made.show(None)
    assert picture(made)[0].startswith("worker-3  01:48:06")


def test_entered_time_is_asked_for_once_and_a_message_stays_until_the_next_key() -> None:
    made = screen()
    for key in ("g", "1", "4", "x", "backspace", ":", "0", "0"):
        made.press(key)
        assert not made.takes_keys
    assert "go to time: 14:00_" in picture(made)[1]
    made.press("enter")
    assert (made.asked(), made.asked(), made.takes_keys) == ("14:00", "", True)
    made.press("g")
    made.press("escape")
    assert (made.asked(), made.takes_keys) == ("", True)
    made.show_message("no sample at 14:00")
    assert "no sample at 14:00" in picture(made)[1]
    made.press("down")
    assert "no sample at 14:00" not in picture(made)[1]


class _Samples:
    """Scenes of the present; `scenes` notes that another L3 cache was selected."""

    def __init__(self, log: list[str]) -> None:
        self._log = log
        self.scenes = self

    def first(self) -> Scene:
        return Scene("node", "first", [])

    def next(self) -> Scene:
        self._log.append("sample")
        return scene()

    def turn_domain(self) -> None:
        self._log.append("turn present")


class _Past:
    """Scenes of the past, which note where a key leads; `x` is refused."""

    def __init__(self, log: list[str]) -> None:
        self._log = log
        self.scenes = self

    def at(self, when: float) -> Scene:
        self._log.append(f"at {when:.0f}")
        if when == 0:
            raise HookError("no sample there")
        return scene()

    def pressed(self, key: str) -> Scene | None:
        self._log.append(f"key {key}")
        if key == "{":
            raise click.BadParameter("no labels")
        return None if key == "right" else scene()

    def scene(self) -> Scene:
        self._log.append("again")
        return scene()

    def turn_domain(self) -> None:
        self._log.append("turn past")

    def leave(self) -> None:
        self._log.append("leave")


class Live:
    """A screen that gets keys from a list, one each tenth of a second, and notes what happens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.opened = 0
        self.now = 100.0
        self.waits: list[float] = []
        self._keys: Iterator[str] = iter(())
        self._step = 0.1
        monkeypatch.setattr(top_live, "Keys", lambda: self)
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
        return _Past(self.log)

    def run(self, *keys: str, step: float = 0.0, when: float | None = None, interval: float = 2.0) -> list[str]:
        self.log.clear()
        self._keys, self._step = iter(keys), step
        samples: Any = _Samples(self.log)
        top_live.show_live(samples, interval, ListOptions(sort="mbm"), "pod", self.past, when)
        return self.log[:-1]


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Live:
    return Live(monkeypatch)


@pytest.mark.parametrize(
    "keys, log",
    [
        (["d"], ["turn present"]),
        (["left", "d"], ["key left", "turn past", "again"]),
        (["left", "end", "d"], ["key left", "leave", "turn present"]),
        (["left", "right", "d"], ["key left", "key right", "turn present"]),
        (["end"], []),
        (["{"], ["key {", "say Invalid value: no labels"]),
        (["/", "d", "left", "end", "enter"], []),
        (["?", "d", "left"], ["key left"]),
        (["g", "d", "enter"], ["say "]),
    ],
)
def test_key_leads_to_the_present_or_the_past(live: Live, keys: list[str], log: list[str]) -> None:
    found = live.run(*keys, "q")
    assert [one.partition("'")[0] if one.startswith("say 'd'") else one for one in found] == log
    assert live.opened == any("key" in one for one in found)


def test_history_is_opened_once_and_a_time_without_a_sample_is_reported(live: Live) -> None:
    assert live.run("left", "[", "q", when=50.0) == ["at 50", "key left", "key ["]
    assert live.opened == 1
    assert live.run("q", when=0.0) == ["at 0", "say no sample there"]


def test_entered_time_is_shown(live: Live) -> None:
    found = live.run("g", *"2001-09-09T01:46:40Z", "enter", "q")
    assert found == ["at 1000000000"]
    (said,) = live.run("g", "x", "enter", "q")
    assert said.startswith("say 'x' is not a time")


def test_first_sample_comes_soon_and_others_at_the_interval(live: Live) -> None:
    keys = [""] * 7 + ["q"]
    assert live.run(*keys, step=0.25, interval=1.0) == ["sample"] * 2
    assert live.waits == [0.5, 0.25, 1.0, 0.75, 0.5, 0.25, 1.0, 0.75]
    live.waits.clear()
    assert live.run("", "q", step=0.25, interval=0.25) == ["sample"] * 2
    assert live.waits == [0.25, 0.25]


@pytest.mark.parametrize("error", [KeyboardInterrupt, EOFError])
def test_interrupt_and_end_of_the_terminal_restore_it(
    live: Live, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def pressed(_: float) -> str:
        raise error

    monkeypatch.setattr(live, "pressed", pressed)
    live.run()
    assert live.log == ["restored"]


def test_signal_ends_the_screen(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, Callable[..., Any]] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    live.run("q")
    assert handlers.keys() == {signal.SIGTERM, signal.SIGHUP}
    for handler in handlers.values():
        with pytest.raises(KeyboardInterrupt):
            handler(0, None)


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
    before = termios.tcgetattr(ours)
    with Keys() as keys:
        assert not termios.tcgetattr(ours)[3] & termios.ICANON
        assert keys.pressed(0) == keys.pressed(-1) == ""
        os.write(theirs, b"a\x1b[A\x1b[99~")
        assert [keys.pressed(5) for _ in range(3)] == ["a", "up", ""]
        assert keys.pressed(0) == ""
    assert termios.tcgetattr(ours) == before


def test_end_of_the_terminal_ends_the_keys(terminal: tuple[int, int]) -> None:
    with Keys() as keys:
        os.close(terminal[0])
        with pytest.raises(EOFError):
            keys.pressed(5)


def test_keyboard_without_a_terminal_has_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with Keys() as keys:
            assert keys.pressed(0) == ""
