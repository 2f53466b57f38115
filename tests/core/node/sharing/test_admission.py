"""Counted and waiting pods with fewer RMIDs than pods, and the groups that container runtimes create."""

import errno
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, Host, always, examples, not_none, workload_of
from hosts.faults import Fail
from hosts.shared_node import RULES, Pod, SharedNode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.cli import show
from resctrl_hooks.core.inventory.gather import pod_of
from resctrl_hooks.core.node.errors import LockTimeoutError
from resctrl_hooks.core.node.ledger import CHANGING, RUNTIMES, Ledger
from resctrl_hooks.core.node.locks import Lock
from resctrl_hooks.core.node.refusals import RefusedError
from resctrl_hooks.core.node.resctrl.counter_totals import ended
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey
from resctrl_hooks.core.node.resctrl.monitor import Monitor
from resctrl_hooks.core.node.sharing import admission, runtimes
from resctrl_hooks.core.node.sharing.claims import entry_of, holders
from resctrl_hooks.core.node.sharing.decision import Claim
from resctrl_hooks.core.node.sharing.priority import priority_in, priority_of, version_of
from resctrl_hooks.core.node.watch import move
from resctrl_hooks.core.node.watch.containers import Containers

HOUSES = ("lab",)


LOW = [{"namespaces": ["low"], "value": 1}]


@pytest.mark.parametrize("rmids, settings, started, counted", [
    (3, {}, "batch batch gold", [0, 1]),  # without rules the first pods
    (3, {"priority": RULES}, "silver batch", [0, 1]),
    (3, {"priority": RULES}, "silver batch gold", [0, 2]),  # the lowest priority waits
    (4, {"priority": RULES}, "batch batch silver gold", [0, 2, 3]),  # and of these the latest pod
    (3, {"priority": RULES}, "gold gold gold gold", [0, 1]),  # equals never preempt each other
    (4, {"priority": RULES, "reserve": {"rmids": 2, "above": 50}}, "silver silver", [0]),
    (4, {"priority": RULES, "reserve": {"rmids": 2, "above": 50}}, "silver silver gold", [0, 2]),
    (2, {"priority": LOW, "reserve": {"rmids": 1}}, "low", [0]),  # a missing part of a reserve is 0
    (2, {"priority": LOW, "reserve": {"above": 500}}, "low", [0]),
])  # fmt: skip
def test_pods_are_counted_by_rank(tmp_path: Path, rmids: int, settings: Any, started: str, counted: Any) -> None:
    node = SharedNode(tmp_path, rmids=rmids, **settings)
    pods = [node.start(namespace, threads=number + 1) for number, namespace in enumerate(started.split())]
    waiting = [pod.key for number, pod in enumerate(pods) if number not in counted]
    assert (node.host.state / "wake").exists() == bool(waiting)  # another RMID may be free for it
    for _ in range(2):
        assert node.counted() == [pods[number] for number in counted]
        assert (node.waiting(), node.marked(CHANGING)) == (waiting, [])
        if settings:
            node.check()
        assert node.reconcile().ok is bool(settings)
    assert (node.host.state / "rmids").exists() is bool(settings)


@pytest.mark.parametrize("meanwhile", [False, True])
def test_foreign_group_uses_no_reserve(tmp_path: Path, meanwhile: bool) -> None:
    turns: dict[str, Any] = {"share": {"interval": 0.0001, "atLeast": 0.0}}
    node = SharedNode(tmp_path, rmids=4, priority=RULES, reserve={"rmids": 1, "above": 100}, **turns)
    pods = [node.start("silver"), node.start("batch")]
    key = Pod(2, "").key
    at_its_turn(lambda: node.kernel.mkdir(f"{node.resctrl}/mon_groups/{key}"), now=not meanwhile)
    pods.append(node.start("gold"))
    assert pods[2].key == key
    assert node.counted() == pods[: 3 - meanwhile]
    for _ in range(2):
        report = node.reconcile()
        assert (report.events["failed"], [*report.events["handover"]]) == ({}, [])
        assert (node.counted(), node.waiting()) == (pods, [])
    assert not node.log.exists() or "EEXIST" not in node.log.read_text()


