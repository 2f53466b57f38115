"""Threads that can be in a fork."""

from pathlib import Path

import pytest

from resctrl_hooks.core.node.reconcile.forks import may_fork


@pytest.mark.parametrize(
    "text, possible", [("running\n", True), ("435 0x7f 0x58\n", True), ("0 0x3\n", False), ("-1 0x7f 0x0\n", False)]
)
def test_thread_that_runs_or_is_in_clone_can_be_in_a_fork(tmp_path: Path, text: str, possible: bool) -> None:
    thread = tmp_path / "7"
    assert not may_fork(str(tmp_path), 7)
    thread.mkdir()
    (thread / "syscall").write_text(text)
    assert may_fork(str(tmp_path), 7) is possible
