"""Fewer series: only some counters, only some namespaces; figures about the hook itself stay."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.monitored import MonitoredHost, plain_host

from observe.metrics.conftest import parse
from resctrl_hooks.observe.metrics.selection import Selection

ALL = {"l3_llc_occupancy_bytes", "l3_mbm_total_bytes", "l3_mbm_local_bytes", "resctrl_unavailable"}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Return a pod in each of three namespaces."""
    counters: dict[str, Any] = {"llc_occupancy": 1, "mbm_total_bytes": 2, "mbm_local_bytes": "Unavailable"}
    with plain_host(tmp_path) as found:
        for number, namespace in enumerate(("team-a", "team-b", "ml")):
            found.group(number, "web-0", namespace=namespace, **counters)
        yield found


def test_glob_without_matching_counter_is_useless() -> None:
    assert Selection(("llc*", "nosuch")).useless_counters(iter(["llc_occupancy"])) == ["nosuch"]


def test_counter_of_other_machines_is_accepted(host: MonitoredHost) -> None:
    assert host.run("metrics", "--counter", "core_energy").exit_code == 0


@pytest.mark.parametrize(
    "options, families, namespaces",
    [
        ([], ALL - {"l3_mbm_local_bytes"}, {"team-a", "team-b", "ml"}),
        (["--counter", "mbm_local*"], {"resctrl_unavailable"}, {"team-a", "team-b", "ml"}),
        (["-n", "team-*", "--counter", "llc*", "--counter", "mbm_total*"],
         {"l3_llc_occupancy_bytes", "l3_mbm_total_bytes"}, {"team-a", "team-b"}),
        (["-n", "none"], set(), set()),
    ],
)  # fmt: skip
def test_only_selected_series_are_exported(
    host: MonitoredHost, options: list[str], families: set[str], namespaces: set[str]
) -> None:
    done = host.run("metrics", *options)
    assert done.exit_code == 0
    found = {family.name: family for family in parse(done.stdout)}
    assert found.keys() & ALL == families
    pods = [sample for name in families for sample in found[name].samples if sample.labels["pod"]]
    assert {sample.labels["namespace"] for sample in pods} == namespaces
    assert "resctrl_hooks_runs" in found