def test_pod_with_running_hook_keeps_group_without_rename(tmp_path: Path, fail: Fail) -> None:
    node = SharedNode(tmp_path, priority=RULES)
    node.kernel.refuse_rename = errno.EPERM
    older, newer, gold = node.start("batch"), node.start("batch"), node.start("gold")
    busy = {older.key, newer.key}
    at_work = LockTimeoutError("its hook is at work on it")
    fail(Monitor, "hold_beside", at_work, when=lambda _monitor, _locked, key, _patience: key in busy)
    assert not node.reconcile().only_limbo
    assert node.counted() == [older, newer]
    busy.remove(older.key)
    assert node.reconcile().only_limbo
    assert node.counted() == [newer]
    node.kernel.now += 2
    node.reconcile()
    assert node.counted() == [newer, gold]
    node.check()


def at_its_turn(act: Callable[[], None], *, now: bool = False) -> None:
    """Do something when the next hook asks for its turn, and has let go of its key; or now."""
    if now:
        act()
        return
    patch, real = pytest.MonkeyPatch(), Ledger.lock_named

    def lock_named(ledger: Ledger, name: str, patience: float) -> Lock:
        if name == "handover":
            patch.undo()
            act()
        return real(ledger, name, patience)

    patch.setattr(Ledger, "lock_named", lock_named)


def test_refusal_keeps_group_created_by_another_container(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2)
    small = {"classes": {"small": {"cpuWeight": 20}}, "defaults": {"namespaces": {"gold": "small"}}}
    node.configure(monitoring={"priority": RULES}, scheduling={"enabled": True, "failurePolicy": "fail", **small})
    batch = node.start("batch")
    began: list[Pod] = []

    def start_beside() -> None:
        refused = node.pods[-1]
        folder = node.cgroup / Pod(len(node.pods), "gold").beside(refused).cgroup.lstrip("/")
        folder.mkdir(parents=True)
        (folder / "cpu.weight").write_text("100")
        began.append(node.start("gold", beside=refused))

    at_its_turn(start_beside)
    with pytest.raises(RefusedError, match=r"cpu\.weight"):
        node.start("gold")
    refused = node.pods[1]
    node.kernel.end(refused.pid)
    refused.pid = 0
    assert (node.counted(), node.waiting()) == (began, [batch.key])
    node.check()


def test_turn_is_released_if_key_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = SharedNode(tmp_path, rmids=2)
    node.configure(monitoring={"priority": RULES}, deadlineSeconds=0.2)
    batch = node.start("batch")
    others: list[LockedKey] = []
    real = LockedKey.lock_again

    def lock_again(locked: LockedKey, patience: float) -> None:
        with node.context().ledger.lock_named("handover", 0):
            if others:  # the search for dead pods releases the key again
                others.pop().unlock()
        real(locked, patience)

    def hold_its_key() -> None:
        monkeypatch.setattr(LockedKey, "lock_again", lock_again)
        others.append(node.context().monitor.hold(node.pods[-1].key))

    at_its_turn(hold_its_key)
    gold = node.start("gold")
    assert "reason=no-rmids" in node.log.read_text()
    assert (others, node.counted(), node.waiting()) == ([], [batch], [gold.key])
    node.check()


def test_stale_index_entry_is_removed_and_next_is_asked(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, priority=RULES)
    batch, silver = node.start("batch"), node.start("silver")
    ledger, was = node.context().ledger, node.claim(batch)
    for stale in (Claim(batch.key, was["priority"], was["since"] + 1), Claim("gone", -100, 1.0)):
        ledger.mark("rmids", entry_of(stale))
    gold = node.start("gold")
    assert node.counted() == [silver, gold]
    assert sorted(ledger.marked("rmids")) == sorted(node.claim(pod)["entry"] for pod in (silver, gold))


