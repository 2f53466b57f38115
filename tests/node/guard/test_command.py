"""The guard's process: how it waits between two looks."""

import itertools
from typing import Any

import pytest

from resctrl_hooks.node.guard import command


def test_watchdog_is_served_within_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    now, served = [0.0], []
    ended: list[int] = []

    class Clock:
        """A clock that only `sleep` moves."""

        @staticmethod
        def monotonic() -> float:
            return now[0]

        @staticmethod
        def sleep(seconds: float) -> None:
            now[0] += seconds

    class Looks:
        """A guard that is ended at its second look."""

        def look(self, _: float) -> None:
            if now[0]:
                ended.append(15)

    class Watchdog:
        """systemd's."""

        def alive(self) -> float:
            served.append(now[0])
            return 0.0

    monkeypatch.setattr(command, "time", Clock)
    guard: Any = Looks()
    watchdog: Any = Watchdog()
    command._loop(guard, 60.0, watchdog, ended)
    assert now[0] == pytest.approx(60)
    assert max(later - earlier for earlier, later in itertools.pairwise(served)) < 1
