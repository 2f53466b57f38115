import errno
from pathlib import Path
from typing import Any

import pytest
from conftest import BOOT, Host

from resctrl_hooks.core.node.errors import (
    ClassMismatchError,
    DeadlineError,
    LockTimeoutError,
    NoRMIDsError,
    NotTrackedError,
    TaskGoneError,
)
from resctrl_hooks.core.node.features.monitoring import lacks_counter
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem
from resctrl_hooks.core.node.resctrl.group import CREATED, SHARED, Group
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey
from resctrl_hooks.core.node.resctrl.monitor import Monitor


def hold(host: Host, fs: Filesystem | None = None) -> LockedKey:
    return Monitor(str(host.resctrl), state_dir=str(host.state), proc=str(host.proc), fs=fs).hold("k")


def test_groups_compare_by_value() -> None:
    one, same, other = Group("k", "", "/a", CREATED), Group("k", "", "/a", SHARED), Group("k", "gold", "/b", CREATED)
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != "k"
    assert repr(one) == "Group(key='k', rdt_class='', path='/a', origin='created')"
    assert one.how == one.origin, "programs that were written for 0.2 read it so"


def test_group_is_recorded_before_creation(host: Host) -> None:
    class Looking(Filesystem):
        def mkdir(self, path: str) -> None:
            record = host.context().ledger.read_pod("k") or {}
            assert record.pop("since") == {"": record.pop("born")}
            assert record == {"key": "k", "boot": BOOT, "groups": {"": CREATED}, "names": {"": "k"}, "format": 1}
            super().mkdir(path)

    with hold(host, Looking()) as locked:
        assert locked.ensure_group().origin == CREATED
        assert locked.ensure_group().origin == CREATED
        assert locked.how == locked.origins == {"": CREATED}, "programs that were written for 0.2 read it so"


def test_foreign_group_is_joined_and_stays(host: Host) -> None:
    (host.resctrl / "mon_groups/k").mkdir()
    with hold(host) as locked:
        assert locked.ensure_group().origin == SHARED
        assert (host.context().ledger.read_pod("k") or {})["groups"] == {"": SHARED}
        assert locked.release() == []
    assert host.groups() == ["mon_groups/k"]
    assert host.records() == []


def test_group_created_concurrently_is_shared(host: Host) -> None:
    class Racing(Filesystem):
        def mkdir(self, path: str) -> None:
            super().mkdir(path)
            super().mkdir(path)

    with hold(host, Racing()) as locked:
        assert locked.ensure_group().origin == SHARED
    with hold(host) as locked:
        assert locked.origins == {"": SHARED}, "later callers must know that it is not ours"
        assert locked.release() == []


def test_removed_group_is_recreated(host: Host) -> None:
    with hold(host) as locked:
        locked.ensure_group()
        (host.resctrl / "mon_groups/k").rmdir()
        assert locked.ensure_group().origin == CREATED
    assert host.groups() == ["mon_groups/k"]


