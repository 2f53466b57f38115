"""Skipped tests on machines with missing requirements, and none where all are expected."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
WITH_RUNTIMES = PROJECT / "tests/core/node/hook/test_runtimes.py"


def collect(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Collect the tests with real runtimes on a machine whose PATH is empty."""
    kept = {name: value for name, value in os.environ.items() if name not in ("RESCTRL_HOOKS_TESTS", "PYTEST_ADDOPTS")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", WITH_RUNTIMES],
        env={**kept, "PATH": str(folder), **environment},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.ci
def test_missing_runtimes_are_reported_as_skips(tmp_path: Path) -> None:
    found = collect(tmp_path)
    assert found.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "NOT RUN HERE: " in found.stdout
    assert "tests marked `runtime`: " in found.stdout


@pytest.mark.ci
def test_expected_requirements_skip_nothing(tmp_path: Path) -> None:
    found = collect(tmp_path, RESCTRL_HOOKS_TESTS="all")
    assert found.returncode == pytest.ExitCode.OK
    assert "NOT RUN HERE" not in found.stdout
    assert "test_runc_init_waits" in found.stdout
