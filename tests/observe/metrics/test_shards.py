"""The rules of the Prometheus above several that see a part of the nodes each, as docs/metrics.md describes it."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hosts.promtool import rules_of, run_promtool, values

from observe.metrics.test_alerts import METRICS_PAGE, NAME, RECORDED, REPOSITORY

GLOBAL_RULES = REPOSITORY / "contrib/prometheus/resctrl-hooks-global.rules.yaml"
SENT = {
    'instance:resctrl_exporter_up:bool{instance="a"}': "1x30",
    'instance:resctrl_exporter_up:bool{instance="b"}': "0x30",
    'instance:resctrl_pods:count{instance="a"}': "3x30",
    'instance:resctrl_pods:count{instance="b"}': "4x30",
    'instance_namespace:l3_mbm_total_bytes:last_counted_rate{instance="a",namespace="shop"}': "10x30",
    'instance_namespace:l3_mbm_total_bytes:last_counted_rate{instance="b",namespace="shop"}': "20x30",
}
"""Series sent by two shards of one node each."""
COUNTED = {
    "cluster:resctrl_nodes:count": ("", 2),
    "cluster:resctrl_nodes_down:count": ("", 1),
    "cluster:resctrl_pods:count": ("", 7),
    "namespace:l3_mbm_total_bytes:last_counted_rate": ('{namespace="shop"}', 30),
}


def settings() -> dict[str, Any]:
    """Return the configuration in the documentation."""
    (block,) = re.findall(r"^```yaml\n(scrape_configs:.+?)^```", METRICS_PAGE.read_text(), re.MULTILINE | re.DOTALL)
    found: dict[str, Any] = yaml.safe_load(block)
    return found


def test_global_rules_use_series_that_shards_send_or_their_own() -> None:
    keep, drop = (re.compile(one["regex"]) for one in settings()["remote_write"][0]["write_relabel_configs"])
    shard = {rule["record"] for rule in rules_of() if "record" in rule}
    sent = {name for name in shard if keep.fullmatch(name) and not drop.fullmatch(name)}
    made = {rule["record"] for rule in rules_of(GLOBAL_RULES)}
    assert sent | made == shard
    assert not sent & made
    for rule in rules_of(GLOBAL_RULES):
        asked = set(RECORDED.findall(rule["expr"]))
        assert asked, rule
        assert asked <= sent | made, rule
        assert not NAME.search(rule["expr"]), rule


@pytest.mark.promtool
def test_global_rules_sum_series_of_shards(tmp_path: Path) -> None:
    checks = [values(name, "20m", {name + labels: value}) for name, (labels, value) in COUNTED.items()]
    run_promtool(tmp_path, SENT, *checks, rules=GLOBAL_RULES)
