"""Rates in `show`."""

import re

import pytest
from core.cli.test_list_show import host
from hosts.monitored import KEYS, MonitoredHost

HOUSES = ("lab",)
__all__ = ("host",)
pytestmark = pytest.mark.fuse


def test_rates_of_show_have_the_share_of_each_memory_domain(host: MonitoredHost) -> None:
    host.pod(0, "whole")
    host.configure(monitoring={"capacity": {"*": 1e9}})
    words = ("show", KEYS[0], "--rates", "--interval", "200ms")
    (one,) = host.json(*words)["items"]
    for part in one["rates"]["memoryDomains"]:
        assert 0 < part["sharePercent"] <= 100
        assert part["loadPercent"] > 0
    assert [part["domain"] for part in one["rates"]["memoryDomains"]] == [0, 1]
    assert re.search(r"\n  memory 0: [\d.]+ MB/s, \d+% of the domain's traffic; load \d+%\n", host.run(*words).output)
