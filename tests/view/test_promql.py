"""The queries of docs/energy.md give the watts of a node with known counters."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

PAGE = Path(__file__).parents[2] / "docs/energy.md"
MAPPED, REST, WHOLE, UNATTRIBUTED = re.findall(r"```promql\n(.*?)```", PAGE.read_text(), re.DOTALL)
LABELS = 'instance="n1:9177", node="n1", namespace="shop", pod="{pod}", pod_uid="{pod}-uid"'


def pod(name: str, package: int, watts: int) -> dict[str, str]:
    labels = LABELS.format(pod=name)
    series = f'perf_core_energy_joules_total{{{labels}, domain_id="0{package}"}}'
    return {"series": series, "values": f"0+{watts * 60}x20"}


SERIES = [
    pod("cart", 0, 4),
    pod("cart", 1, 2),
    pod("web", 0, 2),
    {"series": 'resctrl_class_perf_core_energy_joules_total{node="n1", rdt_class=""}', "values": "0+600x20"},
    {"series": 'resctrl_class_perf_core_energy_joules_total{node="n1", rdt_class="gold"}', "values": "0+120x20"},
    {"series": 'kepler_node_cpu_joules_total{node="n1", zone="package-0"}', "values": "0+1440x20"},
]


@pytest.mark.promtool
@pytest.mark.parametrize(
    "query, expected",
    [
        pytest.param(
            MAPPED,
            {
                f'{{instance="n1:9177", namespace="shop", pod="{name}", pod_id="{name}-uid", pod_name="{name}", '
                f'pod_namespace="shop", pod_uid="{name}-uid"}}': watts
                for name, watts in (("cart", 6), ("web", 2))
            },
            id="labels of Kepler",
        ),
        pytest.param(REST, {'{node="n1"}': 12}, id="the package's rest"),
        pytest.param(
            WHOLE,
            {
                '{node="n1", namespace="shop", pod="cart"}': 6 * 24 / 12,
                '{node="n1", namespace="shop", pod="web"}': 2 * 24 / 12,
            },
            id="cores and a share of the rest",
        ),
        pytest.param(UNATTRIBUTED, {'{node="n1"}': 1 - 8 / 12}, id="what no pod has"),
    ],
)
def test_query_of_page_gives_watts(tmp_path: Path, query: str, expected: dict[str, float]) -> None:
    samples = [{"labels": labels, "value": value} for labels, value in expected.items()]
    test = {
        "interval": "1m",
        "input_series": SERIES,
        "promql_expr_test": [{"expr": query, "eval_time": "20m", "exp_samples": samples}],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [], "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
