"""Rules and dashboards: they use exported metrics and recorded series, alert, and work above several shards."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from hosts.http_server import Answer, Request, http_server
from hosts.monitored import MonitoredHost
from hosts.promtool import RULES, rules_of, run_promtool, values
from prometheus_client.samples import Sample
from requirements import grafana_schema

from observe.metrics.conftest import scraped
from resctrl_hooks.core.cli.tables import ROOT
from resctrl_hooks.observe.inventory.palette import KINDS, REST, SERIES
from resctrl_hooks.observe.inventory.rates import POD
from resctrl_hooks.observe.node.slowdown.causes.table import CAUSES

REPOSITORY = Path(__file__).parents[3]
METRICS_PAGE = REPOSITORY / "docs/metrics.md"
NAME = re.compile(r"(?<![\w:])(?:l3|perf|resctrl|cgroup)_\w+(?![\w:])")
RECORDED = re.compile(r"(?<![\w:])\w+:\w+:\w+")
MATCHER = re.compile(r'\b(\w+)(?:=|!=|=~|!~)"')
ANY_RESOURCE = re.compile(r'\{__name__=~"(\w*)\(l3\|mb\|node\)(\w+)"\}')
"""A metric of bandwidth that caches or memories count, in rules."""
GROUPING = re.compile(r"(?:by|on|ignoring) \(([^)]*)\)")


def test_rules_use_exported_metrics_and_labels_and_bandwidth_of_any_resource(full_host: MonitoredHost) -> None:
    samples = scraped(full_host)
    names = {sample.name for sample in samples}
    labels = {label for sample in samples for label in sample.labels} | {"instance", "job"}  # Prometheus' own
    recorded: set[str] = set()
    for rule in rules_of():
        expression = ANY_RESOURCE.sub(r"\1l3\2", rule["expr"])
        asked, of_rules = set(NAME.findall(expression)), set(RECORDED.findall(expression))
        assert asked | of_rules, rule
        assert asked <= names, rule
        recorded |= {rule.get("record", "")}
        assert of_rules <= recorded, rule
        used = {*MATCHER.findall(expression), *", ".join(GROUPING.findall(expression)).split(", ")} - {""}
        assert used <= labels, rule
    total = [rule["expr"] for rule in rules_of() if "mbm_total_bytes_total" in rule["expr"]]
    assert len(total) == 5  # pods, classes by domain and by class, ungrouped tasks, foreign groups
    assert all(ANY_RESOURCE.search(one) and "l3_mbm_total_bytes_total" not in one for one in total)
    types = {"counter", "gauge", "histogram", "summary", "untyped"}  # as `promtool check metrics` demands
    assert {name for name in names if types & {*name.split("_")}} == {"resctrl_counter_seconds_total"}


def test_every_rule_is_recorded_once_and_each_group_has_interval() -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    names = [rule["record"] for group in groups for rule in group["rules"] if "record" in rule]
    assert len(names) == len(set(names))
    assert [group["name"] for group in groups if "interval" not in group] == []


def test_each_alert_has_a_case_annotations_and_a_runbook_section() -> None:
    alerts = [rule for rule in rules_of() if "alert" in rule]
    assert len({alert["alert"] for alert in alerts}) == len(alerts) >= 5
    assert {alert["alert"] for alert in alerts} == {alert for alert, *_ in CASES if alert}
    for alert in alerts:
        assert alert["labels"]["severity"] in {"info", "warning"}
        assert {"summary", "description"} <= alert["annotations"].keys()
        page, _, section = alert["annotations"]["runbook_url"].partition("#")
        headings = re.findall(r"^#+ (.+)$", (REPOSITORY / page).read_text(), re.MULTILINE)
        assert section == alert["alert"].lower()
        assert section in {heading.lower() for heading in headings}


FAILURES = 'resctrl_hooks_failures_total{{stage="createRuntime",reason="{}"}}'
SLOWED = 'resctrl_pod_slowed_seconds_total{{cause="{}",namespace="shop",pod="cart"}}'
UNMET = 'resctrl_hooks_unmet_containers{feature="memtierd"}'
LAST = "resctrl_hooks_last_reconcile_timestamp_seconds"
ROOM = "resctrl_hooks_state_free_bytes"
BUCKET = 'resctrl_hooks_duration_seconds_bucket{{stage="createRuntime",le="{}"}}'
CLASS = 'resctrl_class_l3_mbm_total_bytes_total{rdt_class="",domain_name="mon_L3_00"}'
MOVED = 'resctrl_domain_mbm_bytes_total{domain="0"}'
CARRIES = 'resctrl_domain_capacity_bytes_per_second{domain="0"}'
INFO, OTHER = (f'resctrl_hooks_build_info{{job="resctrl-hooks"{node}}}' for node in ("", ',instance="m"'))
UP = 'up{job="resctrl-hooks"}'
HEALTHY = {
    INFO: "1x60", OTHER: "1x60", UP: "1x60", 'up{job="resctrl-hooks",instance="m"}': "1x60", CLASS: "0+60x60",
    "resctrl_scrape_ok": "1x60", "resctrl_hooks_waiting_pods": "0x60", "resctrl_hooks_queued_pods": "0x60",
    'resctrl_rmids{owner="free"}': "20x60", 'resctrl_rmids{owner="pods"}': "30x60", LAST: "0+60x60", ROOM: "1e9x60",
    UNMET: "0x60",
}  # fmt: skip
"""Two nodes where nothing is wrong; each case changes some of the first one."""
ALL_UP = (INFO, OTHER, UP, 'up{job="resctrl-hooks",instance="m"}')
WAITING, QUEUED, FREE = "resctrl_hooks_waiting_pods", "resctrl_hooks_queued_pods", 'resctrl_rmids{owner="free"}'
LEDGER, NEIGHBOUR = FAILURES.format("ledger"), SLOWED.format("memory-bandwidth")
CASES: list[tuple[str, dict[str, str], dict[str, str]]] = [
    ("ResctrlHooksMetricsMissing", dict.fromkeys(ALL_UP, "_x60"), {INFO: "_x10 1x50"}),
    # The other node continues; and a node that is removed from the cluster is no longer a target.
    ("ResctrlExporterDown", {UP: "1x20 0x40", INFO: "1x20 _x40"}, {UP: "1x20 _x40", INFO: "1x20 _x40"}),
    ("ResctrlBandwidthNearCapacity", {CLASS: "0+60x24 1440+6000x36"}, {CLASS: "0+6000x60"}),
    (
        "ResctrlMemoryDomainFull",
        {MOVED: "0+5400x60", CARRIES: "100x60"},
        {MOVED: "0+4800x20 100000+5400x4 120000+4800x36", CARRIES: "100x60"},
    ),
    ("ResctrlCannotBeRead", {"resctrl_scrape_ok": "0x60"}, {"resctrl_scrape_ok": "1x20 0x3 1x40"}),
    ("ResctrlReconcileStopped", {LAST: "0x60"}, {LAST: "0x4 240x4 480+60x55"}),
    # Room for one record more; and a file system that has just become full.
    ("ResctrlStateDirectoryFull", {ROOM: "1e9x40 4096x20"}, {ROOM: "131072x49 0x10"}),
    ("ResctrlPodsUnmonitored", {WAITING: "2x60"}, {WAITING: "0x20 2x10 0x30"}),
    # Beside pods at their limit; and pods that wait by the rules.
    ("ResctrlPodsUnmonitored", {WAITING: "9x60", QUEUED: "8x60"}, {WAITING: "9x60", QUEUED: "9x60"}),
    ("ResctrlContainersWithout", {UNMET: "1x60"}, {UNMET: "0x20 1x10 0x30"}),
    ("ResctrlRMIDsLow", {FREE: "1x60"}, {FREE: "4x60"}),
    # One failure in the node's whole uptime; and one from before the first scrape.
    ("ResctrlHookFailures", {LEDGER: "_x45 1x15"}, {LEDGER: "1x60"}),
    # The second of a reason; and failures before Prometheus started.
    ("ResctrlHookFailures", {LEDGER: "1x45 2x15"}, {UP: "_x45 1x15", INFO: "_x45 1x15", LEDGER: "_x45 3x15"}),
    # No fault of the hook.
    *(("", {}, {FAILURES.format(reason): "0+1x60"}) for reason in ("no-rmids", "rmids-busy", "task-gone", "conflict")),
    (
        "ResctrlPodSlowedByNeighbours",
        {NEIGHBOUR: "0+60x60"},
        {SLOWED.format("cpu-limit"): "0+60x60", NEIGHBOUR: "0x20 0+60x7 420x33"},
    ),
    (
        "ResctrlHookSlow",
        {BUCKET.format("1.0"): "0+1x60", BUCKET.format("2.5"): "0+9x60", BUCKET.format("+Inf"): "0+9x60"},
        {BUCKET.format(bound): "0+9x60" for bound in ("1.0", "2.5", "+Inf")},
    ),
]
"""An alert, a case that fires it, and a similar one that must not: series by name, values per minute."""


@pytest.mark.promtool
@pytest.mark.parametrize("alert, fires, silent", CASES)
def test_alert_fires_in_its_case(tmp_path: Path, alert: str, fires: dict[str, str], silent: dict[str, str]) -> None:
    """No other alert fires at 50 minutes, on healthy nodes with these series for an hour."""
    firing = 'sort(count by (alertname) (ALERTS{alertstate="firing"}))'
    for series, expected in ((fires, {f'{{alertname="{alert}"}}': 1.0} if alert else {}), (silent, {})):
        run_promtool(tmp_path, at_node(HEALTHY | series), values(firing, "50m", expected))


LAST_RATE = "instance_namespace_pod:l3_mbm_total_bytes:last_counted_rate"
UP_BY_NODE, DOWN = "instance:resctrl_exporter_up:bool", "cluster:resctrl_nodes_down:count"
LOAD = "instance_domain:resctrl_domain_load:ratio"
COVERED = "round(instance_namespace_pod:resctrl_counted:ratio15m, 0.001)"
OF_POD = '{{instance="n",namespace="shop",pod="{}"}}'
TRAFFIC = "l3_mbm_total_bytes_total{{{}}}"
COUNTED = 'resctrl_counted_seconds_total{{{},counter="mbm_total_bytes"}}'
OF_SHOP = 'namespace="shop",pod="{0}",pod_uid="{0}",container="",rdt_class="",domain_id="00",domain_name="mon_L3_00"'
A, B, C = map(OF_SHOP.format, "abc")
RECORDS: dict[str, tuple[dict[str, str], dict[str, dict[str, float]]]] = {
    "load by the capacity of the domain or the default": (
        {
            'resctrl_domain_mbm_bytes_total{domain="0"}': "0+3000x60",
            'resctrl_domain_mbm_bytes_total{domain="8"}': "0+3000x60",
            'resctrl_domain_mbm_bytes_total{domain="8",instance="m"}': "0+3000x60",
            'resctrl_domain_capacity_bytes_per_second{domain="*"}': "100x60",
            'resctrl_domain_capacity_bytes_per_second{domain="8"}': "200x60",
            # A lower bound only:
            'resctrl_domain_capacity_bytes_per_second{domain="8",instance="m",source="seen"}': "100x60",
        },
        {LOAD: {f'{LOAD}{{instance="n",domain="0"}}': 0.5, f'{LOAD}{{instance="n",domain="8"}}': 0.25}},
    ),
    # By job: its own, of which a target never answered; and node_exporter's, which has the metrics in a file.
    "a node without metrics is down": (
        {
            'up{job="resctrl-hooks",instance="never"}': "0x60",
            'up{job="node",instance="host"}': "1x60",
            'resctrl_hooks_build_info{job="node",instance="host"}': "1x20 _x40",
            'up{job="other",instance="elsewhere"}': "0x60",
            INFO: "1x60",
            UP: "1x60",
        },
        {
            UP_BY_NODE: {
                f'{UP_BY_NODE}{{instance="{node}"}}': up for node, up in (("n", 1), ("never", 0), ("host", 0))
            },
            DOWN: {DOWN: 2},
        },
    ),
    "a young pod counted all its life is covered": (
        {
            COUNTED.format('namespace="shop",pod="young"'): "_x27 0+60x30",
            COUNTED.format('namespace="shop",pod="half"'): "0+30x60",
        },
        {COVERED: {OF_POD.format("half"): 0.5, OF_POD.format("young"): 1}},
    ),
    "rates per node and kind": (
        {
            'resctrl_ungrouped_l3_mbm_total_bytes_total{rdt_class=""}': "0+240x60",
            'resctrl_foreign_l3_mbm_total_bytes_total{rdt_class="",group="kepler"}': "0+60x60",
            'resctrl_class_l3_mbm_total_bytes_total{rdt_class=""}': "0+600x60",
            'resctrl_class_l3_llc_occupancy_bytes{rdt_class=""}': "300x60",
            'resctrl_l3_size_bytes{domain_id="00"}': "1200x60",
        },
        {
            name: {name + labels: value}
            for name, labels, value in (
                ("instance:resctrl_pods_l3_mbm_total_bytes:rate5m", '{instance="n"}', 5),
                ("cluster:resctrl_class_l3_mbm_total_bytes:rate5m", "", 10),
                ("instance:resctrl_class_l3_mbm_total_bytes:rate5m", '{instance="n"}', 10),
                ("instance:resctrl_class_l3_llc_occupancy:ratio", '{instance="n"}', 0.25),
            )
        },
    ),
    # Nothing of c, which is never counted.
    "a rate of time-sharing pods uses counted seconds": (
        {
            TRAFFIC.format(A): "0+60x60", TRAFFIC.format(B): "0+60x60", TRAFFIC.format(C): "60x60",
            COUNTED.format(A): "0+60x60", COUNTED.format(B): "0+15x60", COUNTED.format(C): "1x60",
            COUNTED.format(B).replace('total_bytes"', 'local_bytes"'): "0+15x60",
        },
        {LAST_RATE: {LAST_RATE + OF_POD.format("a"): 1, LAST_RATE + OF_POD.format("b"): 4}},
    ),
}  # fmt: skip
"""By what the rules record, series and the values of queries after 30 minutes."""


def at_node(series: dict[str, str]) -> dict[str, str]:
    """Return series with an instance."""
    return {
        name if "instance=" in name else f'{name.removesuffix("}")}{"," if "{" in name else "{"}instance="n"}}': values
        for name, values in series.items()
    }


@pytest.mark.promtool
@pytest.mark.parametrize("series, expected", RECORDS.values(), ids=RECORDS)
def test_rule_records(tmp_path: Path, series: dict[str, str], expected: dict[str, dict[str, float]]) -> None:
    run_promtool(tmp_path, at_node(series), *(values(query, "30m", found) for query, found in expected.items()))


@pytest.mark.promtool
def test_alert_of_full_domain_names_largest_namespaces(tmp_path: Path) -> None:
    series = {MOVED: "0+5400x60", CARRIES: "100x60"}
    for namespace, rate in (("shop", 600), ("batch", 6000), ("a", 60), ("b", 6)):
        labels = f'namespace="{namespace}",pod="p",pod_uid="p",rdt_class=""'
        series[f"l3_mbm_total_bytes_total{{{labels}}}"] = f"0+{rate}x60"
        series[f'resctrl_counted_seconds_total{{{labels},counter="mbm_total_bytes"}}'] = "0+60x60"
    (rule,) = [rule for rule in rules_of() if rule.get("alert") == "ResctrlMemoryDomainFull"]
    begin, _, rest = rule["annotations"]["description"].partition("{{")
    end = rest.rpartition("}}")[2]
    alert = {
        "exp_labels": {"severity": "warning", "instance": "n", "domain": "0"},
        "exp_annotations": {
            "summary": "n: memory domain 0 carries 90% of its capacity",
            "description": f"{begin}batch 100B/s; shop 10B/s; a 1B/s; {end}",
            "runbook_url": rule["annotations"]["runbook_url"],
        },
    }
    asked = [{"alertname": "ResctrlMemoryDomainFull", "eval_time": "30m", "exp_alerts": [alert]}]
    run_promtool(tmp_path, at_node(series), alert_rule_test=asked)


@pytest.mark.promtool
def test_relabelled_hash_of_static_pod_is_its_key(tmp_path: Path) -> None:
    (query,) = re.findall(r"### Static pods.*?```promql\n(.*?)```", METRICS_PAGE.read_text(), re.DOTALL)
    key = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
    hash_ = f'annotation_kubernetes_io_config_hash="{key.replace("-", "")}"'
    series = {
        f'kube_pod_annotations{{uid="mirror",{hash_}}}': "1x60",
        f'l3_llc_occupancy_bytes{{pod_uid="{key}"}}': "7x60",
    }
    joined = f"l3_llc_occupancy_bytes * on (pod_uid) group_left (uid) ({query})"
    run_promtool(tmp_path, series, values(joined, "30m", {f'{{pod_uid="{key}",uid="mirror"}}': 7}))


GLOBAL_RULES = REPOSITORY / "contrib/prometheus/resctrl-hooks-global.rules.yaml"


def test_global_rules_use_series_that_shards_send_or_their_own() -> None:
    (block,) = re.findall(r"^```yaml\n(scrape_configs:.+?)^```", METRICS_PAGE.read_text(), re.MULTILINE | re.DOTALL)
    relabelled = yaml.safe_load(block)["remote_write"][0]["write_relabel_configs"]
    keep, drop = (re.compile(one["regex"]) for one in relabelled)
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
    sent: dict[str, str] = {}
    for node, up, pods, rate in (("a", 1, 3, 10), ("b", 0, 4, 20)):
        labels = f'instance="{node}",namespace="shop"'
        sent[f'instance:resctrl_exporter_up:bool{{instance="{node}"}}'] = f"{up}x30"
        sent[f'instance:resctrl_pods:count{{instance="{node}"}}'] = f"{pods}x30"
        sent[f"instance_namespace:l3_mbm_total_bytes:last_counted_rate{{{labels}}}"] = f"{rate}x30"
    counted = {"cluster:resctrl_nodes:count": 2, "cluster:resctrl_nodes_down:count": 1, "cluster:resctrl_pods:count": 7}
    checks = [values(name, "20m", {name: value}) for name, value in counted.items()]
    rate_of_all = "namespace:l3_mbm_total_bytes:last_counted_rate"
    checks.append(values(rate_of_all, "20m", {f'{rate_of_all}{{namespace="shop"}}': 30}))
    run_promtool(tmp_path, sent, *checks, rules=GLOBAL_RULES)


CONTRIB = REPOSITORY / "contrib"
FLEET, NODE = (CONTRIB / f"grafana/{name}.json" for name in ("resctrl-hooks", "resctrl-hooks-node"))
VARIABLES = {"$node": "a", "$namespace": ".*", "$pod": ".*", "$__range": "10m"}


@pytest.fixture(params=[FLEET, NODE], ids=["all nodes", "one node"])
def file(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture
def dashboard(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def queries(dashboard: dict[str, Any]) -> dict[str, str]:
    """Return the queries by panel title and letter, with everything selected."""
    found = {}
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            text = str(target["expr"])
            for variable, value in VARIABLES.items():
                text = text.replace(variable, value)
            assert not re.search(r"[$](?![12])", text)
            found[f"{panel['title']} {target['refId']}"] = text
    return found


CHECK = """import type { Dashboard } from "@grafana/schema";
type Plain<T> = T extends string ? `${T}` : T extends (infer U)[] ? Plain<U>[]
  : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
