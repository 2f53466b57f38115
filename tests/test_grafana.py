"""The dashboard asks for metrics that we have, by labels that they have."""

import json
import re
from pathlib import Path

from resctrl_hooks.metrics.names import domain_labels, family_of
from resctrl_hooks.metrics.pod_names import PodNames
from resctrl_hooks.metrics.pods import pod_families
from resctrl_hooks.metrics.self_metrics import own_families
from resctrl_hooks.node.features.registry import Node
from resctrl_hooks.node.log import Log
from resctrl_hooks.node.resctrl.counters import slot_at
from resctrl_hooks.node.settings import Settings

DASHBOARD = Path(__file__).parent.parent / "contrib" / "grafana" / "resctrl-hooks.json"
LABELS = {"namespace", "pod", "instance", "domain_name", "counter", "state", "stage", "reason", "le"}
"""Those of our samples that it may use, and Prometheus' own."""


def test_every_metric_of_the_dashboard_is_ours(tmp_path: Path) -> None:
    (tmp_path / "resctrl" / "mon_groups").mkdir(parents=True)
    node = Node(Settings({"resctrlPath": str(tmp_path / "resctrl"), "stateDir": str(tmp_path / "state")}), Log())
    node.ledger.prepare()
    families = [*own_families(node), *pod_families({}, PodNames(node))]
    families += [
        family_of(slot_at(path))
        for path in (
            "mon_L3_00/llc_occupancy",
            "mon_L3_00/mbm_total_bytes",
            "mon_L3_00/mbm_local_bytes",
            "mon_PERF_PKG_00/core_energy",
        )
    ]
    endings = {"gauge": [""], "counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}
    ours = {family.name + ending for family in families for ending in endings[family.type]}
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    asked = {name for expression in expressions for name in re.findall(r"\b(?:l3|perf|resctrl)_\w+", expression)}
    assert len(asked) > 8
    assert asked - ours == set()
    by = {name for text in expressions for group in re.findall(r"by \(([^)]*)\)", text) for name in group.split(", ")}
    assert by - LABELS == set()
    assert "domain_name" in domain_labels(slot_at("mon_L3_00/llc_occupancy"))


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
