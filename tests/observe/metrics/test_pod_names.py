"""Names of containers in the metrics."""

from pathlib import Path

from core.inventory.test_pod_names import WEB, asked, container, host, stored
from hosts.monitored import MonitoredHost

__all__ = ("asked", "host")


def test_container_samples_have_container_name(host: MonitoredHost, tmp_path: Path, asked: list[str]) -> None:
    container(host, WEB, WEB, tmp_path)
    stored(tmp_path, (WEB, "web"))
    lines = [line for line in host.run("metrics").stdout.splitlines() if line.startswith("l3_llc_occupancy_bytes{")]
    assert len(lines) == 1
    assert 'namespace="",pod="web"' in lines[0]
    assert 'container="web"' in lines[0]
