"""The view as a mount, and the queries of docs/energy.md."""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from hosts.monitored import host_of_one_pod
from hosts.processes import wait_until
from hosts.promtool import run_promtool, values


@pytest.mark.fuse
def test_view_is_a_read_only_tree_with_a_folder_per_pod(tmp_path: Path) -> None:
    mount = tmp_path / "view"
    with host_of_one_pod(tmp_path) as (host, (_, group)):
        command = host.command("view", str(mount))
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                wait_until(lambda: os.path.ismount(mount), "it is mounted")
                assert sorted(os.listdir(mount)) == ["mon_data", "mon_groups"]
                seen = mount / "mon_groups" / group.name / "mon_data" / "mon_L3_00"
                assert (seen / "mbm_total_bytes").read_text() == "1000\n"
                assert (seen / "mbm_local_bytes").read_text() == "Unassigned\n"
                assert (mount / "mon_data/mon_L3_00/llc_occupancy").read_text() == "4096\n"
                assert (mount / "mon_groups" / group.name / "tasks").read_text() == ""
                with pytest.raises(OSError, match="Read-only file system"):
                    (mount / "mon_groups/new").mkdir()
                with pytest.raises(OSError, match="Read-only file system"):
                    (seen / "mbm_total_bytes").write_text("1")
                with pytest.raises(FileNotFoundError):
                    (mount / "gone").read_text()
                (group / "mon_data/mon_L3_00/mbm_total_bytes").write_text("1500\n")
                time.sleep(0.6)
                assert (seen / "mbm_total_bytes").read_text() == "1500\n"
                os.rename(host.resctrl, f"{host.resctrl}.away")
                time.sleep(0.6)
                with pytest.raises(OSError, match="Input/output error"):
                    (seen / "mbm_total_bytes").read_text()
            finally:
                process.terminate()
                _, told = process.communicate(timeout=300)
    assert "pods' totals are mounted" in told
    assert told.count("resctrl") >= 1
    assert not os.path.ismount(mount)


@pytest.mark.fuse
def test_view_without_resctrl_is_refused(tmp_path: Path) -> None:
    with host_of_one_pod(tmp_path) as (host, _):
        os.rename(host.resctrl, f"{host.resctrl}.away")
        result = host.run("view", str(tmp_path / "view"))
    assert result.exit_code == 1
    assert "resctrl" in result.output
    assert not (tmp_path / "view").exists()


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


OF_CART, OF_WEB = (f'{{node="n1", namespace="shop", pod="{name}"}}' for name in ("cart", "web"))
OF_KEPLER = (
    '{{instance="n1:9177", namespace="shop", pod="{0}", pod_id="{0}-uid", pod_name="{0}", pod_namespace="shop", '
    'pod_uid="{0}-uid"}}'
)
AMOUNTS: dict[str, dict[str, float]] = {
    JOULES: {'{namespace="shop"}': 8 * 20 * 60},
    MAPPED: {OF_KEPLER.format("cart"): 6, OF_KEPLER.format("web"): 2},
    REST: {'{node="n1"}': 12},
    WHOLE: {OF_CART: 6 * 24 / 12, OF_WEB: 2 * 24 / 12},  # the cores and a share of the package's rest
    UNATTRIBUTED: {'{node="n1"}': 1 - 8 / 12},
}


@pytest.mark.promtool
def test_query_of_page_gives_known_amounts(tmp_path: Path) -> None:
    checks = [values(query, "20m", expected) for query, expected in AMOUNTS.items()]
    run_promtool(tmp_path, SERIES, *checks, rules=None)
