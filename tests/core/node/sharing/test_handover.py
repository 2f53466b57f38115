"""The handover of an RMID: the states of giver and taker, and undoing after a refusal."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hosts.faults import Fail
from hosts.killed_hook import each_kill_point, mortal
from hosts.shared_node import RULES, Pod, SharedNode

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import LockTimeoutError, ResctrlError
from resctrl_hooks.core.node.reconcile.vanished import read_vanished
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey
from resctrl_hooks.core.node.resctrl.renaming import can_rename
from resctrl_hooks.core.node.resctrl.totals_file import LOCK
from resctrl_hooks.core.node.sharing import handover
from resctrl_hooks.core.node.sharing.handover import give_back, hand_on
from resctrl_hooks.lab.simulation.machine import BYTES_PER_SECOND

HOUSES = ("lab",)


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


def test_task_forked_during_move_stays_with_its_pod(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    batch = node.start("batch")
    node.kernel.born_at_rename = batch
    gold = node.start("gold")
    assert node.counted() == [gold]
    born = max(node.kernel.threads.starts)
    assert (node.host.proc / f"{born}/cgroup").read_text() == f"0::{batch.cgroup}\n"
    assert node.kernel.where(born) == ("", "")
    node.check()


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


class Pair(SharedNode):
    """A node with one RMID, which ``holds`` has and for which ``waits`` waits."""

    def __init__(self, root: Path, threads: int = 1, **monitoring: Any) -> None:
        super().__init__(root, rmids=2, **monitoring)
        self.holds, self.waits = self.start("batch", threads=threads), self.start("batch")
        self.before = kept(self)

    @contextmanager
    def held(self) -> Iterator[Handing]:
        with held(self, self.holds, self.waits) as handing:
            yield handing


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path, priority=RULES)


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
    places = {tid: node.kernel.where(tid) for tid in node.kernel.threads.starts}
    return claims, groups, sorted(ledger.marked("rmids")), node.waiting(), node.kernel.groups(), places


def cannot_rename(handing: Handing) -> None:
    monitor = handing.context.monitor
    Path(monitor.ledger.folder, "cannot-rename").write_text(monitor.boot)


@pytest.mark.parametrize("most, thorough, done", [(2, False, False), (3, False, True), (2, True, True)])
def test_number_of_moved_tasks_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, thorough: bool, done: bool
) -> None:
    monkeypatch.setattr(handover, "_MOST_TASKS", most)
    pair = Pair(tmp_path, threads=3, priority=RULES)
    with pair.held() as handing:
        assert handing.on(thorough=thorough) == done
    assert pair.waiting() == [pair.holds.key if done else pair.waits.key]


@pytest.mark.parametrize("renames", [True, False])
def test_pod_with_endless_tasks_keeps_group(pair: Pair, monkeypatch: pytest.MonkeyPatch, renames: bool) -> None:
    with pair.held() as handing:
        if not renames:
            cannot_rename(handing)
        monkeypatch.setattr(handing.context.monitor.resctrl, "tasks", lambda _class, _name: {pair.holds.pid})
        assert not (handing.on() if renames else handing.back())
    assert kept(pair) == pair.before


@pytest.mark.parametrize("renames", [True, False])
def test_pod_stays_in_its_group_if_a_reader_of_counters_takes_long(pair: Pair, renames: bool) -> None:
    with pair.held() as handing:
        if not renames:
            cannot_rename(handing)
        with handing.context.ledger.lock_totals(LOCK, 0), pytest.raises(LockTimeoutError):
            _ = handing.on() if renames else handing.back()
    assert kept(pair) == pair.before
    assert pair.counted() == [pair.holds]


def test_tasks_that_cannot_be_moved_back_are_reported_and_left_to_reconcile(pair: Pair, fail: Fail) -> None:
    pair.kernel.refuse_rename = errno.EIO
    with pair.held() as handing:
        busy = ResctrlError("the kernel has no time")
        fail(handing.context.monitor.resctrl, "add_tasks", busy, when=lambda _class, name, _tids: bool(name))
        with pytest.raises(ResctrlError):
            handing.on()
    said = f"reconcile will move tasks of {pair.holds.key} back to its group: the kernel has no time"
    assert said in pair.host.log.read_text()
    assert pair.kernel.where(pair.holds.pid) == ("", "")
    pair.kernel.refuse_rename = 0
    pair.reconcile()
    assert kept(pair) == pair.before


def test_group_is_returned_with_counts_without_rename(pair: Pair) -> None:
    pair.kernel.now += 10
    pair.kernel.show_counters()
    with pair.held() as handing:
        assert not handing.back()  # as long as they can
        cannot_rename(handing)
        assert handing.back()
        assert handing.giver.origins == {}
        assert not handing.back()  # it has none now
    keys = [pair.holds.key, pair.waits.key]
    assert f"released the RMID of {keys[0]} for a waiting pod" in pair.host.log.read_text()
    assert (pair.kernel.groups(), pair.waiting()) == (set(), keys)
    assert [kept(pair)[0][key]["priority"] for key in keys] == [-10, -10]
    assert pair.totals()[keys[0]] >= 9 * BYTES_PER_SECOND


def test_pod_counted_in_one_class_continues_without_another(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=5, priority=RULES)  # the classes have one each
    node.add_class("a", "b")
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


# Kills

EACH = pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.ci)])
"""The distance of the effects at which the process is killed."""


def repaired(node: SharedNode) -> None:
    """Reconcile until nothing is in limbo, and look whether all promises are kept."""
    for _ in range(2):
        node.kernel.now += 2
        report = node.reconcile()
        assert not report.events["failed"], report.events["failed"]
    assert read_vanished(node.context().settings.state_dir)["total"] == 0, "no other program removed a group"
    assert node.marked("changing") == []
    node.check()


@EACH
def test_hook_killed_at_any_effect_is_finished_by_reconcile(tmp_path: Path, step: int) -> None:
    for number, folder, finished in each_kill_point(tmp_path, least=15 // step, most=80):
        effects = number * step
        node = SharedNode(folder, priority=RULES)
        silver, batch = node.start("silver"), node.start("batch", threads=2)
        node.kernel.now += 10
        gold = node.start("gold", effects=effects)
        if gold in node.counted():
            finished.append(True)
        node.kernel.now += 10
        repaired(node)
        assert node.counted() == [silver, gold], effects
        assert node.waiting() == [batch.key], effects
        totals = node.totals()
        rate = totals[silver.key] / (node.kernel.now - 1000)
        # Every count belongs to one pod, once; the uncounted time is that of the moves.
        assert totals[batch.key] >= 2 * 10 * rate - 2 * node.kernel.UNIT, effects
        assert totals[batch.key] + totals[gold.key] <= (2 * 16 + 14) * rate, effects


@EACH
@pytest.mark.parametrize("runtimes", [0, 1])
def test_reconcile_killed_at_any_effect_of_a_turn_is_finished_by_next(tmp_path: Path, step: int, runtimes: int) -> None:
    share: dict[str, Any] = {"share": {"interval": 0.001, "atLeast": 0}, "reserve": {"runtimes": runtimes}}
    for number, folder, done in each_kill_point(tmp_path, least=15 // step, most=160):
        node = SharedNode(folder, rmids=2 + runtimes, priority=RULES, **share)
        first, second = node.start("gold", threads=2), node.start("gold", threads=2)
        node.kernel.now += 10
        with mortal(number * step + 1, node.kernel) as seam:  # the eleventh effect, too: a turn was lost there
            node.reconcile(seam=seam)
            done.append(True)
        node.kernel.now += 10
        repaired(node)
        assert len(node.counted()) == 1
        totals = node.totals()
        # Both together were counted while one of them was in the one group that there is, and never twice.
        assert 0 < totals[first.key] + totals[second.key] <= 2 * (node.kernel.now - 1000) * BYTES_PER_SECOND