@pytest.mark.parametrize("busy, most, asked, giver", [
    (0, 16, "1", 1), (1, 16, "10", 0), (2, 16, "101", 1), (3, 16, "1010", 0),  # each busy one is asked twice
    (4, 16, "1010", None), (9, 16, "1010", None),
    *((-1, most, "10"[:most], None) for most in (0, 1, 2)),  # each refuses
])  # fmt: skip
def test_pods_of_lower_priority_are_asked_in_turn_and_not_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: int, most: int, asked: str, giver: int | None
) -> None:
    node = SharedNode(tmp_path, priority=RULES)
    pods = [node.start("batch", threads=2), node.start("batch", threads=2)]
    found: list[tuple[str, bool]] = []
    hold_beside = Monitor.hold_beside

    def noted(monitor: Monitor, locked: LockedKey, key: str, patience: float) -> LockedKey:
        found.append((key, patience > 0.1))
        if len(found) <= busy:
            raise LockTimeoutError("its hook is at work on it")
        return hold_beside(monitor, locked, key, patience)

    monkeypatch.setattr(Monitor, "hold_beside", noted)
    monkeypatch.setattr(admission, "_MOST_ASKED", most)
    if busy < 0:
        monkeypatch.setattr(admission, "hand_on", always(value=False))
    gold = node.start("gold")
    assert found == [(pods[int(number)].key, place > 1) for place, number in enumerate(asked)]
    waits = gold if giver is None else pods[giver]
    assert node.waiting() == [waits.key]
    assert node.counted() == [pod for pod in (*pods, gold) if pod is not waits]
    assert giver is not None or "reason=no-rmids" in node.log.read_text()
    node.check()


BATCH, FRONT, APP = ({"labels": {name: value}, "value": number} for name, value, number in (
    ("tier", "batch", -10), ("tier", "front", 7), ("app", "x", 3)
))  # fmt: skip
PRIORITIES: list[dict[str, Any]] = [
    {"namespaces": ["team-*"], "qos": "Guaranteed", "value": 200},
    {"namespaces": ["shop", "team-*"], "value": 100},
    {"qos": "Burstable", "value": 50},
    BATCH,
]


@pytest.mark.parametrize("namespace, rules, sandbox, expected", [
    ("shop", PRIORITIES, "", 100), ("team-a", PRIORITIES, "", 100), ("other", PRIORITIES, "", 50),
    ("shop", [BATCH], "", 0), ("shop", [], "", 0),
    ("shop", [BATCH], ".", -10), ("shop", [FRONT], ".", 0), ("shop", [FRONT, APP], ".", 3),  # labels are the sandbox's
    ("shop", [BATCH], "/nonexistent", 0),
])  # fmt: skip
def test_first_matching_rule_counts(host: Host, namespace: str, rules: Any, sandbox: str, expected: int) -> None:
    host.process(100, f"{POD_CGROUP}/crio-{ID}")
    (host.root / "config.json").write_text(json.dumps({"annotations": {"tier": "batch", "app": "x"}}))
    notes = {"io.kubernetes.cri-o.ResolvPath": f"{host.root / sandbox}/resolv.conf"} if sandbox else {}
    workload = workload_of(host, **{"io.kubernetes.pod.namespace": namespace}, **notes)
    assert priority_of(workload, rules) == expected


@pytest.mark.parametrize("rules, born, expected", [
    (PRIORITIES, 1.0, 9), (PRIORITIES[1:], 1.0, 100), (PRIORITIES, None, 100), (None, 1.0, 100),
])  # fmt: skip
def test_priority_is_kept_until_the_rules_change(host: Host, rules: Any, born: float | None, expected: int) -> None:
    host.process(100, f"{POD_CGROUP}/crio-{ID}")
    workload = workload_of(host, **{"io.kubernetes.pod.namespace": "shop"})
    context: Any = SimpleNamespace(settings=SimpleNamespace(groups={"priority": PRIORITIES}))
    container: Any = SimpleNamespace(born=born, planned=always(workload))
    record: Any = {"claim": {"priority": 9, "rules": version_of(rules)}} if rules else {}
    assert priority_in(context, container, record) == expected


