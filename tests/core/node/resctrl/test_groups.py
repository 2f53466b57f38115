"""Groups and members of keys under their locks, in any order of calls."""

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import BOOT, Host, examples, raising, temporary_host
from hosts.descriptors import nothing_left_open
from hosts.faults import Fail
from hypothesis import example, given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node import errors
from resctrl_hooks.core.node.resctrl import energy_baseline
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem
from resctrl_hooks.core.node.resctrl.group import CREATED, SHARED, Group
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey
from resctrl_hooks.core.node.resctrl.monitor import Monitor

CLASSES = ["", "gold", "silver"]


def monitor(host: Host, **options: Any) -> Monitor:
    return Monitor(str(host.resctrl), **({"state_dir": str(host.state), "proc": str(host.proc)} | options))


def hold(host: Host, fs: Filesystem | None = None) -> LockedKey:
    return monitor(host, fs=fs).hold("k")


class Key:
    """A key under its lock, and what is to be true of its groups, members and records."""

    def __init__(self, host: Host) -> None:
        self.host = host
        host.add_class(*CLASSES[1:])
        self.recorded: dict[str, str] = {}
        self.there: dict[str, str] = {}  # existing groups: whose
        self.members: set[str] = set()
        self.locked = hold(host)

    def path(self, rdt_class: str) -> Path:
        return self.host.resctrl / rdt_class / "mon_groups/k"

    def ensure(self, rdt_class: str) -> None:
        if rdt_class not in self.there:
            self.there[rdt_class] = self.recorded[rdt_class] = CREATED
        self.recorded.setdefault(rdt_class, SHARED)
        group = self.locked.ensure_group(rdt_class)
        assert (group.path, group.origin) == (str(self.path(rdt_class)), self.recorded[rdt_class])

    def others_mkdir(self, rdt_class: str) -> None:
        if rdt_class not in self.there:
            self.path(rdt_class).mkdir()
            self.there[rdt_class] = SHARED

    def others_rmdir(self, rdt_class: str) -> None:
        if self.there.pop(rdt_class, None):
            self.path(rdt_class).rmdir()

    def release(self, _: str) -> None:
        removed = [group.rdt_class for group in self.locked.release()]
        assert removed == self.drop([*CLASSES])
        self.members.clear()

    def release_but(self, rdt_class: str) -> None:
        self.locked.release_but({rdt_class})
        self.drop([one for one in CLASSES if one != rdt_class])

    def remove_unused(self, rdt_class: str) -> None:
        self.locked.remove_unused(rdt_class)
        self.drop([rdt_class])

    def drop(self, classes: list[str]) -> list[str]:
        ours = [name for name in sorted(classes) if self.recorded.pop(name, SHARED) == CREATED]
        return [name for name in ours if self.there.pop(name, None)]

    def add_member(self, name: str) -> None:
        if self.recorded:
            self.locked.add_member(name or "m")
            self.members.add(name or "m")

    def remove_member(self, name: str) -> None:
        if self.recorded:
            self.members.discard(name or "m")
            assert self.locked.remove_member(name or "m") == len(self.members)

    def hold_again(self, _: str) -> None:
        self.locked.unlock()
        self.locked = hold(self.host)

    def check(self) -> None:
        there = sorted(str(self.path(name).relative_to(self.host.resctrl)) for name in self.there)
        assert (self.host.groups(), self.locked.origins) == (there, self.recorded)
        assert sorted(self.locked.members()) == sorted(self.members)
        record = self.host.context().ledger.read_pod("k")
        assert (record or {"groups": {}})["groups"] == self.recorded
        shared = {name for name, origin in self.recorded.items() if origin == SHARED}
        assert not shared & (record or {}).get("since", {}).keys(), "the begin of another program's group is unknown"
        assert self.locked.tracked == (record is not None)
        assert {f"containers/{name}" for name in self.members} <= {*self.host.records()}


CALLS = ["ensure", "others_mkdir", "others_rmdir", "release", "release_but", "remove_unused", "hold_again"]
CALLS += ["ensure", "add_member", "remove_member"]
AGAIN = ("ensure", "gold")


@settings(max_examples=examples(60))
@example([AGAIN, ("ensure", ""), ("release_but", ""), ("others_mkdir", "gold"), AGAIN])
@given(st.lists(st.tuples(st.sampled_from(CALLS), st.sampled_from(CLASSES)), max_size=25))
def test_groups_members_and_records_agree_after_any_calls(calls: list[tuple[str, str]]) -> None:
    with temporary_host() as host, nothing_left_open():
        key = Key(host)
        for name, argument in calls:
            getattr(key, name)(argument)
            key.check()
        key.release("")
        key.locked.unlock()
        assert (key.host.records(), set(key.there.values()) - {SHARED}) == ([], set())


