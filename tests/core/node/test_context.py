"""The context of a hook, and its deadline with a clock and a timer that a test moves."""

from _signal import ITIMER_REAL, SIGALRM
from typing import Any

import pytest
from conftest import Host

from resctrl_hooks.core.node import context
from resctrl_hooks.core.node.context import LONGEST_STARVED, Context, set_deadline
from resctrl_hooks.core.node.errors import DeadlineError
from resctrl_hooks.core.node.log import ERROR, Log


class Machine:
    """Its clock, the seconds without a processor, and the timer that the hook has set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.starved = 100.0, 7.0
        self.timers: list[tuple[float, float]] = []
        self.alarm: Any = None
        monkeypatch.setattr(context, "time", self)
        monkeypatch.setattr(context, "_starved", lambda: self.starved)
        monkeypatch.setattr(context, "signal", self._handle)
        monkeypatch.setattr(context, "setitimer", self._set)
        monkeypatch.setattr(context, "pthread_sigmask", lambda *_: None)

    def monotonic(self) -> float:
        return self.now

    def _handle(self, number: int, handler: Any) -> None:
        assert number == SIGALRM
        self.alarm = handler

    def _set(self, timer: int, seconds: float, again: float = 0) -> None:
        assert timer == ITIMER_REAL
        self.timers.append((seconds, again))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.parametrize("starved, left", [(0.0, 0.0), (0.5, 0.5), (3.0, 3.0), (1000.0, LONGEST_STARVED)])
def test_deadline_is_later_by_the_time_without_a_processor(machine: Machine, starved: float, left: float) -> None:
    set_deadline(5.0)
    machine.now += 5.0
    machine.starved += starved
    if left:
        machine.alarm()
    else:
        with pytest.raises(DeadlineError):
            machine.alarm()
    assert machine.timers == [(5.0, 0.25), *([(left, 0.25)] if left else [(0, 0), (0.25, 0.25)])]
    machine.now += left
    for _ in range(2):
        with pytest.raises(DeadlineError, match="deadline of the hook exceeded"):
            machine.alarm()


def test_lock_wait_is_most_of_deadline_but_not_all(host: Host) -> None:
    host.configure(deadlineSeconds=5)
    assert host.context().monitor.patience == 4.0


def test_log_follows_settings_unless_given(host: Host) -> None:
    host.context().log(ERROR, "by the settings")
    assert "by the settings" in host.log.read_text()
    silent = Log({"target": "file", "file": f"{host.root}/another"})
    context = Context(host.context().settings, silent)
    assert context.log is silent
    assert (context.failures, context.refusable) == ([], True)
