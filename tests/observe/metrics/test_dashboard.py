"""The dashboards: Grafana's schema accepts them, their queries use recorded series; and the page on Podman."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from hosts.monitored import MonitoredHost
from hosts.promtool import rules_of, run_promtool, values
from prometheus_client.samples import Sample
from requirements import grafana_schema

from observe.metrics.conftest import scraped

CONTRIB = Path(__file__).parents[3] / "contrib"
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
            assert "$" not in text
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


def test_every_query_uses_recorded_series(dashboard: dict[str, Any]) -> None:
    """So a panel costs the same whatever the exporters print; and only these series need be kept for long."""
    texts = list(queries(dashboard).values())
    texts += [variable["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    asked = {name for text in texts for name in re.findall(r"[\w:]*(?:l3|perf|resctrl)_[\w:]+", text)}
    assert len(asked) > 15
    assert asked <= {rule.get("record") for rule in rules_of()}
    assert [text for text in texts if not re.search(r"\w:\w", text)] == []


def test_panels_of_many_series_have_ten_lines_at_most(dashboard: dict[str, Any]) -> None:
    """Ranked once over the whole range: a `topk` of each moment would draw every line that was ever one of them."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            if re.search(r"top 10|by (?:pod|namespace|node)", panel["title"]):
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


@pytest.mark.promtool
def test_equal_container_names_on_two_hosts_are_separate(
    tmp_path: Path, full_host: MonitoredHost, dashboard: dict[str, Any]
) -> None:
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


class _Prometheus(BaseHTTPRequestHandler):
    """Answers every query with two series, one of which has no number at its end."""

    def do_GET(self) -> None:
        """Answers."""
        points = [[100.0, "1"], [101.0, "2e9"]]
        metric = {"instance": "<n>", "pod": "<p>", "state": "free"}
        result = [{"metric": metric, "values": points, "value": points[-1]}]
        result.append({"metric": metric, "values": [[100.0, "NaN"]], "value": points[0]})
        body = json.dumps({"data": {"result": result}}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *said: object) -> None:
        """Say nothing."""


def test_dashboard_can_be_drawn_without_grafana(tmp_path: Path, file: Path, dashboard: dict[str, Any]) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Prometheus) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        command = [sys.executable, str(CONTRIB / "draw.py"), f"http://127.0.0.1:{server.server_port}/"]
        subprocess.run([*command, str(tmp_path / "drawn.svg"), "60", str(file)], check=True)
        server.shutdown()
    said = [element.text or "" for element in ET.parse(tmp_path / "drawn.svg").iter()]
    assert {panel["title"] for panel in dashboard["panels"]} <= set(said)
    assert "2 GB/s" in said
    assert any("<p>" in text or "<n>" in text for text in said)


ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/prometheus-podman.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def prometheus() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(blocks("yaml")[0])
    return found


@pytest.mark.promtool
def test_prometheus_accepts_configuration_and_rules(tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_text(blocks("yaml")[0])
    shutil.copy(ROOT / "contrib/prometheus/resctrl-hooks.rules.yaml", tmp_path)
    command = ["promtool", "check", "config", "--lint=all", "--lint-fatal", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rules found" in done.stdout


def test_labels_of_counted_series_stay(prometheus: dict[str, Any]) -> None:
    (scrape,) = prometheus["scrape_configs"]
    assert scrape["honor_labels"] is True
    unit = (ROOT / "contrib/systemd/resctrl-hooks-metrics.service").read_text()
    assert f"--listen {scrape['static_configs'][0]['targets'][0]}" in unit


def test_every_copied_file_exists() -> None:
    copied = re.findall(r"sudo cp (\S+) ", PAGE)
    assert len(copied) == 3
    assert [name for name in copied if not (ROOT / name).is_file()] == []