def test_groups_compare_by_value() -> None:
    one, same, other = Group("k", "", "/a", CREATED), Group("k", "", "/a", SHARED), Group("k", "gold", "/b", CREATED)
    assert (one == same, hash(one) == hash(same), one == other, one == "k") == (True, True, False, False)
    assert repr(one) == "Group(key='k', rdt_class='', path='/a', origin='created')"
    assert one.how == one.origin, "programs that were written for 0.2 read it so"


def test_group_is_recorded_before_its_creation_and_shared_if_another_program_is_faster(host: Host) -> None:
    class Racing(Filesystem):
        def mkdir(self, path: str) -> None:
            record = host.context().ledger.read_pod("k") or {}
            assert record.pop("since") == {"": record.pop("born")}
            assert record == {"key": "k", "boot": BOOT, "groups": {"": CREATED}, "names": {"": "k"}, "format": 1}
            super().mkdir(path)
            super().mkdir(path)

    with hold(host, Racing()) as locked:
        assert locked.ensure_group().origin == SHARED
    with hold(host) as locked:
        assert locked.how == locked.origins == {"": SHARED}, "programs that were written for 0.2 read it so"
        assert locked.release() == []


def test_group_that_could_not_be_created_is_not_recorded(host: Host, fail: Fail) -> None:
    fail(Filesystem, "mkdir", OSError(errno.ENOSPC, "No space left on device"))
    host.context().ledger.prepare()
    host.context().ledger.mark("rmids", "5.k")
    with hold(host) as locked:
        locked.record["claim"] = {"entry": "5.k", "priority": 5, "rules": 1, "since": 0}
        with pytest.raises(errors.NoRMIDsError):
            locked.ensure_group()
        assert (host.records(), locked.tracked) == (["pods/k"], False)
        locked.unlock()
        assert host.records() == []
        locked.lock_again(0)
        locked.add_member("m")
        with pytest.raises(errors.NoRMIDsError):
            locked.ensure_group()
        assert (locked.groups(), locked.tracked) == ([], True)
    assert host.records() == ["containers/m", "pods/k/c-m", "pods/k/pod"]


@pytest.mark.parametrize("reboot", [True, False])
def test_record_and_index_end_with_the_key_or_the_boot(host: Host, reboot: bool) -> None:
    ledger = host.context().ledger
    with hold(host) as locked:
        locked.ensure_group()
        ledger.mark("rmids", "5.k")
        ledger.mark("idle", "k")
        locked.record["claim"] = {"entry": "5.k", "priority": 5, "rules": 1, "since": 0}
        locked.save()
        locked.add_member("m")
        assert ledger.marked("idle") == []
        if not reboot:
            locked.release()
            assert ledger.marked("rmids") == []
    if reboot:
        (host.proc / "sys/kernel/random/boot_id").write_text("another\n")
        ledger.unmark("rmids", "5.k")
    assert monitor(host).list() == []
    with hold(host) as locked:
        assert (locked.tracked, locked.members()) == (False, [])
    assert host.records() == []


@pytest.mark.parametrize("known", [True, False])
def test_process_joins_the_group_in_its_own_class(host: Host, fail: Fail, known: bool) -> None:
    """Where /proc doesn't show the class, the kernel refuses threads of the other classes."""
    refused = OSError(errno.EINVAL, "Invalid argument")
    fail(Filesystem, "write", refused, when=lambda _, path, _value: "/gold/" not in path)
    host.add_class("bronze", *CLASSES[1:])
    host.process(7, threads=(8,), rdt="gold" if known else None)
    with hold(host) as locked:
        with pytest.raises(errors.NotTrackedError):
            locked.assign_pid(7)
        for name in ("bronze", "silver"):
            locked.ensure_group(name)
            words = "process 7 is in gold, but the groups of k are in bronze" if known else None
            with pytest.raises(errors.ClassMismatchError, match=words):
                locked.assign_pid(7)
        locked.ensure_group("gold")
        assert locked.assign_pid(7) == 2
        with pytest.raises(errors.TaskGoneError) as raised:
            locked.assign_pid(77)
    assert raised.value.errno == errno.ESRCH
    assert host.tasks("gold/mon_groups/k") == [7, 8]


