"""Values in cgroups that another program changes: what inotify reports, and when reconcile is asked to repair them."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import raising
from hosts.cluster import POD

from core.node.watch.test_watcher import Watched
from resctrl_hooks.core.node.cgroup_settings.values import are_in_place
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.watch import values as module
from resctrl_hooks.core.node.watch.values import AGAIN, EVERY, PAUSE, SHARE
from resctrl_hooks.core.node.watch.writes import Writes

HOUSES = ("lab",)
SWAP = "memory.swap.max"


class Node(Watched):
    """A node with the exec watcher and one container whose class allows swap."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(root, monkeypatch, classes=[{"name": "swap", "allowswap": True}])
        annotations = {"class.memtierd.nri.io": "swap"}
        id_, pid = self.cluster.spawn(1)
        self.folder = self.cluster.host.cgroup / f"kubepods/pod{POD}/crio-{id_}"
        self.write("0")
        self.cluster.hook(id_, pid, notes=annotations)
        self.cluster.appear(id_, pid, notes=annotations)
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

    def hide(self, value: str) -> None:
        """Change the value without a write that the watcher could see."""
        other = self.folder.parent / SWAP
        other.write_text(value)
        other.replace(self.folder / SWAP)

    def checks(self, seconds: float = EVERY) -> bool:
        """Let a check happen after this time; return whether it woke reconcile."""
        self.steps()  # sees a write
        self.woken = False
        self.clock.sleep(seconds)
        self.steps()
        return self.woken


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def test_changed_value_wakes_reconcile_soon_after_a_write_and_otherwise_at_a_regular_check(node: Node) -> None:
    node.hide("0")
    assert not node.checks(PAUSE)
    assert node.checks(EVERY - PAUSE)
    node.cluster.reconcile()
    assert node.read() == "max"
    assert not node.checks()
    node.write("0")
    assert node.checks(PAUSE)
    assert not node.checks(AGAIN / 2)  # a wake-up is repeated a few times
    assert [node.checks(AGAIN) for _ in range(6)] == [True] * 4 + [False] * 2
    shutil.rmtree(node.folder)
    assert not node.checks()


def test_check_that_takes_long_comes_rarely(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*of: Any) -> bool:
        node.clock.work(0.2)
        return are_in_place(*of)

    monkeypatch.setattr(module, "are_in_place", work)
    assert not node.checks()
    node.write("0")
    assert not node.checks(0.2 * (SHARE - 2))
    assert node.checks(0.2 * 2)


@pytest.fixture
def writes(tmp_path: Path) -> Writes:
    found = Writes()
    found.watch([str(tmp_path)])
    return found


def test_writes_until_take_make_the_descriptor_readable_once(writes: Writes, tmp_path: Path) -> None:
    for _ in range(2):
        (tmp_path / "cpu.max").write_text("0")
        assert writes.happened()
        for number in range(100):
            (tmp_path / f"memory.{number}").write_text("0")
        assert not writes.happened()
        assert writes.take()
        assert not writes.happened()
    folder = tmp_path / "crio-1"
    for _ in range(2):  # a removed folder is watched again when it is back
        folder.mkdir()
        writes.watch([str(folder)])
        (folder / "memory.max").write_text("0")
        assert writes.take()
        shutil.rmtree(folder)
        writes.take()


def test_lost_events_count_as_write(writes: Writes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cgroup.procs").write_text("0")
    lost = (-1).to_bytes(4, "little", signed=True) + (0x4000).to_bytes(4, "little") + bytes(8)  # IN_Q_OVERFLOW
    heads = iter([lost])
    monkeypatch.setattr("posix.read", lambda *of: next(heads, None) or os.read(*of))
    assert writes.happened()
    assert writes.take()


def test_lack_of_descriptors_is_not_fatal(tmp_path: Path) -> None:
    writes = Writes(raising(OSError(errno.EMFILE, "Too many open files")))
    writes.watch([str(tmp_path)])
    assert not writes.works
    assert not writes.happened()
