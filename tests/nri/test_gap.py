"""When the plugin makes passes by itself, with a clock of the test's own."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from resctrl_hooks.nri import gap as module
from resctrl_hooks.nri.gap import FIRST, LONGEST_WITHOUT_CONNECTION, Gap


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
