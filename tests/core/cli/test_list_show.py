"""`list` and `show`: the output for pods in each state."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.monitored import KEYS, MonitoredHost, monitored_host

from resctrl_hooks.core.node.refusals import record_refusal
from resctrl_hooks.lab.simulation import mounted

HOUSES = ("lab",)
pytestmark = pytest.mark.fuse


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    with mounted(tmp_path / "resctrl", rmids=16, energy=True) as path, monitored_host(tmp_path, path) as found:
        yield found


def test_show_prints_all_facts_of_one_pod(host: MonitoredHost) -> None:
    key = host.pod(0, "web-0", outside=1)
    host.context.ledger.count_call("createRuntime", 0.002, ["rmids-busy"], key)
    (shown,) = host.json("show", "shop/web-0")["items"]
    assert shown["key"] == key
    assert [len(container["outsideThreads"]) for container in shown["containers"]] == [0, 1]
    assert shown["containers"][1]["outsideThreads"][0]["thread"] == host.processes[1].pid
    names = {(counter["domain"], counter["counter"], counter["unit"]) for counter in shown["counters"]}
    assert ("mon_L3_01", "mbm_local_bytes", "By") in names
    assert ("mon_PERF_PKG_00", "core_energy", "J") in names
    assert shown["failures"][0]["reasons"] == ["rmids-busy"]
    text = host.run("show", key[:6]).output
    for word in ("shop/web-0", "partly", "1 thread outside the group", "llc_occupancy", "rmids-busy", "main0"):
        assert word in text


@pytest.mark.parametrize("what", ["shop/never", KEYS[5][:5]])
def test_show_of_pod_with_refused_container_names_the_refusal(host: MonitoredHost, what: str) -> None:
    names = {"namespace": "shop", "pod": "never", "container": "c1", "id": "d" * 64, "key": KEYS[5]}
    record_refusal(host.context.ledger.folder, names, "no RMID is free")
    said = host.run("show", what)
    assert said.exit_code == 0, said.output
    assert "refused: the pod's containers were rejected and never started" in said.stdout
    assert "shop/never/c1 was rejected: no RMID is free" in said.stdout
    (found,) = host.json("show", what, "-o", "json")["items"]
    assert (found["key"], found["state"], found["containers"]) == (KEYS[5], "refused", [])
    assert "unknown pod or container" in host.run("show", "shop/another").stderr
