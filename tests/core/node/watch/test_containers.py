"""The exec watcher's containers follow their records, and most looks cost a few system calls."""

import os
import posix
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hosts.cluster import POD, Cluster

from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.watch import containers as module
from resctrl_hooks.core.node.watch import move
from resctrl_hooks.core.node.watch.containers import Containers
from resctrl_hooks.core.node.watch.move import IGNORED, MOVED, NEW

HOUSES = ("lab",)
OTHER = "4" + POD[1:]
GOLD: list[dict[str, Any]] = [{"feature": "monitoring", "action": "join", "needs": {"class": "gold"}}]
VALUES: list[dict[str, Any]] = [
    {"feature": "memory", "action": "limit", "needs": {"class": "swap", "limits": {"memory.swap.max": "max"}}}
]


def id_of(number: int) -> str:
    return f"{number:064x}"


class Records:
    """A ledger whose folder has settled, so that the watcher reads it only after a change."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(str(folder))
        self.ledger.prepare()
        self.containers = Containers(self.ledger)

    def write(self, number: int, key: str = POD, cgroup: str = "", **fields: Any) -> None:
        id_ = id_of(number)
        self.ledger.point(id_, key)
        record: Any = {"id": id_, "key": key, "boot": "x", "pid": 10, "start": 1, "steps": []}
        record |= {"cgroup": cgroup or f"/cg/{number}", **fields}
        self.ledger.write_member(key, id_, record)

    def settle(self) -> None:
        """Let all files be old."""
        for folder, _, names in os.walk(self.ledger.folder):
            for path in (folder, *(f"{folder}/{name}" for name in names)):
                found = os.lstat(path)
                os.utime(path, ns=(0, found.st_mtime_ns - 3600 * 10**9), follow_symlinks=False)
        self.containers.refresh()


@pytest.fixture
def records(tmp_path: Path) -> Records:
    made = Records(tmp_path / "state")
    made.write(1)
    made.settle()
    return made


@pytest.mark.parametrize("by", ["id", "cgroup"])
def test_record_that_is_planned_again_is_seen_at_the_next_look(records: Records, by: str) -> None:
    look = {"id": lambda: records.containers.of_id(id_of(1)), "cgroup": lambda: records.containers.of_cgroup("/cg/1/x")}
    found = look[by]()
    assert found is not None
    assert not found.monitored
    records.write(1, steps=GOLD, pid=77)
    records.containers.refresh()
    found = look[by]()
    assert found is not None
    assert (found.monitored, found.classes, found.pid) == (True, ("gold",), 77)
    records.write(1)
    found = look[by]()
    assert found is not None
    assert not found.monitored


def test_two_changes_within_a_clock_tick_are_both_seen(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = posix.stat

    class SameFile:
        st_mtime_ns, st_size, st_ino = 10**18, 1, 1

    clock = SimpleNamespace(time_ns=lambda: SameFile.st_mtime_ns, monotonic=time.monotonic)
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(posix, "stat", lambda path: SameFile if "/c-" in path else stat(path))
    for pid in (20, 21):
        records.write(1, pid=pid)
        found = records.containers.of_id(id_of(1))
        assert found is not None
        assert found.pid == pid


def test_container_restarted_under_its_id_in_another_cgroup_is_found_there(records: Records) -> None:
    records.ledger.remove_member(POD, id_of(1))
    records.write(1, cgroup="/cg/again", pid=77)
    records.containers.refresh()
    found = records.containers.of_cgroup("/cg/again")
    assert found is not None
    assert found.pid == 77
    assert records.containers.of_cgroup("/cg/1") is None


def test_container_of_another_key_is_read_again(records: Records) -> None:
    records.write(1, key=OTHER)
    records.containers.refresh()
    found = records.containers.of_id(id_of(1))
    assert found is not None
    assert found.key == OTHER


def test_container_with_a_step_of_a_feature_that_is_not_delivered_is_watched_without_its_values(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A MachineConfig has no modules of disabled features; a container may have started before."""
    monkeypatch.setitem(sys.modules, "resctrl_hooks.core.node.features.memory", None)
    records.write(2, steps=[*GOLD, *VALUES])
    records.settle()
    assert records.containers.with_values() == []
    member = records.containers.of_id(id_of(2))
    assert member is not None
    assert member.monitored


def test_values_of_record_that_is_planned_again_are_seen(records: Records) -> None:
    assert records.containers.with_values() == []
    records.write(1, steps=VALUES)
    (found,) = records.containers.with_values()
    assert found.values == [["memory.swap.max", "max"]]
    records.write(1)
    assert records.containers.with_values() == []


def test_removed_record_is_forgotten_and_found_again(records: Records) -> None:
    records.ledger.remove_member(POD, id_of(1))
    assert records.containers.of_id(id_of(1)) is None
    records.write(1)
    records.containers.refresh()
    assert records.containers.of_id(id_of(1)) is not None


def test_exec_after_a_change_of_the_plan_is_served_by_the_new_plan(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    id_, _ = cluster.start(1)
    context = cluster.context()
    containers = Containers(context.ledger)

    def serve() -> str:
        return move.serve(context, containers, cluster.kernel.spawn(f"/kubepods/pod{POD}/crio-{id_}")).what

    assert serve() == MOVED
    record = context.ledger.read_member(POD, id_)
    assert record is not None
    steps, record["steps"] = record["steps"], []
    context.ledger.write_member(POD, id_, record)
    assert serve() == IGNORED
    record["steps"] = steps
    context.ledger.write_member(POD, id_, record)
    assert serve() == MOVED
    context.ledger.remove_member(POD, id_)
    assert serve() == NEW


def test_exec_on_a_node_of_500_containers_costs_few_system_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = Records(tmp_path / "state")
    for number in range(500):
        records.write(number)
    records.settle()
    records.containers.refresh()
    calls: list[str] = []

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def count(path: str, *some: Any, **more: Any) -> Any:
            calls.append(path)
            return call(path, *some, **more)

        return count

    for name in ("stat", "readlink", "open", "listdir"):
        monkeypatch.setattr(posix, name, counted(getattr(posix, name)))
    for _ in range(10):
        records.containers.refresh()
        assert records.containers.of_cgroup("/cg/7") is not None
    assert len(calls) == 20
