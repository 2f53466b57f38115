"""The interval of a time-sharing pod in the metrics."""

import pytest
from core.node.resctrl.test_turn_counts import host, rate_of_turns
from hosts.monitored import MonitoredHost

__all__ = ("host",)


def test_metrics_have_interval_of_time_sharing_pod(host: MonitoredHost) -> None:
    rate = rate_of_turns(host)
    said = host.run("metrics").stdout
    for end in ("low", "high"):
        name = f"resctrl_turns_mbm_total_{end}_bytes_per_second{{"
        (line,) = [line for line in said.splitlines() if line.startswith(name)]
        assert 'namespace="shop",pod="web-0"' in line
        assert float(line.split()[-1]) == pytest.approx(rate[end])
