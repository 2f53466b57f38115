"""Commands of observation while the state directory cannot be written."""

import errno
import os
import posix
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from core.cli.test_unwritable_state import KEY, LEFTOVERS, OF_AN_EARLIER_BOOT, call, leftover, node
from hosts.faults import Fail

from resctrl_hooks.core.node.feature_table import KEYS

__all__ = ("node",)


@pytest.mark.parametrize("name, content", [*LEFTOVERS, OF_AN_EARLIER_BOOT])
@pytest.mark.parametrize("command", ["diagnose --for 5s", "diagnose --experiment --for 5s"])
def test_leftover_of_a_failed_hook_is_no_pod(node: Host, command: str, name: str, content: str) -> None:
    leftover(node, name, content)
    node.end_process(7)
    done = call(node, *command.split(), KEY)
    assert done.exit_code == 1
    assert f"unknown pod or container '{KEY}'" in done.stderr


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize(
    "command", ["top --once --interval 100ms", "metrics", pytest.param("diagnose --for 5s", marks=pytest.mark.ci)]
)
def test_counters_are_read_without_space_for_a_lock(
    node: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: Fail, command: str, number: int
) -> None:
    monkeypatch.setitem(KEYS["slowdown"], "directory", str(tmp_path))
    error = OSError(number, os.strerror(number))

    def creates(path: Any, flags: int, *_mode: int) -> bool:
        return bool(flags & posix.O_CREAT) and str(path).startswith(str(node.state))

    fail(posix, "open", error, when=creates)
    done = call(node, *command.split())
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ENOTDIR])
def test_unreadable_state_of_the_guard_is_an_error(node: Host, fail: Fail, number: int) -> None:
    path = f"{node.state}/guard.json"
    fail(os, "stat", OSError(number, os.strerror(number)), when=lambda given, **_: str(given) == path)
    done = call(node, "guard", "status")
    assert (done.exit_code, os.strerror(number) in done.stderr, "no guard has run" in done.stderr) == (1, True, False)
