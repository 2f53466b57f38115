"""The page on Prometheus and Grafana on one Podman host: the programs accept its files."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

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
