"""The handover of an RMID: the states of giver and taker, and undoing after a refusal or a kill."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hosts.faults import Fail
from hosts.killed_hook import EACH_OR_FIFTH, each_kill_point, mortal
from hosts.shared_node import RULES, SharedNode

from resctrl_hooks.core.node.errors import LockTimeoutError, ResctrlError
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey
from resctrl_hooks.core.node.resctrl.totals_file import LOCK
from resctrl_hooks.core.node.sharing import handover
from resctrl_hooks.core.node.sharing.handover import give_back, hand_on
from resctrl_hooks.lab.simulation.machine import BYTES_PER_SECOND

HOUSES = ("lab",)


class Pair(SharedNode):
    """A node with one RMID, which ``holds`` has and for which ``waits`` waits."""

    def __init__(self, root: Path, threads: int = 1) -> None:
        super().__init__(root, rmids=2, priority=RULES)
        self.holds, self.waits = self.start("batch", threads=threads), self.start("batch")
        self.before = kept(self)

    @contextmanager
    def held(self, *, renames: bool = True, thorough: bool = False) -> Iterator[tuple[LockedKey, Callable[[], bool]]]:
        """Hold both as a hook does; yield the giver, and how its group is handed on, or returned without a rename."""
        context = self.context()
        monitor, log = context.monitor, context.log
        with monitor.hold(self.waits.key) as takes, monitor.hold_beside(takes, self.holds.key, 1.0) as gives:
            if renames:
                yield gives, partial(hand_on, gives, takes, "", monitor, log, thorough=thorough)
            else:
                Path(monitor.ledger.folder, "cannot-rename").write_text(monitor.boot)
                yield gives, partial(give_back, gives, monitor, log)


def kept(node: SharedNode) -> tuple[Any, ...]:
    """Return everything that a handover changes: records, index, groups and members; without the start of waits."""
    ledger = node.context().ledger
    records = {key: ledger.read_pod(key) or {} for key in ledger.keys()}  # noqa: SIM118
    claims = {key: record.get("claim") for key, record in records.items()}
    groups = {key: record.get("groups") for key, record in records.items()}
    places = {tid: node.kernel.where(tid) for tid in node.kernel.threads.starts}
    return claims, groups, sorted(ledger.marked("rmids")), node.waiting(), node.kernel.groups(), places


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


@pytest.mark.parametrize("most, thorough, done", [(2, False, False), (3, False, True), (2, True, True)])
def test_moved_tasks_are_limited(tmp_path: Path, most: int, thorough: bool, done: bool) -> None:
    pair = Pair(tmp_path, threads=3)
    with pair.held(thorough=thorough) as (_, act), pytest.MonkeyPatch.context() as patch:
        patch.setattr(handover, "_MOST_TASKS", most)
        assert act() == done
    assert pair.waiting() == [pair.holds.key if done else pair.waits.key]


@pytest.mark.parametrize("renames", [True, False])
def test_pod_keeps_its_group_if_a_handover_takes_long(pair: Pair, renames: bool) -> None:
    with pair.held(renames=renames) as (giver, act):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(giver._resctrl, "tasks", lambda *_: {pair.holds.pid})  # without end
            assert not act()
        assert kept(pair) == pair.before
        with pair.context().ledger.lock_totals(LOCK, 0), pytest.raises(LockTimeoutError):
            act()  # a reader of counters
    assert kept(pair) == pair.before
    assert pair.counted() == [pair.holds]


def test_tasks_that_cannot_be_moved_back_are_reported_and_left_to_reconcile(pair: Pair, fail: Fail) -> None:
    pair.kernel.refuse_rename = errno.EIO
    with pair.held() as (giver, act):
        busy = ResctrlError("the kernel has no time")
        fail(giver._resctrl, "add_tasks", busy, when=lambda _class, name, _tids: bool(name))
        with pytest.raises(ResctrlError):
            act()
    said = f"reconcile will move tasks of {pair.holds.key} back to its group: the kernel has no time"
    assert said in pair.host.log.read_text()
    assert pair.kernel.where(pair.holds.pid) == ("", "")
    pair.kernel.refuse_rename = 0
    pair.reconcile()
    assert kept(pair) == pair.before


def test_group_is_returned_with_counts_without_rename(pair: Pair) -> None:
    pair.kernel.now += 10
    pair.kernel.show_counters()
    with pair.held() as (giver, _):
        assert not give_back(giver, pair.context().monitor, pair.context().log)  # as long as they can
    with pair.held(renames=False) as (giver, act):
        assert act()
        assert giver.origins == {}
        assert not act()  # it has none now
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
    assert kept(node)[:3] == before[:3]
    assert (node.kernel.groups(), node.waiting()) == (before[4], [gold.key])
    node.check()
    node.kernel.refuse_rename = 0
    node.reconcile()
    assert (node.counted(), node.waiting()) == ([gold, second], [batch.key])


def repaired(node: SharedNode) -> None:
    """Reconcile until nothing is in limbo, and look whether all promises are kept."""
    for _ in range(2):
        node.kernel.now += 2
        report = node.reconcile()
        assert not report.events["failed"], report.events["failed"]
    node.check_settled()


@EACH_OR_FIFTH
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


@EACH_OR_FIFTH
@pytest.mark.parametrize("runtimes", [0, 1])
def test_reconcile_killed_at_any_effect_of_a_turn_is_finished_by_next(tmp_path: Path, step: int, runtimes: int) -> None:
    share: dict[str, Any] = {"share": {"interval": 0.001, "atLeast": 0}, "reserve": {"runtimes": runtimes}}
    for number, folder, done in each_kill_point(tmp_path, least=15 // step, most=160):
        node = SharedNode(folder, rmids=2 + runtimes, priority=RULES, **share)
        node.start("gold", threads=2)
        node.start("gold", threads=2)
        node.kernel.now += 10
        with mortal(number * step + 1, node.kernel) as seam:  # the eleventh effect, too: a turn was lost there
            node.reconcile(seam=seam)
            done.append(True)
        node.kernel.now += 10
        repaired(node)
        assert len(node.counted()) == 1
        # Both together were counted while one of them was in the one group that there is, and never twice.
        assert 0 < sum(node.totals().values()) <= 2 * (node.kernel.now - 1000) * BYTES_PER_SECOND
