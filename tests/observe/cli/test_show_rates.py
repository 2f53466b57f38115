"""Rates in `show`."""

import re

import pytest
from core.cli.test_list_show import host
from hosts.monitored import KEYS, MonitoredHost

HOUSES = ("lab",)
__all__ = ("host",)
pytestmark = pytest.mark.fuse


def test_show_measures_rates_on_request_and_prints_unknown_as_null(host: MonitoredHost) -> None:
    host.pod(0, "whole")
    host.context.monitor.ledger.mark("waiting", KEYS[3])
    assert host.json("show", KEYS[0])["items"][0]["rates"] is None
    words = ("show", KEYS[0], KEYS[3], "--rates", "--interval", "200ms")
    found = {one["key"]: one["rates"] for one in host.json(*words)["items"]}
    total, local = (found[KEYS[0]][f"memoryBandwidth{kind}BytesPerSecond"] for kind in ("", "Local"))
    assert 0 < local < total
    assert found[KEYS[0]]["powerWatts"] > 0
    unknown = {name: value for name, value in found[KEYS[3]].items() if name not in ("seconds", "memoryDomains")}
    assert set(unknown.values()) == {None}
    text = host.run(*words).output
    amounts = r"Rates, over [\d.]+ s\n  memory  [\d.]+ MB/s\n  local   [\d.]+ MB/s\n  power   [\d.]+ W\n"
    assert re.search(amounts, text), text
    assert "  memory  -\n  local   -\n  power   -\n" in text


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
