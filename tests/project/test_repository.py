"""Files around the code: pre-commit hooks, workflow, forms; the commands in them exist."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SESSIONS = {
    node.name
    for node in ast.parse((ROOT / "noxfile.py").read_text()).body
    if isinstance(node, ast.FunctionDef) and any("session" in ast.unparse(one) for one in node.decorator_list)
}


def load(path: str) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((ROOT / path).read_text())
    return found


def test_pre_commit_sessions_run_in_ci_too() -> None:
    (local,) = load(".pre-commit-config.yaml")["repos"]
    entries = [hook["entry"].split() for hook in local["hooks"]]
    assert {program for program, _ in entries} == {"./dev"}
    assert {"lint", "types"} <= {session for _, session in entries} <= SESSIONS
    assert all(hook["language"] == "system" for hook in local["hooks"])


def test_workflow_runs_the_two_commands() -> None:
    jobs = load(".github/workflows/tests.yaml")["jobs"]
    commands = [step["run"].split()[1:] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert commands == [["./dev", "tests"], ["./dev", "kernel"]]
    assert {session for _, session in commands} <= SESSIONS
    actions = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert [action for action in actions if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)] == []


@pytest.mark.parametrize("form", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yaml")), ids=lambda form: form.name)
def test_issue_forms_ask_questions_and_name_existing_commands(form: Path) -> None:
    text = form.read_text()
    body = yaml.safe_load(text)["body"]
    assert any(field.get("validations", {}).get("required") for field in body)
    ids = [field["id"] for field in body if field["type"] != "markdown"]
    assert len(set(ids)) == len(ids)
    commands = set(re.findall(r"resctrl-hook ([a-z]+)", text))
    assert commands <= {path.stem for path in (ROOT / "resctrl_hooks/core/cli").glob("*.py")}


@pytest.mark.xdist_group("repository")
def test_xdist_groups_run_in_one_worker(request: pytest.FixtureRequest) -> None:
    """pytest-xdist writes a test's group behind its name, and where it can't, it says nothing and has no groups."""
    assert request.node.nodeid.endswith("@repository") == getattr(request.config.option, "loadgroup", False)
