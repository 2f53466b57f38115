"""The exec watcher's containers follow their records, and most looks cost a few system calls."""

import os
import posix
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import examples
from hosts.cluster import POD
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.watch import containers as module
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