class Full(Filesystem):
    """A kernel without a free RMID."""

    def mkdir(self, path: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_group_that_could_not_be_created_is_not_recorded(host: Host) -> None:
    host.context().ledger.prepare()
    host.context().ledger.mark("rmids", "5.k")
    with hold(host, Full()) as locked:
        locked.record["claim"] = {"entry": "5.k", "priority": 5, "rules": 1, "since": 0}
        with pytest.raises(NoRMIDsError):
            locked.ensure_group()
        assert (host.records(), locked.tracked) == (["pods/k"], False)
        locked.unlock()
        assert host.records() == []
        locked.lock_again(0)
        locked.add_member("m")
        with pytest.raises(NoRMIDsError):
            locked.ensure_group()
        assert (locked.groups(), locked.tracked) == ([], True)
    assert host.records() == ["containers/m", "pods/k/c-m", "pods/k/pod"]


def test_record_of_another_boot_is_void(host: Host) -> None:
    with hold(host) as locked:
        locked.ensure_group()
        locked.add_member("m")
    (host.proc / "sys/kernel/random/boot_id").write_text("another\n")
    with hold(host) as locked:
        assert not locked.tracked
        assert locked.members() == []
    assert host.records() == []


def test_members_are_added_and_removed(host: Host) -> None:
    host.process(7, start=5)
    with hold(host) as locked:
        locked.add_member("a", pid=7)
        locked.add_member("b", {"note": 1})
        assert sorted(locked.members()) == ["a", "b"]
        assert locked.member("b") == {"id": "b", "key": "k", "boot": BOOT, "note": 1, "format": 1}
        assert locked.member("none") is None
        assert locked.remove_member("a") == 1
        assert locked.remove_member("a") == 1


def test_dead_members_are_recognized(host: Host) -> None:
    host.process(7, start=5)
    with hold(host) as locked:
        locked.add_member("lives", pid=7)
        locked.add_member("unknown")
        locked.add_member("gone-at-once", pid=9)
        dead = [name for name in ("lives", "unknown", "gone-at-once", "none") if locked.member_is_dead(name)]
        assert dead == ["gone-at-once", "none"]
        host.process(7, start=6)
        assert locked.member_is_dead("lives")
        host.end_process(7)
        assert locked.member_is_dead("lives")


def test_process_joins_group_in_its_own_class(host: Host) -> None:
    host.add_class("gold")
    host.process(7, rdt="gold")
    with hold(host) as locked:
        with pytest.raises(NotTrackedError):
            locked.assign_pid(7)
        locked.ensure_group("")
        with pytest.raises(ClassMismatchError, match="process 7 is in gold, but the groups of k are in the root class"):
            locked.assign_pid(7)
        locked.ensure_group("gold")
        assert locked.assign_pid(7) == 1
    assert host.tasks("gold/mon_groups/k") == [7]


class InGold(Filesystem):
    """A kernel that takes threads in class gold only: where they live, though /proc doesn't say it."""

    def write(self, path: str, value: bytes) -> None:
        if "/gold/" not in path:
            raise OSError(22, "Invalid argument")
        super().write(path, value)


def test_unknown_class_tries_each_group(host: Host) -> None:
    for name in ("bronze", "gold", "silver"):
        host.add_class(name)
    host.process(7)
    with hold(host, InGold()) as locked:
        for name in ("bronze", "silver"):
            locked.ensure_group(name)
            with pytest.raises(ClassMismatchError):
                locked.assign_pid(7)
        locked.ensure_group("gold")
        assert locked.assign_pid(7) == 1
    assert host.tasks("gold/mon_groups/k") == [7]


def test_release_covers_all_classes(host: Host) -> None:
    host.add_class("gold")
    with hold(host) as locked:
        locked.ensure_group()
        locked.ensure_group("gold")
        locked.add_member("m")
        host.context().ledger.mark("rmids", "5.k")
        locked.record["claim"] = {"entry": "5.k", "priority": 5, "rules": 1, "since": 0}
        assert [group.rdt_class for group in locked.groups()] == ["", "gold"]
        assert [group.rdt_class for group in locked.release()] == ["", "gold"]
        assert not locked.tracked
    assert (host.groups(), host.records()) == ([], [])


def test_reacquired_lock_sees_changes_by_others(host: Host) -> None:
    with hold(host) as locked:
        locked.ensure_group()
        locked.unlock()
        with hold(host) as other:
            other.record["pod"] = "web-0"
            other.save()
            with pytest.raises(DeadlineError, match="was held for 0 s"):
                locked.lock_again(0)
        locked.lock_again(0)
        assert locked.record["pod"] == "web-0"
        with pytest.raises(LockTimeoutError):
            host.context().ledger.lock("k", 0)
    host.context().ledger.lock("k", 0).__exit__()


def test_saved_key_is_tracked(host: Host) -> None:
    with hold(host) as locked:
        assert not locked.tracked
        locked.save()
        assert locked.tracked


def test_key_with_member_is_not_idle(host: Host) -> None:
    ledger = host.context().ledger
    with hold(host) as locked:
        ledger.mark("idle", "k")
        locked.add_member("m")
    assert ledger.marked("idle") == []


def test_groups_in_other_classes_are_released_and_foreign_ones_forgotten(host: Host) -> None:
    for name in ("gold", "silver"):
        host.add_class(name)
    (host.resctrl / "silver/mon_groups/k").mkdir()
    with hold(host) as locked:
        for name in ("", "gold", "silver"):
            locked.ensure_group(name)
        locked.release_but({""})
        assert list(locked.origins) == [""]
    assert host.groups() == ["mon_groups/k", "silver/mon_groups/k"]
    assert (host.context().ledger.read_pod("k") or {})["groups"] == {"": CREATED}


@pytest.mark.parametrize(
    "text, lacks",
    [
        ("mbm_total_bytes:0=e;1=e\nmbm_local_bytes:0=_;1=_\n", False),
        ("mbm_total_bytes:0=e;1=_\nmbm_local_bytes:0=e;1=e\n", True),
        ("", False),
        (None, False),
    ],
)
@pytest.mark.parametrize("resource", ["L3", "MB", "X"])
def test_group_lacks_counter_if_one_domain_has_none(host: Host, resource: str, text: str | None, lacks: bool) -> None:
    with hold(host) as locked:
        group = locked.ensure_group()
        if text is not None:
            Path(group.path, f"mbm_{resource}_assignments").write_text(text)
        assert lacks_counter(host.context().monitor.resctrl, "", locked.name, "mbm_total_bytes") is lacks


def test_ended_process_is_reported(host: Host) -> None:
    with hold(host) as locked:
        locked.ensure_group()
        with pytest.raises(TaskGoneError) as raised:
            locked.assign_pid(7)
    assert raised.value.errno == errno.ESRCH


@pytest.mark.parametrize("counted, readable", [(True, True), (True, False), (False, True)])
def test_energy_baseline_of_new_group_is_kept(
    host: Host, monkeypatch: pytest.MonkeyPatch, counted: bool, readable: bool
) -> None:
    if counted:
        (host.resctrl / "info/PERF_PKG_MON").mkdir(parents=True)
    said = ("made", {"mon_PERF_PKG_00/core_energy": 700.5})

    def baseline(folder: str) -> tuple[str, dict[str, float]]:
        assert Path(folder).is_dir()
        if not readable:
            raise OSError(errno.EIO, "Input/output error")
        return said

    monkeypatch.setattr("resctrl_hooks.core.node.resctrl.energy_baseline.baseline", baseline)
    with hold(host) as locked:
        assert locked.ensure_group().how == CREATED
    record: Any = host.context().ledger.read_pod("k")
    assert list(record.get("baselines", {}).values()) == ([list(said)] if counted and readable else [])


def test_recorded_name_of_a_group_outlives_its_prefix(host: Host) -> None:
    before = Monitor(str(host.resctrl), state_dir=str(host.state), group_prefix="a-")
    after = Monitor(str(host.resctrl), state_dir=str(host.state), group_prefix="b-")
    assert before.ensure_group("job").name == "a-job"
    assert after.ensure_group("job") == before.ensure_group("job")
    assert [group.name for group in after.list()] == ["a-job"]
    assert after.read("job") == before.read("job")
    assert after.read_all().keys() == {"job"}
    assert len(after.remove("job")) == 1
    assert host.groups() == []


def test_missing_group_of_a_former_prefix_is_created_with_the_present_one(host: Host) -> None:
    before = Monitor(str(host.resctrl), state_dir=str(host.state), group_prefix="a-")
    after = Monitor(str(host.resctrl), state_dir=str(host.state))
    before.resctrl.remove("", before.ensure_group("job").name)
    assert after.ensure_group("job").name == "job"
    assert before.ensure_group("job").name == "job"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../etc"])
def test_record_with_the_name_of_no_folder_is_damaged(host: Host, name: str) -> None:
    monitor = host.context().monitor
    monitor.ensure_group("job")
    record = monitor.ledger.read_pod("job")
    assert record is not None
    record["names"] = {"": name}
    monitor.ledger.write_pod("job", record)
    assert monitor.ledger.read_pod("job") is None
