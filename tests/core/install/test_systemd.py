"""Calls of systemd by `uninstall`, answered as systemd 262 does."""

import os
from pathlib import Path

import pytest

from resctrl_hooks.core.install import systemd

ANSWERS = """#!/bin/sh
# As systemd 262: a unit that is not loaded fails the whole call, which then does nothing.
verb=$1
shift
for unit; do
  case $unit in
  gone.*) echo "Failed to $verb $unit: Unit $unit not loaded." >&2; exit 5 ;;
  stuck.*) echo "Job for $unit failed." >&2; exit 1 ;;
  esac
done
for unit; do echo "$verb $unit" >>"$TOLD"; done
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "systemctl").write_text(ANSWERS)
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    return tmp_path / "told"


def test_units_are_stopped_although_one_is_not_loaded(told: Path) -> None:
    problems: list[str] = []
    systemd.stop(("gone.service", "a.timer", "b.path"), problems.append)
    assert problems == []
    done = told.read_text().splitlines()
    assert done == ["stop a.timer", "reset-failed a.timer", "stop b.path", "reset-failed b.path"]


def test_unit_that_cannot_be_stopped_is_reported_and_the_others_are_stopped(told: Path) -> None:
    problems: list[str] = []
    systemd.stop(("stuck.service", "a.timer"), problems.append)
    assert problems[0] == "systemctl stop stuck.service: Job for stuck.service failed."
    assert "stop a.timer" in told.read_text()
