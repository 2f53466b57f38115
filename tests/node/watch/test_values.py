"""Values in cgroups that another program changes: when reconcile is asked to repair them."""

import os
from pathlib import Path
from typing import Any

import pytest

from node.reconcile.cluster import POD
from node.watch.test_watcher import Watched
from resctrl_hooks.node.cgroup_settings.values import are_in_place
from resctrl_hooks.node.ledger import Ledger
from resctrl_hooks.node.watch import values as module
from resctrl_hooks.node.watch.values import AGAIN, EVERY, Values

CLASSES: list[dict[str, Any]] = [{"name": "swap", "allowswap": True}]
SWAP = "memory.swap.max"


class Node(Watched):
    """A node with the exec watcher and one container whose class allows swap."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(root, monkeypatch, classes=CLASSES)
        annotations = {"class.memtierd.nri.io": "swap"}
        id_, pid = self.cluster.spawn(1)
        self.folder = self.cluster.host.cgroup / f"kubepods/pod{POD}/crio-{id_}"
        self.write("0")
        self.cluster.hook(id_, pid, **annotations)
        self.cluster.appear(id_, pid, **annotations)
        assert self.read() == "max"
        self.woken = False
        monkeypatch.setattr(Ledger, "wake", lambda _: setattr(self, "woken", True))
        self.steps()
        self.checks()

    def write(self, value: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / SWAP).write_text(value)

    def read(self) -> str:
        return (self.folder / SWAP).read_text().strip()

    def checks(self, seconds: float = EVERY) -> bool:
        """Let a check happen after this time; return whether it woke reconcile."""
        self.woken = False
        self.clock.sleep(seconds)
        self.steps()
        return self.woken


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def test_values_in_place_wake_nothing(node: Node) -> None:
    assert not any(node.checks() for _ in range(9))


def test_value_changed_by_another_program_wakes_reconcile_at_next_check(node: Node) -> None:
    node.write("0")
    assert node.checks()
    node.cluster.reconcile()
    assert node.read() == "max"
    assert not node.checks()
    node.write("0")
    assert node.checks()


def test_check_that_waits_on_a_busy_node_does_not_delay_the_next(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(*of: Any) -> bool:
        node.clock.sleep(0.3)
        return are_in_place(*of)

    monkeypatch.setattr(module, "are_in_place", wait)
    assert not node.checks()
    node.write("0")
    assert node.checks()


def test_wake_up_is_repeated_a_few_times_while_the_value_is_missing(node: Node) -> None:
    node.write("0")
    assert node.checks()
    assert not node.checks()
    assert [node.checks(AGAIN) for _ in range(6)] == [True] * 4 + [False] * 2


def test_container_that_ended_wakes_nothing(node: Node) -> None:
    for name in os.listdir(node.folder):
        (node.folder / name).unlink()
    node.folder.rmdir()
    assert not node.checks()


def test_value_that_was_never_in_place_wakes_nothing(node: Node) -> None:
    node.watcher._values = Values()
    node.write("0")
    assert not any(node.checks() for _ in range(3))
