"""Each layout of bandwidth counters in each command and service that reads them: values, names and units.

`L3` as on most machines, `MB` as in NVIDIA's kernels, `NODE` as in the patches under review, and an invented resource.
Ids have gaps. An Arm machine is simulated, which counts the total only.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hosts.monitored import KEYS, MonitoredHost, monitored_host
from hosts.simulated_kernel import Layout

from resctrl_hooks.lab.simulation import mounted
from resctrl_hooks.lab.simulation.machine import BYTES_PER_SECOND

HOUSES = ("lab",)
pytestmark = pytest.mark.fuse

TOTAL = "mbm_total_bytes"
LAYOUTS = {
    Layout("L3"): [0, 1], Layout("MB", "0-1,10"): [0, 1, 10], Layout("NODE", "1,4"): [1, 4], Layout("X", "3,7"): [3, 7]
}  # fmt: skip


class LayoutHost(MonitoredHost):
    """A host with one pod of one process, and where its bandwidth is counted: resource and domains."""

    resource: str
    numbers: list[int]

    @property
    def folders(self) -> list[str]:
        return [f"mon_{self.resource}_{number:02d}" for number in self.numbers]


@pytest.fixture(scope="module", params=LAYOUTS, ids=lambda layout: layout.bandwidth)
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LayoutHost]:
    root, layout = tmp_path_factory.mktemp("layout"), request.param
    machine: dict[str, Any] = {"vendor": "arm", "pmg": 8, "partids": 4, **layout._asdict()}
    machine["other_schemata"] = "MB_MIN:0=0;1=0 MB_REGION0_OPT:0=5 GMB:0=4096"
    capacity = {"monitoring": {"capacity": {"*": 1e9}}}
    with mounted(root / "resctrl", **machine) as path, monitored_host(root, path, **capacity) as made:
        made.__class__ = LayoutHost
        assert isinstance(made, LayoutHost)
        made.resource, made.numbers = layout.bandwidth, LAYOUTS[layout]
        made.pod(0, "web-0")
        yield made


def near(rate: float | None, share: float = 1.0) -> bool:
    """Return whether a rate is about a part of one process's traffic; timers of a busy machine are late."""
    return rate is not None and 0.5 * share * BYTES_PER_SECOND < rate < 1.5 * share * BYTES_PER_SECOND


def test_totals_are_of_each_domain_in_bytes(host: LayoutHost) -> None:
    time.sleep(0.1)
    found = [one for one in host.context.monitor.read(KEYS[0]) if one.counter.name == TOTAL]
    assert [(one.domain.folder, one.domain.resource, one.domain.id, one.unit) for one in found] == [
        (folder, host.resource, number, "By") for folder, number in zip(host.folders, host.numbers, strict=True)
    ]
    assert all(one.value for one in found)


def test_commands_name_the_domains_and_leave_other_schemata_alone(host: LayoutHost) -> None:
    (pod,) = host.json("list")["items"]
    assert pod["pod"] == "web-0"
    text = host.run("show", "web-0").output
    assert all(folder.removeprefix("mon_") in text for folder in host.folders), text
    made = host.run("rdt", "show", "--json")
    (root,) = json.loads(made.stdout)["items"]
    assert root["schemata"].items() >= {"MB_MIN": {"0": "0", "1": "0"}, "GMB": {"0": "4096"}}.items()
    assert (root["units"].keys(), root["state"], made.exit_code) == ({"MB"}, "not declared", 0)
    items = json.loads(host.run("doctor", "--json").stdout)["items"]
    assert not [one for one in items if "Traceback" in one["text"]]
    assert [one["level"] for one in items if one["check"] == "counters"] == ["ok"]
