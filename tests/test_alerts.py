"""The alert rules: they ask for metrics that `resctrl-hook metrics` prints, and go off when they should."""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from counter_tree import say
from monitored_host import KEYS, MonitoredHost, monitored_host
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics

RULES = Path(__file__).parent.parent / "contrib/prometheus/resctrl-hooks.rules.yaml"
NAME = re.compile(r"\b(?:l3|perf|resctrl)_\w+")
MATCHER = re.compile(r'\b(\w+)(?:=|!=|=~|!~)"')
GROUPING = re.compile(r"by \(([^)]*)\)")
parse: Callable[[str], Iterator[Metric]] = openmetrics.text_string_to_metric_families  # it has no types


@pytest.fixture(scope="module")
def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """One pod in a group, one without an RMID, a hook that failed."""
    resctrl = tmp_path / "resctrl"
    (resctrl / "mon_groups").mkdir(parents=True)
    (resctrl / "info" / "L3_MON").mkdir(parents=True)
    (resctrl / "info" / "L3_MON" / "num_rmids").write_text("8\n")
    with monitored_host(tmp_path, str(resctrl)) as found:
        with found.node.monitor.hold(KEYS[0]) as held:
            say(Path(held.ensure_group("").path), llc_occupancy=1, mbm_total_bytes=1)
        found.node.ledger.tally("createRuntime", 0.2, ["ledger"], KEYS[1])
        found.node.ledger.tally("reconcile", 0.1)
        found.node.ledger.mark("waiting", KEYS[1])
        yield found


def test_every_metric_and_label_is_printed(host: MonitoredHost, rules: list[dict[str, Any]]) -> None:
    result = host.run("metrics")
    assert result.exit_code == 0, result.output
    samples = [sample for family in parse(result.stdout) for sample in family.samples]
    names = {sample.name for sample in samples}
    labels = {label for sample in samples for label in sample.labels} | {"instance"}  # Prometheus' own
    for rule in rules:
        expression = rule["expr"]
        asked = set(NAME.findall(expression))
        assert asked, rule
        assert asked <= names, rule
        used = {*MATCHER.findall(expression), *", ".join(GROUPING.findall(expression)).split(", ")} - {""}
        assert used <= labels, rule


def test_each_has_what_its_reader_needs(rules: list[dict[str, Any]]) -> None:
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 5
    for rule in rules:
        assert rule["labels"]["severity"] in {"info", "warning"}
        assert {"summary", "description"} <= rule["annotations"].keys()


SILENT = {"resctrl_hooks_build_info": "1x60", "resctrl_scrape_ok": "1x60", "resctrl_hooks_waiting_pods": "0x60"}
CASES: dict[str, dict[str, str]] = {
    "ResctrlCannotBeRead": {"resctrl_scrape_ok": "0x60"},
    "ResctrlReconcileStopped": {"resctrl_hooks_last_reconcile_timestamp_seconds": "0x60"},
    "ResctrlPodsUnmonitored": {"resctrl_hooks_waiting_pods": "2x60"},
    "ResctrlRMIDsLow": {'resctrl_rmids{state="free"}': "1x60", 'resctrl_rmids{state="used"}': "30x60"},
    "ResctrlHookFailures": {'resctrl_hooks_failures_total{stage="createRuntime",reason="ledger"}': "1+1x60"},
    "ResctrlHookSlow": {
        'resctrl_hooks_duration_seconds_bucket{stage="createRuntime",le="1.0"}': "0+1x60",
        'resctrl_hooks_duration_seconds_bucket{stage="createRuntime",le="2.5"}': "0+9x60",
        'resctrl_hooks_duration_seconds_bucket{stage="createRuntime",le="+Inf"}': "0+9x60",
    },
}
"""By alert, the series that set it off: values a minute, for an hour."""
QUIET = {
    'resctrl_hooks_failures_total{stage="createRuntime",reason="no-rmids"}': "0+1x60",
    'resctrl_rmids{state="free"}': "20x60",
    "resctrl_hooks_last_reconcile_timestamp_seconds": "0+60x60",
}


def test_each_has_a_case(rules: list[dict[str, Any]]) -> None:
    assert {rule["alert"] for rule in rules} == {*CASES, "ResctrlHooksMetricsMissing"}


@pytest.mark.promtool
def test_each_goes_off_when_it_should_and_no_other(tmp_path: Path) -> None:
    tests = [promtool_test({**SILENT, **series}, alert) for alert, series in CASES.items()]
    tests += [promtool_test({**SILENT, **QUIET}, ""), promtool_test({}, "ResctrlHooksMetricsMissing")]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def promtool_test(series: dict[str, str], going_off: str) -> dict[str, Any]:
    """A case of promtool's: these series of one node for an hour, and which alert there is at its end, no other."""
    values = [{"series": at_node(name), "values": text} for name, text in series.items()]
    counts = [
        {
            "expr": 'sort(count by (alertname) (ALERTS{alertstate="firing"}))',
            "eval_time": "50m",
            "exp_samples": [{"labels": f'{{alertname="{going_off}"}}', "value": 1}] if going_off else [],
        }
    ]
    return {"interval": "1m", "input_series": values, "promql_expr_test": counts}


def at_node(name: str) -> str:
    """A series' name with an instance."""
    return f'{name[:-1]},instance="n"}}' if name.endswith("}") else f'{name}{{instance="n"}}'
