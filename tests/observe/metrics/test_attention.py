"""Conditions of the node that the metrics report beside `list`: no room for records, a late reconcile."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from core.inventory.test_attention import room
from hosts.monitored import MonitoredHost, plain_host

from observe.metrics.test_metrics import samples
from resctrl_hooks.core.inventory.attention import LATE


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    with plain_host(tmp_path, "info") as made:
        yield made


def test_full_state_directory_and_late_reconcile_are_in_metrics(
    host: MonitoredHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(seconds: float, **values: int) -> tuple[float, float]:
        monkeypatch.setattr(time, "time", lambda: real() + seconds)
        room(monkeypatch, **values)
        found = samples(host.run("metrics").stdout)
        return found["resctrl_hooks_state_free_bytes",], found["resctrl_hooks_reconcile_age_seconds",]

    real = time.time
    host.context.ledger.prepare()
    host.context.ledger.count_call("reconcile", 0.1)
    free, age = measured(0)
    assert (free, age < LATE) == (1 << 32, True)
    free, age = measured(LATE + 60, f_bfree=0)
    assert (free, age > LATE) == (0, True)