SINCE = st.integers(0, 10**12).map(lambda n: n / 1e6)
CLAIMS = st.builds(Claim, st.text("k.l-", min_size=1), st.integers(-1_000_000, 1_000_000), SINCE)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(CLAIMS, min_size=2, max_size=4))
def test_entry_sorts_by_priority_and_reads_back(ledger: Ledger, claims: set[Claim]) -> None:
    for name in ledger.marked("rmids"):
        ledger.unmark("rmids", name)
    for name in (*map(entry_of, claims), "x.1.k", "1.x.k", "1.1.", "1.1", "k", "-1.1.k"):
        ledger.mark("rmids", name)
    assert set(holders(ledger)) == claims, "invalid entries are ignored"
    by_name = sorted(claims, key=entry_of)
    assert [claim.priority for claim in by_name] == sorted(claim.priority for claim in claims)


# Groups that container runtimes create are a part of the pod: their tasks stay, and their counts are added


class Node(SharedNode):
    """A node with containers whose runtime creates a group for them."""

    def __init__(self, root: Path, rmids: int = 16, **monitoring: Any) -> None:
        super().__init__(root, rmids=rmids, limbo=0, **monitoring)

    def counter(self, *groups: str, rdt_class: str = "") -> int:
        """Return the sum of the kernel's counters of groups, read beside the product."""
        self.kernel.show_counters()
        folders = [self.host.resctrl / rdt_class / "mon_groups" / group for group in groups]
        return sum(int(path.read_text()) for one in folders for path in one.glob("mon_data/*/mbm_total_bytes"))

    def start_own(self) -> Pod:
        """Start a pod with a group of its runtime; OSError if that cannot be created, so that it does not start."""
        return self.start("runtime", own_group=True)

    def reserved(self) -> float:
        return runtimes.reserved(self.context())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_counts_stay_after_the_runtime_has_removed_the_group(node: Node) -> None:
    pod = node.start("shop", own_group=True, effects=0)  # no hook has seen it
    ledger = node.context().ledger
    assert ledger.key_of(pod.id) == ""
    node.reconcile()
    assert ledger.key_of(pod.id) == pod.key
    assert node.groups_of(pod.pid) == {("", pod.id)}
    node.start("shop", beside=pod)
    node.kernel.now += 5
    node.kernel.show_counters()
    node.reconcile()  # reads late
    before = node.counter(pod.id)
    own = node.counter(pod.key)
    assert min(before, own) > 0
    read_at = node.context().monitor.read_counters().when
    node.kernel.rmdir(node.group_of_runtime(pod))  # then comes poststop
    node.end(pod, pod_lives=True)
    assert node.totals()[pod.key] == before + own
    assert ended(node.context().monitor, pod.key) == {pod.id: pytest.approx(read_at, abs=0.01)}
    shown = show._details(node.context(), not_none(pod_of(node.context(), pod.key))).counted_until
    assert shown == {pod.id: pytest.approx(time.time(), abs=60)}


@pytest.mark.parametrize("take_over", [False, True])
def test_process_that_enters_joins_its_containers_group(tmp_path: Path, take_over: bool) -> None:
    node = Node(tmp_path, takeOver=take_over)
    pod = node.start("shop", own_group=True)
    entered = node.kernel.spawn(pod.cgroup)
    context = node.context()
    assert move.serve(context, Containers(context.ledger), entered).what == move.MOVED
    swept = node.kernel.spawn(pod.cgroup)
    node.reconcile()
    assert [node.kernel.where(tid) for tid in (entered, swept)] == [("", pod.key if take_over else pod.id)] * 2
    assert len(node.kernel.groups()) == 1 + take_over


