"""The exec watcher: its containers follow their records, and processes that call exec come into their pods' groups."""

import contextlib
import os
import posix
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import examples, not_none
from hosts.cluster import POD, Cluster, pod_number
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.resctrl.filesystem import Resctrl
from resctrl_hooks.core.node.watch import containers as module
from resctrl_hooks.core.node.watch import move, sample
from resctrl_hooks.core.node.watch.containers import Containers, Member

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


WRITTEN = st.tuples(st.integers(1, 3), st.sampled_from([POD, OTHER]), st.sampled_from([[], GOLD, VALUES]))


@settings(max_examples=examples(60))
@given(changes=st.lists(WRITTEN | st.integers(1, 3) | st.none(), max_size=12))
def test_containers_are_those_of_the_ledger_after_any_changes(changes: list[Any]) -> None:
    """A change writes a record (number, key, steps), removes one, or lets the files become old."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as folder:
        records = Records(Path(folder) / "state")
        known: dict[int, tuple[str, list[Any], str, int]] = {}
        for serial, change in enumerate(changes):
            if change is None:
                records.settle()
            elif isinstance(change, int):
                if change in known:
                    records.ledger.remove_member(known.pop(change)[0], id_of(change))
            else:
                number, key, steps = change
                cgroup = known[number][2] if number in known else f"/cg/{number}-{serial}"
                records.write(number, key, cgroup, steps=steps, pid=serial)
                known[number] = (key, steps, cgroup, serial)
            records.containers.refresh()
            assert records.containers._by_id.keys() == {id_of(number) for number in known}
            for number in range(1, 4):
                found = records.containers.of_id(id_of(number))
                assert (found is None) == (number not in known)
                if found is not None:
                    key, steps, cgroup, pid = known[number]
                    assert (found.key, found.cgroup, found.pid) == (key, cgroup, pid)
                    assert (found.monitored, found.classes) == (steps is GOLD, ("gold",) if steps is GOLD else ())
                    assert records.containers.of_cgroup(f"{cgroup}/below") is found
            with_values = {member.id: member.values for member in records.containers.with_values()}
            limit = [["memory.swap.max", "max"]]
            assert with_values == {id_of(number): limit for number, one in known.items() if one[1] is VALUES}


def test_two_changes_within_a_clock_tick_are_both_seen(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    stat, same = posix.stat, SimpleNamespace(st_mtime_ns=10**18, st_size=1, st_ino=1)
    clock = SimpleNamespace(time_ns=lambda: same.st_mtime_ns, monotonic=time.monotonic)
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(posix, "stat", lambda path: same if "/c-" in path else stat(path))
    for pid in (20, 21):
        records.write(1, pid=pid)
        assert not_none(records.containers.of_id(id_of(1))).pid == pid


def test_exec_among_500_containers_costs_few_system_calls(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_checks_of_all_records_take_a_small_part_of_the_time(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    now, checks = [time.monotonic() + 9], []

    def check(member: Member) -> Member:
        now[0] += 0.001
        checks.append(member.id)
        return member

    monkeypatch.setattr(records.containers, "_check", check)
    monkeypatch.setattr(module, "time", SimpleNamespace(time_ns=time.time_ns, monotonic=lambda: now[0]))
    for number in range(100, 200):  # each start changes the folder
        records.write(number)
        records.containers.refresh()
        now[0] += 0.001
    assert 0 < len(checks) < 100


def execed(cluster: Cluster, id_: str, pod: str = POD, below: str = "", **where: Any) -> int:
    """Return a process that has entered a container."""
    return cluster.kernel.spawn(f"/kubepods/pod{pod}/crio-{id_}{below}", **where)


def serve(cluster: Cluster, pid: int, containers: Any = None) -> str:
    context = cluster.context()
    return move.serve(context, containers or Containers(context.ledger), pid).what


def test_entered_process_is_moved_with_all_threads(cluster: Cluster) -> None:
    id_, _ = cluster.start(1)
    for below in ("", "/container", "/made/by/itself"):
        pid = execed(cluster, id_, below=below, threads=3)
        outcome = move.serve(cluster.context(), Containers(cluster.context().ledger), pid)
        assert (outcome.what, outcome.threads) == (move.MOVED, 3)
        assert cluster.groups_of(pid) == {("", POD)}
        assert serve(cluster, pid) == move.IGNORED


def test_pod_without_an_rmid_and_an_unmonitored_container_stay_without(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "full", rmids=2)
    cluster.start(1)
    id_, pid = cluster.spawn(2, OTHER)
    cluster.hook(id_, pid, OTHER)
    entered = execed(cluster, id_, OTHER)
    assert serve(cluster, entered) == move.WAITING
    assert cluster.groups_of(entered) == {("", "")}
    cluster = Cluster(tmp_path / "off", monitoring={"enabled": False}, classes=[{"name": "swap", "allowswap": True}])
    id_, pid = cluster.spawn(1)
    (cluster.host.cgroup / f"kubepods/pod{POD}/crio-{id_}/memory.swap.max").touch()
    cluster.hook(id_, pid, notes={"class.memtierd.nri.io": "swap"})
    assert cluster.context().ledger.key_of(id_) == POD
    assert serve(cluster, execed(cluster, id_)) == move.IGNORED
    assert not list((cluster.host.resctrl / "mon_groups").iterdir())


@pytest.mark.parametrize("busy", [False, True])
def test_descendants_of_a_process_with_a_used_id_are_moved_back(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, busy: bool
) -> None:
    """The process ends between the look and the write, and sshd gets its id."""
    id_, init = cluster.start(1)
    pid, child = execed(cluster, id_), cluster.kernel.spawn("/system.slice/sshd.service")
    monkeypatch.setattr(move, "threads_of_container", lambda *_: [pid, child, init])
    real = Resctrl.add_tasks

    def add(self: Resctrl, rdt_class: str, name: str, tids: list[int], process: int = 0) -> None:
        (cluster.host.proc / str(pid) / "cgroup").write_text("0::/system.slice/sshd.service\n")
        real(self, rdt_class, name, [*tids, child] if name else tids, process)

    monkeypatch.setattr(Resctrl, "add_tasks", add)
    with cluster.context().monitor.hold(POD) if busy else contextlib.nullcontext():
        assert serve(cluster, pid) == move.GONE
    assert cluster.groups_of(pid) == cluster.groups_of(child) == {("", "")}
    assert cluster.groups_of(init) == {("", POD)}, "a process of the pod stays"


def test_process_that_ends_meanwhile_is_gone_and_a_link_without_record_examined_again(cluster: Cluster) -> None:
    context = cluster.context()
    containers = Containers(context.ledger)
    id_, pid = cluster.spawn(1)
    context.ledger.prepare()
    context.ledger.point(id_, POD)  # as a hook does before it writes the record
    assert serve(cluster, execed(cluster, id_), containers) == move.NEW
    cluster.hook(id_, pid)
    assert serve(cluster, execed(cluster, id_), containers) == move.MOVED
    ended = execed(cluster, id_)
    cluster.kernel.threads.end(ended)  # the kernel knows it no longer, /proc was read a moment before
    assert serve(cluster, ended) == move.GONE


def test_sample_of_some_containers_leaves_others_and_busy_ones(cluster: Cluster) -> None:
    context = cluster.context()
    containers = Containers(context.ledger)
    (id_, _), (other, _) = cluster.start(1), cluster.start(2, pod_number(2))
    containers.refresh()
    entered = cluster.kernel.spawn(f"/kubepods/pod{POD}/crio-{id_}", 2)
    foreign = cluster.kernel.spawn(f"/kubepods/pod{pod_number(2)}/crio-{other}")
    with context.monitor.hold(POD):
        assert sample.sample_some(cluster.context(), containers, [id_]) == 0
    assert sample.sample_some(context, containers, [id_, "gone"]) == 2
    assert cluster.groups_of(entered) == {("", POD)}
    assert cluster.groups_of(foreign) == {("", "")}
