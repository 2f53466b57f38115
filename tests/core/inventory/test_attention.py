"""Conditions of the node that `list` reports at once: no room for records, a late reconcile."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hosts.faults import Fail
from hosts.monitored import MonitoredHost, plain_host

from resctrl_hooks.core.inventory.attention import LATE, reconcile_age
from resctrl_hooks.core.node import call_metrics
from resctrl_hooks.core.node.errors import HookError


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    with plain_host(tmp_path, "info") as made:
        yield made


def room(monkeypatch: pytest.MonkeyPatch, **values: int) -> None:
    found = {"f_files": 1000, "f_ffree": 10, "f_bfree": 1 << 20, "f_frsize": 4096, "f_bavail": 1 << 20} | values
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(**found))


def test_unreadable_call_metrics_have_no_age(host: MonitoredHost, fail: Fail) -> None:
    fail(call_metrics, "read", HookError("damaged"))
    assert reconcile_age(host.context) is None


def test_full_state_directory_and_late_reconcile_are_in_list(
    host: MonitoredHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed(seconds: float, **values: int) -> str:
        monkeypatch.setattr(time, "time", lambda: real() + seconds)
        room(monkeypatch, **values)
        return host.run("list").stdout.replace("\n", " ")

    real = time.time
    host.context.ledger.prepare()
    host.context.ledger.count_call("reconcile", 0.1)
    assert not any(words in listed(0) for words in ("is full", "reconcile last completed"))
    found = listed(LATE + 60, f_bfree=0)
    assert "is full: new containers start without monitoring" in found
    assert "reconcile last completed a pass" in found
