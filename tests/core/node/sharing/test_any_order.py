"""RMIDs and bandwidth counters that pods share: in any order of events, with kills at each effect, and handovers."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import always, examples
from hosts.faults import Fail
from hosts.killed_hook import NEVER, each_kill_point, mortal
from hosts.shared_node import RULES, Pod, SharedNode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from resctrl_hooks.core.node.errors import LockTimeoutError, ResctrlError
from resctrl_hooks.core.node.reconcile.vanished import read_vanished
from resctrl_hooks.core.node.resctrl.counter_share import LOCK as COUNTERS_LOCK
from resctrl_hooks.core.node.resctrl.counter_share import OURS, Holder
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey
from resctrl_hooks.core.node.resctrl.renaming import can_rename
from resctrl_hooks.core.node.resctrl.totals_file import LOCK
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.core.node.sharing import counter_turns, handover
from resctrl_hooks.core.node.sharing.bandwidth_counters import balance, ensure_counted
from resctrl_hooks.core.node.sharing.counter_turns import set_turns, times_of
from resctrl_hooks.core.node.sharing.decision import Claim, gap, may_take, queue, spread, turns, yielding
from resctrl_hooks.core.node.sharing.handover import give_back, hand_on
from resctrl_hooks.lab.simulation.machine import BYTES_PER_SECOND

HOUSES = ("lab",)
NAMESPACES = {"gold": 100, "silver": 50, "": 0, "batch": -10}
TURNS: dict[str, Any] = {"interval": 0.0001, "atLeast": 0.0}
PICK = st.integers(0, 5)
EFFECTS = st.one_of(st.just(NEVER), st.just(NEVER), st.integers(0, 60))
"""After how many effects a hook or reconcile is killed."""


class Sharing(RuleBasedStateMachine):
    """The machine."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="rh", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
        self.since: dict[str, float] = {}
        self.changed = False  # the rules, since the last passes
        self.entered: dict[str, list[int]] = {}
        self.last: dict[str, int] = {}
        self.most = 0.0
        self.stuck: set[str] = set()

    @initialize(
        rmids=st.integers(2, 5),
        by_rank=st.booleans(),
        shares=st.booleans(),
        reserve=st.sampled_from([{}, {"rmids": 1, "above": 50}, {"runtimes": 1}]),
        renames=st.booleans(),
    )
    def begin(self, rmids: int, by_rank: bool, shares: bool, reserve: dict[str, Any], renames: bool) -> None:
        self.rmids, self.by_rank, self.shares, self.renames, self.reserve = rmids, by_rank, shares, renames, reserve
        self.node = SharedNode(self.folder, rmids=rmids)
        self.configure()
        self.node.kernel.refuse_rename = 0 if renames else errno.EPERM
        rename = self.node.kernel.rename

        def refuse(old: str, new: str) -> None:
            if old.rpartition("/")[2] in self.stuck:
                raise OSError(errno.EPERM, "Cannot move a MON group that monitors CPUs", old)
            rename(old, new)

        self.node.kernel.rename = refuse  # type: ignore[method-assign]

    def configure(self) -> None:
        share = {"share": TURNS} if self.shares else {}
        reserve = {"reserve": self.reserve} if self.reserve else {}
        priority = {"priority": RULES if self.by_rank else []} if self.by_rank or self.changed else {}
        self.node.configure(monitoring={**share, **reserve, **priority}, deadlineSeconds=60)

    def teardown(self) -> None:
        try:
            if hasattr(self, "node"):
                for pod in self.living():
                    self.stop(pod)
                self.settle()
                assert self.node.kernel.groups() == set()
                assert self.node.context().ledger.keys() == []
        finally:
            shutil.rmtree(self.folder)

    def living(self) -> list[Pod]:
        return [pod for pod in self.node.pods if pod.pid]

    def pick(self, number: int) -> list[Pod]:
        """Return one living pod, if there is any."""
        living = self.living()
        return [living[number % len(living)]] if living else []

    def holders(self) -> set[str]:
        return {name for _, name in self.node.kernel.groups()}

    def rank(self, key: str) -> int:
        namespaces = {pod.key: pod.namespace for pod in self.node.pods}
        return NAMESPACES[namespaces[key]] if self.by_rank else 0

    @rule(namespace=st.sampled_from([*NAMESPACES]), threads=st.integers(1, 2), effects=EFFECTS)
    def start(self, namespace: str, threads: int, effects: int) -> None:
        before = self.holders()
        started = self.node.start(namespace, threads, effects=effects)
        for pod in self.living():
            if pod.key in before - self.holders() and not self.changed:
                assert NAMESPACES[pod.namespace] < self.rank(started.key), "a pod has yielded to its equal"

    @rule(number=PICK, effects=EFFECTS)
    def start_beside(self, number: int, effects: int) -> None:
        for pod in self.pick(number):
            self.node.start(pod.namespace, effects=effects, beside=pod)

    @rule(number=PICK)
    def end(self, number: int) -> None:
        for pod in self.pick(number):
            self.stop(pod)

    def stop(self, pod: Pod) -> None:
        for pid in self.entered.pop(pod.id, []):
            self.node.kernel.end(pid)
        last = sum(one.key == pod.key for one in self.living()) == 1
        self.node.end(pod, pod_lives=not last)

    @rule(seconds=st.sampled_from([0.5, 2.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.note_waits()
        self.count(seconds)

    def count(self, seconds: float) -> None:
        self.node.kernel.show_counters()  # which counts with the present tasks from now on
        self.most += seconds * len(self.node.kernel.threads.starts) * BYTES_PER_SECOND
        self.node.kernel.now += seconds

    @rule(effects=EFFECTS)
    def reconcile(self, effects: int) -> None:
        self.note_waits()
        before, since = self.holders(), dict(self.since)
        with mortal(effects, self.node.kernel) as seam:
            self.node.reconcile(seam=seam)
        self.note_waits()
        if not self.shares and not self.changed:
            for key in (self.holders() - before) & since.keys():
                others = [since[one] for one in self.since if one in since and self.rank(one) >= self.rank(key)]
                assert since[key] <= min(others, default=since[key]), "a pod was served before one that waits longer"

    def note_waits(self) -> None:
        """Learn since when each pod waits."""
        self.since = {key: self.since.get(key, self.node.kernel.now) for key in self.node.waiting()}

    @rule(number=PICK)
    def spawn(self, number: int) -> None:
        """A process enters a container from outside, in no group."""
        for pod in self.pick(number):
            self.entered.setdefault(pod.id, []).append(self.node.kernel.spawn(pod.cgroup))

    @rule()
    def change_rules(self) -> None:
        self.by_rank, self.changed = not self.by_rank, True
        self.configure()

    @rule(number=PICK, cpus=st.booleans())
    def monitor_cpus(self, number: int, cpus: bool) -> None:
        """A pod's group gets CPUs, so that it cannot be renamed, or loses them."""
        for pod in self.pick(number):
            (self.stuck.add if cpus else self.stuck.discard)(pod.key)

    @rule()
    def read(self) -> None:
        totals = self.node.totals()
        for key, before in self.last.items():
            assert totals.get(key, before) >= before, "a total fell"
        living = {pod.key for pod in self.living()}
        self.last = {key: total for key, total in {**self.last, **totals}.items() if key in living}
        assert sum(totals.values()) <= self.most + self.node.kernel.UNIT, "bytes were counted twice"

    @rule()
    def settle(self) -> None:
        """Reconcile until nothing is in limbo; then all promises are kept."""
        for _ in range(3):
            self.count(2.0)
            report = self.node.reconcile()
            assert not report.events["failed"], report.events["failed"]
        self.changed = False
        # Without renames, an RMID that a turn released is in limbo until the next pass.
        self.released = 0 if self.renames else report.number("handover")
        self.read()
        assert can_rename(self.node.context().monitor) or not self.renames
        check(self.node, records=self.by_rank or self.shares)
        self.check_ranks()

    def check_ranks(self) -> None:
        """No pod waits beside a free RMID, or beside a holder of lower priority."""
        waiting, holders = set(self.node.waiting()), self.holders()
        living = self.living()
        assert holders | waiting == {pod.key for pod in living}, "each pod is counted or waits"
        assert not holders & waiting
        free = self.rmids - 1 - len(self.node.kernel.groups())
        for key in waiting:
            priority = self.rank(key)
            kept = self.reserve.get("runtimes", 0) + self.released
            kept += self.reserve.get("rmids", 0) if priority <= self.reserve.get("above", 0) else 0
            assert free <= kept, f"{key} waits while {free} RMIDs are free"
            lower = [one for one in holders - self.stuck if self.rank(one) < priority]
            assert not lower, f"{key} of priority {priority} waits behind {lower}"
        for pod in living:
            for tid in self.node.kernel.threads.threads(pod.pid):
                assert self.node.kernel.where(tid)[1] == (pod.key if pod.key in holders else "")


def check(node: SharedNode, *, records: bool = True) -> None:
    """Check the promises for a node on which nothing is in limbo."""
    assert read_vanished(node.context().settings.state_dir)["total"] == 0, "no other program removed a group"
    assert node.marked("changing") == []
    if records:
        node.check()


Sharing.TestCase.settings = settings(
    max_examples=examples(30), stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSharing = Sharing.TestCase


# The handover of an RMID: the states of giver and taker, and undoing after a refusal


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


EACH = pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.ci)])
"""The distance of the effects at which the process is killed."""


def repaired(node: SharedNode) -> None:
    """Reconcile until nothing is in limbo, and look whether all promises are kept."""
    for _ in range(2):
        node.kernel.now += 2
        report = node.reconcile()
        assert not report.events["failed"], report.events["failed"]
    check(node)


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


# Bandwidth counters that change hands in turns


TOTAL = "mbm_total_bytes"
COUNTERS = 2
SECONDS = 10


def counted(node: SharedNode) -> list[str]:
    """Return the pods that have a counter for their total."""
    files = {name: f"{node.host.resctrl}/mon_groups/{name}/mbm_L3_assignments" for _, name in node.kernel.groups()}
    return sorted(name for name, path in files.items() if b"mbm_total_bytes:0=e" in node.kernel.read(path))


@EACH
def test_reconcile_killed_at_any_effect_of_a_turn_loses_no_total(tmp_path: Path, step: int) -> None:
    for number, folder, done in each_kill_point(tmp_path, least=10 // step, most=120):
        effects = number * step
        node = node_of(folder, 3, share=TURNS)
        assert len(counted(node)) == COUNTERS
        node.kernel.now += SECONDS
        before = node.totals()
        with mortal(effects, node.kernel) as seam:
            node.reconcile(seam=seam)
            done.append(True)
        killed = node.totals()
        assert all(killed[key] >= before[key] for key in before), effects
        for _ in range(2):
            node.kernel.now += SECONDS
            report = node.reconcile()
            assert not report.events["failed"], (effects, report.events["failed"])
            assert len(counted(node)) == COUNTERS, effects
        totals = node.totals()
        assert all(totals[key] >= killed[key] for key in killed), effects
        most = COUNTERS * 3 * SECONDS * BYTES_PER_SECOND
        assert 0.6 * most <= sum(totals.values()) <= most, effects
        node.check()


@pytest.mark.parametrize("share, times", [
    (None, (90.0, 30.0)), ({}, (90.0, 30.0)), ({"interval": 60}, (60.0, 20.0)),
    ({"interval": 60, "atLeast": 5}, (60.0, 5.0)), ({"atLeast": 0}, (90.0, 0.0)),
])  # fmt: skip
def test_turn_lasts_a_third_of_a_round_by_default(share: Any, times: tuple[float, float]) -> None:
    assert times_of(Settings({"monitoring": {"share": share}})) == times


KEEPS, WAITS, YIELDS = range(3)
ROUNDS: list[tuple[float, dict[str, bool], dict[str, Any]]] = [
    (1000, {"a": True, "b": False}, {"a": (KEEPS, 1000), "b": (WAITS, 1000)}),
    (1029, {"a": True, "b": False}, {"a": None, "b": None}),
    (1030, {"a": True, "b": False}, {"a": (YIELDS, -1000), "b": (WAITS, 1000)}),
    (1050, {"a": False, "b": True}, {"a": None, "b": None}),
    (1060, {"a": False, "b": True}, {"a": (WAITS, 1050), "b": (YIELDS, -1050)}),
    (1085, {"a": True, "b": False, "c": False}, {"a": None, "b": None, "c": None}),
    (1094, {"a": True, "b": False, "c": False}, {"a": (KEEPS, 1085), "b": (WAITS, 1085), "c": (WAITS, 1085)}),
]
"""Successive times, whether the pods' groups have counters, and the pods' places; None without a round."""


def test_round_is_due_after_interval_and_longest_holder_yields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = SharedNode(tmp_path)
    node.start()
    monitor = node.context().monitor
    settings = Settings({"monitoring": {"share": {"interval": 30, "atLeast": 10}}})
    monkeypatch.setattr(counter_turns, "chance", lambda: 0.0)
    monkeypatch.setattr(counter_turns, "gap", lambda interval, chance: interval)
    for time, has, places in ROUNDS:
        monkeypatch.setattr(counter_turns, "now", always(time))
        holders = [Holder(f"/{key}/0", {TOTAL: {0: True, 1: of}}, OURS, key) for key, of in has.items()]
        others = Holder("/", {TOTAL: {0: False}}, "root", "")
        set_turns(monitor, settings, [*holders, others], TOTAL)
        assert others.turn is None
        assert {holder.key: holder.turn for holder in holders} == places


def node_of(folder: Path, pods: int, **monitoring: Any) -> SharedNode:
    """Return a node with counters for two pods' totals."""
    node = SharedNode(folder, rmids=8, assignable_counters=2, events=[TOTAL], **monitoring)
    for _ in range(pods):
        node.start()
    return node


def test_busy_counters_are_not_a_failure(tmp_path: Path) -> None:
    node = node_of(tmp_path, 1)
    context = node.context()
    context.monitor.patience = 0.01
    with context.ledger.lock_named(COUNTERS_LOCK, 1):
        ensure_counted(context, node.pods[0].key)
    assert "cannot assign a bandwidth counter to " in node.host.log.read_text()


@pytest.mark.parametrize("share, options, turns", [
    (TURNS, {"in_turns": True}, 1), (TURNS, {"in_turns": True, "dry_run": True}, 0), (TURNS, {}, 0),
    (None, {"in_turns": True}, 0),
])  # fmt: skip
def test_turns_happen_in_reconcile_and_on_request_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: Any, options: dict[str, bool], turns: int
) -> None:
    node = node_of(tmp_path, 3, **({"share": share} if share else {}))
    asked: list[Any] = []
    monkeypatch.setattr(counter_turns, "set_turns", lambda *given: asked.append(given))
    assert balance(node.context(), **options) is not None
    assert len(asked) == turns
    without = SharedNode(tmp_path / "other")
    assert balance(without.context()) is None
    ensure_counted(without.context(), without.start().key)
    assert not without.host.log.exists() or "counter" not in without.host.log.read_text()


# Decisions about counted and waiting pods


TIMES = st.integers(0, 1000).map(float)


@st.composite
def claims(draw: st.DrawFn, prefix: str = "pod") -> list[Claim]:
    numbers = range(draw(st.integers(0, 12)))
    return [Claim(f"{prefix}{number}", draw(st.integers(-3, 3)), draw(TIMES)) for number in numbers]


@given(claims())
def test_queue_loses_no_pod_and_serves_by_priority_then_age(waiting: list[Claim]) -> None:
    served = queue(waiting)
    assert served == queue(reversed(waiting)) == sorted(served, key=lambda claim: (-claim.priority, claim.since))
    assert sorted(claim.key for claim in served) == sorted(claim.key for claim in waiting)


@given(claims(), st.integers(-4, 4), st.booleans())
def test_only_lower_priorities_yield_lowest_first(holders: list[Claim], priority: int, in_turns: bool) -> None:
    found = yielding(holders, priority, in_turns=in_turns)
    assert {claim.key for claim in found} == {claim.key for claim in holders if claim.priority < priority}
    # The latest of equals yields, or in turns the longest holder.
    assert found == sorted(found, key=lambda claim: (claim.priority, claim.since if in_turns else -claim.since))


@given(st.integers(0, 20), st.integers(-5, 5), st.integers(0, 10), st.integers(-5, 5), st.integers(0, 5))
def test_reserve_is_for_higher_priorities(free: int, priority: int, reserved: int, above: int, runtimes: int) -> None:
    taken = may_take(free, priority, reserved=reserved, above=above, runtimes=runtimes)
    assert taken == (free > runtimes if priority > above else free > reserved + runtimes)


@given(claims("holder"), claims("waiting"), TIMES, TIMES, st.integers(1, 60), st.integers(0, 60))
def test_turn_is_once_per_equal_pod_and_never_too_short(
    holders: list[Claim], waiting: list[Claim], now: float, last: float, interval: int, at_least: int
) -> None:
    pairs = turns(holders, waiting, now, last=last, interval=interval, at_least=at_least)
    assert not pairs or now - last >= interval
    assert len({giver.key for giver, _ in pairs}) == len({taker.key for _, taker in pairs}) == len(pairs)
    due = [one for one in holders if now - one.since >= at_least] if now - last >= interval else []
    for priority in range(-3, 4):
        numbers = [sum(one.priority == priority for one in of) for of in (due, waiting)]
        assert sum(giver.priority == priority for giver, _ in pairs) == min(numbers)
    for giver, taker in pairs:
        assert giver in holders
        assert taker in waiting
        assert giver.priority == taker.priority
        assert now - giver.since >= at_least


@given(st.integers(1, 6), st.integers(0, 12))
def test_equal_pods_are_counted_equally_over_many_rounds(rmids: int, more: int) -> None:
    holders = [Claim(f"p{number:02}", 0, 0.0) for number in range(rmids)]
    waiting = [Claim(f"p{number:02}", 0, 0.0) for number in range(rmids, rmids + more)]
    had = {claim.key: 0 for claim in (*holders, *waiting)}
    cycle = -(-more // min(rmids, more)) if more else 0
    for round_ in range(1, 10 * len(had) + 1):
        now = round_ * 30.0
        for place, (giver, taker) in enumerate(turns(holders, waiting, now, last=now - 30, interval=30, at_least=10)):
            holders.remove(giver)
            waiting.remove(taker)
            holders.append(Claim(taker.key, 0, now + place / 1000))  # one handing-on comes after the other
            waiting.append(Claim(giver.key, 0, now + place / 1000))
        for claim in holders:
            had[claim.key] += 1
        assert all(now - claim.since <= cycle * 30 for claim in waiting)
    assert max(had.values()) - min(had.values()) <= 4


def test_round_lasts_a_third_to_three_times_the_interval_and_queues_are_shuffled_by_two_cycles() -> None:
    lengths = [gap(30, chance / 100) for chance in range(101)]
    assert lengths == sorted(set(lengths))
    assert (lengths[0], 80 < lengths[-1] <= 91) == (10, True)
    assert [spread(30, counted, waiting) for counted, waiting in ((2, 4), (1, 0), (0, 4))] == [180, 60, 240]
