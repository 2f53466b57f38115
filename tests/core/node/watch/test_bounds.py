"""Bounds of the exec watcher: processor time, moves of one container, requests to reconcile, and its priority."""

import os
import posix

import pytest
from hosts.faults import Fail

from resctrl_hooks.core.node.watch import priority
from resctrl_hooks.core.node.watch.bounds import Bucket, Loops, Newcomers


def test_only_the_container_in_a_loop_is_sampled_until_its_rest_is_over() -> None:
    loops = Loops(3, 10.0)
    assert [loops.admit("a", 1.0) for _ in range(5)] == [True, True, True, False, False]
    assert [loops.admit("b", 1.0) for _ in range(3)] == [True, True, True]
    assert loops.sampled == {"a": 11.0}
    loops.drain(10.9)
    assert not loops.admit("a", 10.9)
    loops.drain(11.1)
    assert loops.sampled == {}
    assert loops.admit("a", 11.1)


def nobody(_: str) -> bool:
    return False


def test_container_without_record_is_reported_once() -> None:
    newcomers = Newcomers()
    newcomers.see("/c", 100.0)
    assert not newcomers.are_late(101.0, nobody)  # its hook may still run
    assert newcomers.are_late(102.0, nobody)
    newcomers.see("/c", 103.0)
    assert not newcomers.are_late(200.0, nobody)


def test_container_with_later_record_is_not_reported() -> None:
    newcomers = Newcomers()
    newcomers.see("/c", 100.0)
    assert not newcomers.are_late(102.0, lambda cgroup: cgroup == "/c")
    newcomers.see("/c", 110.0)  # and without one again, as after a restart
    assert newcomers.are_late(112.0, nobody)


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


def test_bucket_drains_by_its_rate() -> None:
    bucket = Bucket(10)
    assert not bucket.add(10, 5.0)
    assert bucket.add(2, 5.1)
    assert not bucket.add(8, 6.1)
    assert not bucket.is_empty(6.9)
    assert bucket.is_empty(7.1)
