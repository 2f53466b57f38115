"""The handover of an RMID: the states of giver and taker, and undoing after a refusal."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hosts.shared_node import RULES, SharedNode

from resctrl_hooks.node.errors import ResctrlError
from resctrl_hooks.node.resctrl import counter_totals
from resctrl_hooks.node.resctrl.group import CREATED, SHARED
from resctrl_hooks.node.sharing import handover
from resctrl_hooks.node.sharing.handover import can_rename, give_back, hand_on
from resctrl_hooks.node.sharing.priority import version_of
from resctrl_hooks.simulation.machine import BYTES_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hosts.faults import Fail
    from hosts.shared_node import Pod

    from resctrl_hooks.node.context import Context
    from resctrl_hooks.node.resctrl.locked_key import LockedKey

MOST_EFFECTS = 80


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EPERM])
def test_refused_rename_undoes_everything(tmp_path: Path, number: int) -> None:
    node = SharedNode(tmp_path, priority=RULES)
    silver, batch = node.start("silver"), node.start("batch", threads=2)
    node.kernel.now += 10
    node.kernel.refuse_rename = number
    gold = node.start("gold")
    assert node.counted() == [silver, batch]
    assert node.waiting() == [gold.key]
    node.check()
    assert can_rename(node.context().monitor) == (number != errno.EPERM)
    node.kernel.now += 10
    totals = node.totals()
    assert totals[batch.key] == pytest.approx(2 * totals[silver.key], abs=3 * node.kernel.UNIT)


def test_group_with_too_many_tasks_is_left_to_reconcile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "_MOST_TASKS", 3)
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    batch = node.start("batch", threads=4)
    gold = node.start("gold")
    assert node.counted() == [batch]
    node.reconcile()
    assert node.counted() == [gold]
    node.check()


def test_task_forked_during_move_stays_with_its_pod(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    batch = node.start("batch")
    node.kernel.born_at_rename = batch
    gold = node.start("gold")
    assert node.counted() == [gold]
    born = max(node.kernel.threads.table)
    assert (node.host.proc / f"{born}/cgroup").read_text() == f"0::{batch.cgroup}\n"
    assert node.kernel.where(born) == ("", "")
    node.check()


def test_handover_is_reported_and_giver_keeps_unread_counts(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, priority=RULES)
    node.start("silver")
    batch = node.start("batch")
    node.kernel.now += 10
    gold = node.start("gold")
    assert f"RMID handover from {batch.key} (priority -10) to {gold.key} (priority 100)" in node.host.log.read_text()
    totals = node.totals()
    assert totals[gold.key] == 0
    assert totals[batch.key] > 0


def test_cache_lines_of_giver_do_not_count_for_taker(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    node.start("batch")
    node.kernel.now += 10
    gold = node.start("gold")
    node.kernel.show_counters()

    def said() -> dict[str, tuple[str, bool]]:
        readings = node.context().monitor.read_all()[gold.key]
        return {reading.counter.name: (reading.state, reading.value is None) for reading in readings}

    assert said()["llc_occupancy"] == ("Inherited", True)
    assert not said()["mbm_total_bytes"][1]
    occupancy = node.host.resctrl / f"mon_groups/{gold.key}/mon_data/mon_L3_00/llc_occupancy"
    occupancy.write_text("Unavailable\n")
    assert said()["llc_occupancy"] == ("Unavailable", True)


class Handing:
    """Two pods of a node, held as a hook holds them, or one."""

    def __init__(self, context: Context, giver: LockedKey, taker: LockedKey) -> None:
        self.context = context
        self.giver = giver
        self.taker = taker

    def on(self, rdt_class: str = "", *, thorough: bool = False) -> bool:
        return hand_on(self.giver, self.taker, rdt_class, self.context.monitor, self.context.log, thorough=thorough)

    def back(self) -> bool:
        return give_back(self.giver, self.context.monitor, self.context.log)


@contextmanager
def held(node: SharedNode, giver: Pod, taker: Pod) -> Iterator[Handing]:
    context = node.context()
    monitor = context.monitor
    with monitor.hold(taker.key) as takes, monitor.hold_beside(takes, giver.key, 1.0) as gives:
        yield Handing(context, gives, takes)


def kept(node: SharedNode) -> tuple[Any, ...]:
    """Return everything that a handover changes: records, index, groups and members; without the start of waits."""
    ledger = node.context().ledger
    records = {key: ledger.read_pod(key) or {} for key in ledger.keys()}  # noqa: SIM118
    claims = {key: record.get("claim") for key, record in records.items()}
    groups = {key: record.get("groups") for key, record in records.items()}
    places = {tid: node.kernel.where(tid) for tid in node.kernel.threads.table}
    return claims, groups, sorted(ledger.marked("rmids")), node.waiting(), node.kernel.groups(), places


def taker_has_one(handing: Handing) -> None:
    handing.taker.origins[""] = CREATED


def somebody_elses(handing: Handing) -> None:
    handing.giver.origins[""] = SHARED


def gone(handing: Handing) -> None:
    handing.giver.origins.clear()
    handing.giver.origins["no-class"] = CREATED


def cannot_rename(handing: Handing) -> None:
    monitor = handing.context.monitor
    Path(monitor.ledger.folder, "cannot-rename").write_text(monitor.boot)


@pytest.mark.parametrize("why", [taker_has_one, somebody_elses, gone, cannot_rename])
def test_impossible_handover_changes_nothing(tmp_path: Path, why: Callable[[Handing], None]) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    batch, late = node.start("batch"), node.start("batch")
    before = kept(node)
    with held(node, batch, late) as handing:
        why(handing)
        assert not handing.on()
    assert kept(node) == before


@pytest.mark.parametrize("most, thorough, done", [(2, False, False), (3, False, True), (2, True, True)])
def test_number_of_moved_tasks_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, thorough: bool, done: bool
) -> None:
    monkeypatch.setattr(handover, "_MOST_TASKS", most)
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    batch, late = node.start("batch", threads=3), node.start("batch")
    with held(node, batch, late) as handing:
        assert handing.on(thorough=thorough) == done
    assert node.waiting() == [batch.key if done else late.key]


def test_both_pods_keep_their_priority(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    batch = node.start("batch")
    gold = node.start("gold")
    ledger, version = node.context().ledger, version_of(RULES)
    waits, holds = node.claim(batch), node.claim(gold)
    assert (waits["priority"], waits["rules"], waits["entry"]) == (-10, version, "")
    assert (holds["priority"], holds["rules"]) == (100, version)
    assert ledger.marked("rmids") == [holds["entry"]]


def test_claim_by_earlier_rules_is_marked(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    batch = node.start("batch")
    node.configure(monitoring={"priority": RULES[:2]})
    node.start("gold")
    assert node.claim(batch)["rules"] == version_of(RULES)


def test_pod_without_claim_has_priority_0(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2)
    first, late = node.start("batch"), node.start("batch")
    with held(node, first, late) as handing:
        assert handing.on()
    assert f"RMID handover from {first.key} (priority 0) to {late.key} (priority 0)" in node.host.log.read_text()
    node.reconcile()
    assert [node.counted(), node.waiting()] == [[late], [first.key]]


def test_pod_without_claim_returns_with_priority_0(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2)
    first, late = node.start("batch"), node.start("batch")
    with held(node, first, late) as handing:
        cannot_rename(handing)
        assert handing.back()
        assert handing.giver.record["claim"]["priority"] == 0


def test_group_in_class_of_taker_is_handed_over_and_other_removed(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=5, priority=RULES)
    node.kernel.mkdir(f"{node.host.resctrl}/a")
    node.kernel.mkdir(f"{node.host.resctrl}/b")
    batch = node.start("batch", rdt_class="a")
    node.start("batch", rdt_class="b", beside=batch)
    late = node.start("batch")
    assert node.kernel.groups() == {("a", batch.key), ("b", batch.key)}
    rmid = node.kernel.model.classes["b"].monitored[batch.key].rmid
    with held(node, batch, late) as handing:
        assert handing.on("b")
        assert handing.giver.origins == {}
        assert handing.taker.origins == {"b": CREATED}
    assert node.kernel.groups() == {("b", late.key)}
    assert node.kernel.model.classes["b"].monitored[late.key].rmid == rmid
    assert node.waiting() == [batch.key]


def test_pruned_group_does_not_block_the_other(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=5, priority=RULES)
    for name in ("a", "b"):
        node.kernel.mkdir(f"{node.host.resctrl}/{name}")
    batch = node.start("batch", rdt_class="a")
    node.start("batch", rdt_class="b", beside=batch)
    late = node.start("batch")
    node.kernel.rmdir(f"{node.host.resctrl}/a/mon_groups/{batch.key}")
    with held(node, batch, late) as handing:
        assert handing.on("b")
    assert node.kernel.groups() == {("b", late.key)}


def test_unreadable_group_stays_and_rename_remains_possible(tmp_path: Path, fail: Fail) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    batch, late = node.start("batch"), node.start("batch")
    before = kept(node)
    fail(counter_totals, "read_group", OSError(errno.ENODEV, "No such device"))
    with held(node, batch, late) as handing:
        assert not handing.on()
        assert can_rename(handing.context.monitor)
    assert kept(node) == before


def test_pod_counted_in_one_class_continues_without_another(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=5, priority=RULES)  # the classes have one each
    for name in ("a", "b"):
        node.kernel.mkdir(f"{node.host.resctrl}/{name}")
    gold, batch = node.start("gold", rdt_class="a"), node.start("batch")
    before = kept(node)
    node.kernel.refuse_rename = errno.EIO
    second = node.start("gold", rdt_class="b", beside=gold)
    claims, groups, entries, waiting, there, _ = kept(node)
    assert (claims, groups, entries, there) == (before[0], before[1], before[2], before[4])
    assert waiting == [gold.key]
    node.check()
    node.kernel.refuse_rename = 0
    node.reconcile()
    assert node.counted() == [gold, second]
    assert node.waiting() == [batch.key]


@pytest.mark.parametrize("renames", [True, False])
def test_pod_with_endless_tasks_keeps_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: bool) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    batch, late = node.start("batch"), node.start("batch")
    before = kept(node)
    with held(node, batch, late) as handing:
        if not renames:
            cannot_rename(handing)
        monkeypatch.setattr(handing.context.monitor.resctrl, "tasks", lambda _class, _name: {batch.pid})
        assert not (handing.on() if renames else handing.back())
    after = kept(node)
    assert after[:-1] == before[:-1]
    if renames:
        assert after == before
    else:
        node.reconcile()
        assert kept(node) == before


def test_tasks_that_cannot_be_moved_back_are_reported_and_left_to_reconcile(tmp_path: Path, fail: Fail) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    batch, late = node.start("batch"), node.start("batch")
    before = kept(node)
    node.kernel.refuse_rename = errno.EIO
    with held(node, batch, late) as handing:
        busy = ResctrlError("the kernel has no time")
        fail(handing.context.monitor.resctrl, "add_tasks", busy, when=lambda _class, name, _tids: bool(name))
        with pytest.raises(ResctrlError):
            handing.on()
    said = node.host.log.read_text()
    assert f"reconcile will move tasks of {batch.key} back to its group: the kernel has no time" in said
    assert node.kernel.where(batch.pid) == ("", "")
    node.kernel.refuse_rename = 0
    node.reconcile()
    assert kept(node) == before


def test_group_is_returned_with_counts_without_rename(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    batch, late = node.start("batch"), node.start("batch")
    node.kernel.now += 10
    node.kernel.show_counters()
    with held(node, batch, late) as handing:
        assert not handing.back()  # as long as they can
        cannot_rename(handing)
        assert handing.back()
        assert handing.giver.origins == {}
        assert not handing.back()  # it has none now
    assert f"released the RMID of {batch.key} for a waiting pod" in node.host.log.read_text()
    assert node.kernel.groups() == set()
    claims = kept(node)[0]
    assert [claims[pod.key]["priority"] for pod in (batch, late)] == [-10, -10]
    assert node.waiting() == [batch.key, late.key]
    assert node.totals()[batch.key] >= 9 * BYTES_PER_SECOND


def test_foreign_group_is_not_returned(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    batch, late = node.start("batch"), node.start("batch")
    before = kept(node)
    with held(node, batch, late) as handing:
        cannot_rename(handing)
        somebody_elses(handing)
        assert not handing.back()
    assert kept(node) == before
