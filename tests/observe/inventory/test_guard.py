"""The guard's state as reports have it, from its status file and its lease."""

import json
import time
from typing import Any

import pytest
from conftest import Host

from observe.node.guard.node import Node, lowered_once
from resctrl_hooks.observe.inventory.guard import guard_status, held_values, lowered_values


@pytest.fixture
def node(host: Host) -> Node:
    return lowered_once(host)


def change(node: Node, file: str = "guard.json", **values: Any) -> None:
    path = node.host.state / file
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize("age, running", [(-1, False), (0, True), (120, True), (121, False)])
def test_guard_of_another_pid_namespace_runs_while_its_file_is_new(
    node: Node, monkeypatch: pytest.MonkeyPatch, age: float, *, running: bool
) -> None:
    node.host.end_process(100)  # as in the metrics pod, which does not see the node's processes
    change(node, namespace="pid:[1]", updated=1000.0)
    monkeypatch.setattr(time, "time", lambda: 1000.0 + age)
    status = guard_status(node.context())
    assert status is not None
    assert status.running is running


def test_guard_of_this_pid_namespace_runs_while_its_process_lives(node: Node) -> None:
    change(node, updated=0.0)
    assert [status.running for status in [guard_status(node.context())] if status] == [True]
    change(node, start=1)
    assert [status.running for status in [guard_status(node.context())] if status] == [False]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"domains": []}', '{"domains": {"0": 1}}', '{"domains": {}}'])
def test_unusable_status_is_none(node: Node, text: str) -> None:
    (node.host.state / "guard.json").write_text(text)
    assert guard_status(node.context()) is None
    assert lowered_values(node.context()) == {}


def test_lowered_values_are_those_that_a_running_guard_has_written(node: Node) -> None:
    assert lowered_values(node.context()) == {"bronze": "MB 100↓90"}
    record = json.loads((node.host.state / "guard.json").read_text())
    domain = record["domains"]["0"]
    bronze = domain["classes"]["bronze"]

    def lowered(*values: int, **more: Any) -> dict[str, str]:
        domains = {
            str(number): {**domain, "classes": {"bronze": {**bronze, "now": now, **more}}}
            for number, now in enumerate(values)
        }
        change(node, domains=domains)
        return lowered_values(node.context())

    assert lowered(60, 100, 70, 60) == {"bronze": "MB 100↓60, 100↓70"}
    assert lowered(100) == lowered(60, overridden=True) == {}
    assert lowered(60) == {"bronze": "MB 100↓60"}
    change(node, mode="observe")
    assert lowered_values(node.context()) == {}
    change(node, mode="act")
    node.host.end_process(100)
    assert lowered_values(node.context()) == {}


def test_held_values_are_those_of_the_lease_of_this_boot(node: Node) -> None:
    assert held_values(node.context()) == ("the guard", {"bronze": {0: 100}})
    change(node, "guard-lease.json", boot="another")
    assert held_values(node.context()).declared == {}
    (node.host.state / "guard-lease.json").write_text("damaged")
    assert held_values(node.context()).declared == {}
    (node.host.proc / "sys/kernel/random/boot_id").unlink()
    assert held_values(node.context()).declared == {}
    (node.host.state / "guard-lease.json").unlink()
    assert held_values(node.context()).declared == {}
