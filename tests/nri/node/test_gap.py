"""When the plugin makes passes by itself, with a clock of the test's own."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from resctrl_hooks.nri.node import gap as module
from resctrl_hooks.nri.node.gap import FIRST, LONGEST_WITHOUT_CONNECTION, Gap


class Passes:
    """Workers that count passes, and a clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.started = 0
        self._done: Callable[[int | None, bytes], None] | None = None

    def start(self, _: Any, __: float, done: Callable[[int | None, bytes], None]) -> None:
        self.started += 1
        self._done = done

    def end(self) -> None:
        assert self._done is not None
        self._done(0, b"")

    def after(self, seconds: float, gap: Gap) -> int:
        """Return how many passes have been started after so many seconds."""
        self.now += seconds
        gap.serve(self)  # type: ignore[arg-type]  # the part of Workers that it uses
        return self.started


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Passes:
    made = Passes()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: made.now))
    return made


@pytest.fixture
def gap() -> Gap:
    return Gap(lambda _: None)


def test_no_pass_outside_of_a_gap(passes: Passes, gap: Gap) -> None:
    assert passes.after(1000, gap) == 0
    gap.open(connected=True)
    gap.close()
    assert passes.after(1000, gap) == 0


def test_runtime_that_synchronizes_soon_causes_no_pass(passes: Passes, gap: Gap) -> None:
    gap.open(connected=True)
    assert passes.after(FIRST / 2, gap) == 0
    gap.close()
    assert passes.after(FIRST, gap) == 0


def test_passes_follow_each_other_and_never_overlap(passes: Passes, gap: Gap) -> None:
    gap.open(connected=True)
    assert passes.after(FIRST, gap) == 1
    assert passes.after(10, gap) == 1, "the first one still runs"
    passes.end()
    assert passes.after(29, gap) == 1, "a pass takes a quarter of the time at most"
    assert passes.after(1, gap) == 2


def test_new_connection_does_not_delay_the_next_pass(passes: Passes, gap: Gap) -> None:
    gap.open(connected=False)
    passes.now += FIRST / 2
    gap.open(connected=True)
    assert passes.after(FIRST / 2, gap) == 1


def test_gap_without_connection_ends_by_itself(passes: Passes, gap: Gap) -> None:
    gap.open(connected=False)
    assert passes.after(LONGEST_WITHOUT_CONNECTION + 1, gap) == 0
    gap.open(connected=True)
    assert passes.after(LONGEST_WITHOUT_CONNECTION + 1, gap) == 1


@pytest.mark.parametrize("seconds, started", [(LONGEST_WITHOUT_CONNECTION, 1), (LONGEST_WITHOUT_CONNECTION + 0.1, 0)])
def test_pass_is_due_until_the_end_of_the_gap(passes: Passes, gap: Gap, seconds: float, started: int) -> None:
    gap.open(connected=False)
    assert passes.after(seconds, gap) == started


def test_gap_that_is_opened_again_lasts_longer(passes: Passes, gap: Gap) -> None:
    gap.open(connected=False)
    passes.now += LONGEST_WITHOUT_CONNECTION - FIRST / 2
    gap.open(connected=False)
    assert passes.after(FIRST / 4, gap) == 1, "the first pass is due since the first gap"
    passes.end()
    assert passes.after(LONGEST_WITHOUT_CONNECTION - 1, gap) == 2


def test_gap_after_a_gap_has_its_first_pass_after_a_while(passes: Passes, gap: Gap) -> None:
    gap.open(connected=False)
    passes.now += LONGEST_WITHOUT_CONNECTION + 1
    gap.open(connected=False)
    assert passes.after(FIRST / 2, gap) == 0
    assert passes.after(FIRST / 2, gap) == 1


def test_short_passes_are_at_least_a_second_apart(passes: Passes, gap: Gap) -> None:
    gap.open(connected=True)
    assert passes.after(FIRST, gap) == 1
    passes.end()
    assert passes.after(FIRST - 0.1, gap) == 1
    assert passes.after(0.1, gap) == 2


def test_pass_without_a_process_is_tried_again(passes: Passes, gap: Gap, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: Any) -> None:
        passes.started += 1
        raise OSError

    monkeypatch.setattr(passes, "start", start)
    gap.open(connected=True)
    assert passes.after(FIRST, gap) == 1
    assert passes.after(0, gap) == 1
    assert passes.after(FIRST, gap) == 2


def test_pass_gets_a_minute(passes: Passes, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(passes, "start", lambda *given: asked.append(given[:2]))

    def adopt(_: Any) -> None:
        pass

    gap = Gap(adopt)
    gap.open(connected=True)
    passes.after(FIRST, gap)
    assert asked == [(adopt, 60.0)]
