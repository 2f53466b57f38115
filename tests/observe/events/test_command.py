"""`resctrl-hook events`: the loop of the DaemonSet's process, and what it says."""

from typing import Any

import pytest
from conftest import Host
from hosts.monitored import run

from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.observe.cli import events
from resctrl_hooks.observe.events.model import Condition

from .conftest import FakeApi
from .test_sender import condition


class Rounds:
    """Stands for the signal that ends the process after so many passes."""

    def __init__(self, passes: int) -> None:
        self._left = passes

    def wait(self, _: float) -> bool:
        self._left -= 1
        return self._left <= 0


@pytest.fixture
def three_passes(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """Let the command make three passes against the fake server."""
    monkeypatch.setattr(events, "api_of_pod", lambda: api.api)
    monkeypatch.setattr(events, "ended_by_signals", lambda: Rounds(3))
    return api


def answers(monkeypatch: pytest.MonkeyPatch, *found: Any) -> None:
    """Let each pass find these conditions, or fail."""
    left = iter(found)

    def conditions(*_: Any) -> list[Condition]:
        one = next(left)
        if isinstance(one, Exception):
            raise one
        return list(one)

    monkeypatch.setattr(events, "conditions", conditions)


def test_conditions_are_sent_while_enabled(host: Host, three_passes: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    host.configure(events=True)
    answers(monkeypatch, [condition()], LedgerError("the records are unreadable"), [condition(), condition("web")])
    done = run(host, "events")
    assert done.exit_code == 0, done.output
    assert three_passes.counts() == {"cart SlowedByNeighbour": 1, "web SlowedByNeighbour": 1}
    (line,) = done.stderr.splitlines()
    assert line.startswith("resctrl-hook: events: the records are unreadable")


def test_nothing_is_sent_unless_enabled(host: Host, three_passes: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch)
    done = run(host, "events")
    assert (done.exit_code, three_passes.asked) == (0, [])
    assert done.stderr.splitlines() == [
        "resctrl-hook: events: `events` is not set in the configuration; nothing is sent"
    ]


def test_command_outside_a_pod_names_the_daemonset(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    done = run(host, "events")
    assert done.exit_code == 1
    assert "the DaemonSet resctrl-hooks-events runs this command" in done.stderr
