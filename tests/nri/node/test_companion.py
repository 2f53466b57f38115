"""The exec watcher of the NRI plugin's service: a process that starts with it, is replaced, and ends with it."""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import LAUNCH, PYTHON
from hosts.processes import children, is_alive, wait_until


class Node:
    """A service without a runtime, with a configuration of its own."""

    def __init__(self, root: Path, watch: str) -> None:
        (root / "resctrl").mkdir()
        self.state = root / "state"
        config = {
            "format": 1,
            "resctrlPath": str(root / "resctrl"),
            "stateDir": str(self.state),
            "runtimeRoots": {"none": str(root / "none")},
            "monitoring": {"exec": watch},
            "log": {"target": "none"},
        }
        path = root / "config.json"
        path.write_text(json.dumps(config))
        words = [*PYTHON, str(LAUNCH), "--config", str(path), "nri", "--socket", str(root / "nri.sock")]
        self.process = subprocess.Popen(words)

    def children(self) -> list[int]:
        """Return the service's processes that have not ended."""
        return [pid for pid in children(self.process.pid) if is_alive(pid)]

    def watcher(self) -> dict[str, Any]:
        """Return the exec watcher's status."""
        try:
            found: dict[str, Any] = json.loads((self.state / "exec.json").read_text())
        except FileNotFoundError:
            return {}
        return found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    started: list[Node] = []

    def make(watch: str = "watch") -> Node:
        started.append(Node(tmp_path, watch))
        return started[-1]

    yield make
    for node in started:
        node.process.kill()
        node.process.wait(60)


def watches(node: Node, pid: int) -> bool:
    told = node.watcher()
    return told.get("pid") == pid and told["mode"] in ("events", "sampling")


@pytest.mark.ci
def test_separate_exec_watcher_is_replaced_and_ends_with_service(start: Callable[..., Node]) -> None:
    node = start()
    wait_until(node.children, "the watcher starts")
    (first,) = node.children()
    wait_until(lambda: watches(node, first), "it watches")
    subprocess.run(["kill", "-KILL", str(first)], check=True)
    wait_until(lambda: node.children() not in ([], [first]), "another replaces it")
    (second,) = node.children()
    wait_until(lambda: watches(node, second), "it watches too")
    node.process.terminate()
    assert node.process.wait(60) == 0
    wait_until(lambda: not is_alive(second), "it ends with the service")


def test_exec_watcher_of_a_killed_service_ends(start: Callable[..., Node]) -> None:
    node = start()
    wait_until(node.children, "the watcher starts")
    (pid,) = node.children()
    wait_until(lambda: watches(node, pid), "it watches")
    node.process.send_signal(signal.SIGKILL)
    node.process.wait(60)
    wait_until(lambda: not is_alive(pid), "it notices that its parent is gone")


def test_service_without_watcher_has_no_watcher_process(start: Callable[..., Node]) -> None:
    node = start("reconcile")
    wait_until((node.state / "nri.json").exists, "the service runs")
    assert node.children() == []
    assert node.watcher() == {}