@pytest.mark.parametrize("counted, readable", [(True, True), (True, False), (False, True)])
def test_energy_baseline_is_kept(host: Host, monkeypatch: pytest.MonkeyPatch, counted: bool, readable: bool) -> None:
    if counted:
        (host.resctrl / "info/PERF_PKG_MON").mkdir(parents=True)
    said = ("made", {"mon_PERF_PKG_00/core_energy": 700.5})
    looked: list[bool] = []

    def baseline(folder: str) -> tuple[str, dict[str, float]]:
        looked.append(Path(folder).is_dir())
        if not readable:
            raise OSError(errno.EIO, "Input/output error")
        return said

    monkeypatch.setattr(energy_baseline, "baseline", baseline)
    monitor(host).ensure_group("k")
    assert looked == [True] * counted
    record: Any = host.context().ledger.read_pod("k")
    assert list(record.get("baselines", {}).values()) == ([list(said)] if counted and readable else [])


def test_groups_are_listed_and_removed_in_the_order_of_their_classes(host: Host) -> None:
    host.add_class("gold")
    of = monitor(host)
    gold, group = of.ensure_group("k", "gold"), of.ensure_group("k")
    assert of.list() == of.remove("k") == [group, gold]


def test_recorded_name_of_a_group_outlives_its_prefix(host: Host) -> None:
    before, after = monitor(host, group_prefix="a-"), monitor(host, group_prefix="b-")
    assert before.ensure_group("job").name == "a-job"
    assert after.ensure_group("job") == before.ensure_group("job")
    assert [group.name for group in after.list()] == ["a-job"]
    assert after.read("job") == before.read("job")
    assert after.read_all().keys() == {"job"}
    before.resctrl.remove("", "a-job")
    assert after.ensure_group("job").name == before.ensure_group("job").name == "b-job"
    assert len(before.remove("job")) == 1
    assert host.groups() == []


def test_many_threads_share_a_monitor(host: Host) -> None:
    shared, started = monitor(host), threading.Barrier(8)

    def work(number: int) -> None:
        started.wait()
        for turn in range(8):
            with shared.hold(f"k{turn % 4}") as locked:
                locked.ensure_group()
                locked.add_member(f"m{number}-{turn}")

    with ThreadPoolExecutor(8) as threads:
        assert [*threads.map(work, range(8))] == [None] * 8
    assert [len(shared.ledger.members(f"k{number}")) for number in range(4)] == [16] * 4
    assert {group.origin for group in shared.list()} == {CREATED}


def test_two_keys_are_held_at_once_whatever_their_hashes(host: Host) -> None:
    """Versions until 0.2 had 32 locks for all keys."""
    of = monitor(host, group_prefix="mine-", patience=0.05)
    with ExitStack() as held:
        for number in range(100):
            held.enter_context(of.hold(f"k{number}"))
    for key in ("k4", "k6"):
        with of.hold("k5") as first, of.hold_beside(first, key, 0.1) as beside:
            assert (beside.key, beside.name) == (key, f"mine-{key}")
            assert beside.ensure_group("").path.endswith(f"/mine-{key}")


def test_key_that_its_thread_holds_fails_at_once_and_others_wait_for_it_and_see_changes(host: Host) -> None:
    of = monitor(host, patience=600)
    with of.hold("k") as held:
        with pytest.raises(errors.HeldError, match=r"key k is already held by this thread"):
            of.ensure_group("k")
        held.unlock()
        with hold(host) as other:
            other.ensure_group()
            other.record["pod"] = "web-0"
            other.save()
            with pytest.raises(errors.DeadlineError, match="was held for 0 s"):
                held.lock_again(0)
        held.lock_again(0)
        assert (held.tracked, held.record["pod"]) == (True, "web-0")
        with ThreadPoolExecutor(1) as another, pytest.raises(errors.LockTimeoutError, match=r"held for 0\.01 s"):
            another.submit(of.hold, "k", 0.01).result()
    with pytest.raises(errors.LockTimeoutError), host.context().ledger.lock("k", 0):
        monitor(host, patience=0.01).ensure_group("k")
    of.hold("k").unlock()


def test_failed_hold_releases_its_locks_but_not_the_first_key(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    of = monitor(host)
    with monkeypatch.context() as patch:
        patch.setattr(Monitor, "_locked_key", raising(MemoryError()))
        with pytest.raises(MemoryError):
            of.hold("k")
    of.hold("k", 0).unlock()
    with of.hold("b") as locked:
        other = monitor(host).hold("a")
        with pytest.raises(errors.LockTimeoutError):
            of.hold_beside(locked, "a", 0.01)
        with pytest.raises(errors.LockTimeoutError):
            monitor(host).hold("b", 0)
        other.unlock()
        monkeypatch.setattr(locked, "lock_again", raising(MemoryError()))
        with pytest.raises(MemoryError):
            of.hold_beside(locked, "a", 0.01)
        monitor(host).hold("a", 0).unlock()
