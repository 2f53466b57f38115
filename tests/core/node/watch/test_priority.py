"""The watcher's scheduling policy."""

import os
import posix

import pytest
from hosts.faults import Fail

from resctrl_hooks.core.node.watch import priority


def test_policy_is_the_lowest_realtime_one_while_urgent(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int, int]] = []

    def record(pid: int, policy: int, parameters: os.sched_param) -> None:
        calls.append((pid, policy, parameters.sched_priority))

    monkeypatch.setattr(posix, "sched_setscheduler", record)
    priority.become_urgent()
    priority.become_ordinary()
    assert calls == [(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, 1), (0, os.SCHED_OTHER, 0)]


def test_refused_policy_is_not_an_error(fail: Fail) -> None:
    fail(posix, "sched_setscheduler", PermissionError())
    priority.become_urgent()
