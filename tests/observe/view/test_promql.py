"""The queries of docs/energy.md give the joules and watts of a node with known counters."""

import re
from pathlib import Path

import pytest
from hosts.promtool import run_promtool, values

PAGE = Path(__file__).parents[3] / "docs/energy.md"
JOULES, MAPPED, REST, WHOLE, UNATTRIBUTED = re.findall(r"```promql\n(.*?)```", PAGE.read_text(), re.DOTALL)
LABELS = 'instance="n1:9177", node="n1", namespace="shop", pod="{pod}", pod_uid="{pod}-uid"'


SERIES = {
    **{
        f'perf_core_energy_joules_total{{{LABELS.format(pod=name)}, domain_id="0{package}"}}': f"0+{watts * 60}x20"
        for name, package, watts in (("cart", 0, 4), ("cart", 1, 2), ("web", 0, 2))
    },
    'resctrl_class_perf_core_energy_joules_total{node="n1", rdt_class=""}': "0+600x20",
    'resctrl_class_perf_core_energy_joules_total{node="n1", rdt_class="gold"}': "0+120x20",
    'kepler_node_cpu_joules_total{node="n1", zone="package-0"}': "0+1440x20",
}


@pytest.mark.promtool
@pytest.mark.parametrize(
    "query, expected",
    [
        pytest.param(JOULES, {'{namespace="shop"}': 8 * 20 * 60}, id="joules by namespace"),
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
def test_query_of_page_gives_known_amounts(tmp_path: Path, query: str, expected: dict[str, float]) -> None:
    run_promtool(tmp_path, SERIES, values(query, "20m", expected), rules=None)
