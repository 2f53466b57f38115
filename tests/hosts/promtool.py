"""Promtool's unit tests of rules and queries."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

RULES = Path(__file__).parents[2] / "contrib/prometheus/resctrl-hooks.rules.yaml"


def rules_of(file: Path = RULES) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]]


def values(expression: str, at: str, expected: Mapping[str, float]) -> dict[str, Any]:
    """Return a check that a query has these values at a time, by labels as promtool writes them, and no others."""
    samples = [{"labels": labels, "value": value} for labels, value in expected.items()]
    return {"expr": expression, "eval_time": at, "exp_samples": samples}


def run_promtool(
    folder: Path, series: Mapping[str, str], *checks: dict[str, Any], rules: Path | None = RULES, **more: Any
) -> None:
    """Fail unless promtool agrees with the checks of series with these values per minute."""
    inputs = [{"series": name, "values": text} for name, text in series.items()]
    case = {"interval": "1m", "input_series": inputs, "promql_expr_test": [*checks], **more}
    files = [] if rules is None else [str(rules)]
    file = folder / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": files, "evaluation_interval": "1m", "tests": [case]}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