EVENTS = st.sampled_from(["own", "plain", "stop", "late", "move", "work", "reconcile"])


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(EVENTS, st.integers(0, 3)), max_size=14))
def test_pods_counts_are_the_sum_of_its_groups(tmp_path_factory: pytest.TempPathFactory, events: Any) -> None:
    node = Node(tmp_path_factory.mktemp("node"))
    node.add_class("gold")
    first = node.start("shop")
    running: list[tuple[Pod, str]] = []
    ended = 0
    for what, number in events:
        if what in ("own", "plain"):
            pod = node.start("shop", beside=first, own_group=what == "own")
            running += [(pod, "")] if what == "own" else []
        elif what == "work":
            node.kernel.now += number
        elif what == "reconcile":
            node.reconcile()
        elif running:
            pod, rdt_class = running.pop(number % len(running))
            folder = node.group_of_runtime(pod, rdt_class)
            before = node.totals()
            if what == "move" and not rdt_class:
                node.kernel.rename(folder, node.group_of_runtime(pod, "gold"))
                running.append((pod, "gold"))
            else:
                ended += node.counter(pod.id, rdt_class=rdt_class)
                if what == "late":  # the poststop comes first
                    node.end(pod, pod_lives=True)
                    assert node.totals() == before
                node.kernel.rmdir(folder)
                if pod.pid:
                    node.end(pod, pod_lives=True)
            assert node.totals() == before
        own = sum(node.counter(pod.id, rdt_class=rdt_class) for pod, rdt_class in running)
        assert node.totals()[first.key] == node.counter(first.key) + own + ended
    node.reconcile()
    # The pod's own group, and two classes of each running container and of the last one: a next one forgets the ended.
    assert len(node.pod_record(first.key)["since"]) <= 1 + 2 * (len(running) + 1)


def test_latest_pod_gives_way_if_a_runtime_takes_the_last_rmid(tmp_path: Path) -> None:
    node = Node(tmp_path, rmids=5)
    pods = [node.start("shop") for _ in range(3)]
    node.kernel.now += 10
    before = node.totals()
    node.start_own()  # the last one
    with pytest.raises(OSError, match="space") as refused:
        node.start_own()
    assert refused.value.errno == errno.ENOSPC
    assert (node.host.state / "wake").exists()
    node.reconcile()
    assert node.counted() == pods[:1]
    assert node.waiting() == [pods[1].key, pods[2].key]
    assert node.totals()[pods[2].key] == before[pods[2].key] > 0
    for _ in range(2):
        node.start_own()
        node.reconcile()


def test_default_is_the_last_days_most_but_a_quarter_at_most(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    hour = 500_000
    monkeypatch.setattr(runtimes, "_hour", lambda: hour)
    for most, reserved in ((3, 3), (12, 4)):
        own = [node.start_own() for _ in range(most)]
        node.reconcile()
        assert node.reserved() == reserved
        for pod in own:
            node.end(pod)
            node.kernel.rmdir(node.group_of_runtime(pod))
        node.reconcile()
        assert node.reserved() == reserved
    assert max(runtimes.read_peaks(node.context().ledger).values()) == 12
    for _ in range(15):
        node.start("shop")
    assert len(node.counted()) == 11  # of 16: the root class, and four that stay free
    hour += 24
    node.reconcile()
    assert node.reserved() == 0
    assert not (node.host.state / RUNTIMES).exists()


@pytest.mark.parametrize("text, number", [
    *((damaged, 2) for damaged in ("", "[", '{"hours": []}')),  # stands for one container
    *((f'{{"hours": {{"{hour}": 1}}}}', 0) for hour in ("now", "9999999", "1")),  # of none of these days
])  # fmt: skip
def test_damaged_record_reserves_rmids_for_one_container_an_outdated_one_none(
    tmp_path: Path, text: str, number: int
) -> None:
    node = Node(tmp_path, rmids=3)
    node.start("shop")
    (node.host.state / RUNTIMES).write_text(text)
    for _ in range(2):
        assert node.reserved() == number
        node.reconcile()
    assert len(node.counted()) == (number == 0)
    assert (node.host.state / RUNTIMES).exists() == bool(number)


@pytest.mark.parametrize("jump", [-3 * 3600, 40 * 86400, -1.7e9])
def test_reserve_outlives_a_clock_that_jumps(node: Node, monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    now = time.time()
    runtimes.note(node.context().ledger, 3)
    monkeypatch.setattr(time, "time", lambda: now + jump)
    assert node.reserved() == 3
    runtimes.note(node.context().ledger, 1)
    assert node.reserved() == 3
    (node.host.state / RUNTIMES).write_text(json.dumps({"hours": {"1": 9, str(int(time.time()) // 3600): 3}}))
    assert node.reserved() == 3, "as version 0.2 writes it"
