"""`show` and the metrics with a monitoring resource that no release of this program knows."""

from pathlib import Path

import pytest
from hosts.counter_tree import say_paths
from hosts.monitored import KEYS, plain_host

from resctrl_hooks.observe.metrics.collector import NodeCollector, registry_of


def test_unknown_resource_is_shown_and_exported_as_it_is(tmp_path: Path) -> None:
    with plain_host(tmp_path, "info/L3_MON", "info/FABRIC_MON") as host:
        for name in ("L3", "FABRIC"):
            (host.resctrl / f"info/{name}_MON/num_rmids").write_text("8\n")
        say_paths(host.group(0, "web-0", mbm_total_bytes=1), {"mon_FABRIC_03/flits": 1234})
        (shown,) = [one for one in host.json("show", KEYS[0])["items"][0]["counters"] if one["counter"] == "flits"]
        expected = {"domain": "mon_FABRIC_03", "resource": "FABRIC", "id": 3, "value": 1234, "kind": "cumulative"}
        assert {name: shown[name] for name in expected} == expected
        text = host.run("show", KEYS[0]).output
        assert ["flits", "FABRIC_03", "/", "1,234"] in [line.split()[:4] for line in text.splitlines()]
        registry = registry_of(NodeCollector(host.context, lambda problem: pytest.fail(str(problem))))
        labels = {"namespace": "shop", "pod": "web-0", "pod_uid": KEYS[0], "container": "", "rdt_class": ""}
        domain = {"domain_id": "03", "domain_name": "mon_FABRIC_03"}
        assert registry.get_sample_value("fabric_flits_total", {**labels, **domain}) == 1234
