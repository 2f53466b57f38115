"""Threads that can be in a fork."""

from pathlib import Path

import pytest

from resctrl_hooks.core.node.reconcile.forks import may_fork


@pytest.mark.parametrize("state, possible", [("R", True), ("D", True), ("S", False), ("T", False), ("Z", False)])
def test_thread_that_runs_or_waits_for_a_lock_can_be_in_a_fork(tmp_path: Path, state: str, possible: bool) -> None:
    thread = tmp_path / "7"
    assert not may_fork(str(tmp_path), 7)
    thread.mkdir()
    (thread / "stat").write_text(f"7 (a) R) {state} 1 7 7\n")
    assert may_fork(str(tmp_path), 7) is possible