export const dashboard: Plain<Dashboard> = """


@pytest.mark.grafana
def test_schema_of_grafana_accepts_dashboards(tmp_path: Path, dashboard: dict[str, Any]) -> None:
    """The types of @grafana/schema, checked by TypeScript. A query of annotations is the data source's own."""
    for annotation in dashboard["annotations"]["list"]:
        assert annotation.pop("expr")
    folder = Path(grafana_schema())
    file = tmp_path / "dashboard.ts"
    file.write_text(CHECK + json.dumps(dashboard))
    os.symlink(folder / "node_modules", tmp_path / "node_modules")
    options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler"]
    compiler = [f"{folder}/node_modules/.bin/tsc", *options, "--target", "es2022", str(file)]
    done = subprocess.run(compiler, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    file.write_text(CHECK + json.dumps(dashboard | {"refresh": 30}))
    done = subprocess.run(compiler, capture_output=True, text=True, check=False)
    assert done.returncode != 0, "the check would find something"


def test_queries_use_recorded_series_and_panels_of_many_have_ten_lines(dashboard: dict[str, Any]) -> None:
    """A panel costs the same whatever the exporters print. Lines are ranked once over the whole range: a `topk` of each
    moment would draw every line that was ever one of them.
    """
    texts = list(queries(dashboard).values())
    texts += [variable["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    asked = {name for text in texts for name in re.findall(r"[\w:]*(?:l3|perf|resctrl)_[\w:]+", text)}
    assert len(asked) > 15
    assert asked <= {rule.get("record") for rule in rules_of()}
    assert [text for text in texts if not re.search(r"\w:\w", text)] == []
    for panel in dashboard["panels"]:
        if re.search(r"top 10|by (?:pod|namespace|node)", panel["title"]):
            for target in panel.get("targets", []):
                assert "topk(10, " in target["expr"]
                assert "[$__range] @ end()" in target["expr"]


def series_of(samples: list[Sample], instance: str) -> dict[str, str]:
    """Return a host's metrics as promtool takes them: counters go up by 600 a minute."""
    found = {}
    for sample in samples:
        labels = ",".join(f'{name}="{value}"' for name, value in {**sample.labels, "instance": instance}.items())
        rises = sample.name.endswith(("_total", "_bucket", "_count", "_sum"))
        numbers = f"{sample.value}+600x30" if rises else f"{sample.value}x30"
        found[f"{sample.name}{{{labels}}}"] = numbers
    return found


def test_colors_are_those_of_names_and_known_names_have_those_of_the_palette(dashboard: dict[str, Any]) -> None:
    """A line's colour depends on its name alone, so a pod has one in all panels."""
    colored: dict[str, set[str]] = {}
    for panel in dashboard["panels"]:
        legends = [target["legendFormat"] for target in panel.get("targets", ())]
        if panel["type"] == "timeseries" and "{{" in "".join(legends):
            assert panel["fieldConfig"]["defaults"]["color"] == {"mode": "palette-classic-by-name"}, panel["title"]
            for one in panel["fieldConfig"]["overrides"]:
                (color,) = one["properties"]
                colored.setdefault(one["matcher"]["options"], set()).add(color["value"]["fixedColor"])
            pods = {legend.rpartition(": ")[2] for legend in legends if "{{pod}}" in legend}
            assert pods <= {"{{namespace}}/{{pod}}"}, "as in `top`"
    assert {name: {*of} for name, of in colored.items()} == {
        **{cause: {color} for cause, color in zip(CAUSES, SERIES, strict=True)},
        f"class {ROOT}": {REST},
    }


@pytest.mark.promtool
def test_equal_names_on_hosts_are_separate(tmp_path: Path, full_host: MonitoredHost, dashboard: dict[str, Any]) -> None:
    samples = scraped(full_host)
    asked = queries(dashboard)
    pods = {name: expr for name, expr in asked.items() if expr.startswith("instance_namespace_pod:")}
    assert pods
    one_node = [variable["name"] for variable in dashboard["templating"]["list"]].count("node")
    instances = ("a",) if one_node else ("a", "b")
    each = {f'{{instance="{instance}",pod="{pod}"}}': 1 for instance in instances for pod in ("web", "db")}
    checks = [values(f"count by (instance, namespace, pod) ({expr})", "20m", each) for expr in pods.values()]
    checks += [values(f"count({expr}) > bool 0", "20m", {"{}": 1}) for expr in asked.values()]
    series = series_of(samples, "a") | series_of(samples, "b") | {'resctrl_scrape_ok{instance="c"}': "0x30"}
    run_promtool(tmp_path, series, *checks)


def prometheus(_: Request) -> Answer:
    """Answer any query with two series, one of which has no number at its end."""
    points = [[100.0, "1"], [101.0, "2e9"]]
    metric = {"instance": "<n>", "pod": "<p>", "state": "free"}
    result = [{"metric": metric, "values": points, "value": points[-1]}]
    result.append({"metric": metric, "values": [[100.0, "NaN"]], "value": points[0]})
    return 200, json.dumps({"data": {"result": result}}).encode()


def test_dashboard_can_be_drawn_without_grafana(tmp_path: Path, file: Path, dashboard: dict[str, Any]) -> None:
    with http_server(prometheus) as port:
        command = [sys.executable, str(CONTRIB / "draw.py"), f"http://127.0.0.1:{port}/"]
        subprocess.run([*command, str(tmp_path / "drawn.svg"), "60", str(file)], check=True)
    drawn = [*ET.parse(tmp_path / "drawn.svg").iter()]
    said = [element.text or "" for element in drawn]
    assert {panel["title"] for panel in dashboard["panels"]} <= set(said)
    assert "2.00 GB/s" in said
    assert {KINDS[POD], REST} & {element.get("stroke") for element in drawn}
    assert any("<p>" in text or "<n>" in text for text in said)


PODMAN = CONTRIB / "podman/etc"
OF_PODMAN = (PODMAN / "prometheus/prometheus.yml").read_text()
"""The configuration of Prometheus for one Podman host."""


@pytest.mark.promtool
def test_prometheus_accepts_configuration_and_rules(tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_text(OF_PODMAN)
    shutil.copy(RULES, tmp_path)
    command = ["promtool", "check", "config", "--lint=all", "--lint-fatal", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "rules found" in done.stdout) == (0, True), done.stdout + done.stderr


def test_configuration_for_podman_keeps_labels_reads_the_units_port_and_its_files_exist() -> None:
    (scrape,) = yaml.safe_load(OF_PODMAN)["scrape_configs"]
    assert scrape["honor_labels"] is True
    unit = (REPOSITORY / "contrib/systemd/resctrl-hooks-metrics.service").read_text()
    assert f"--listen {scrape['static_configs'][0]['targets'][0]}" in unit
    copied = re.findall(r"contrib/\S+(?=.* /etc/)", METRICS_PAGE.read_text())
    assert [name for name in copied if not (REPOSITORY / name).exists()] == []
    units = "".join(map(Path.read_text, PODMAN.rglob("*.container")))
    folders = re.findall(r"^Volume=(/etc/\S+?):", units, re.MULTILINE)
    made = {f"/etc/{path.parent.relative_to(PODMAN)}" for path in PODMAN.rglob("*")}
    assert set(folders) - made == {"/etc/grafana/dashboards"}
