"""Counted and waiting pods with fewer RMIDs than pods."""

import errno
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, Host, always, workload_of
from hosts.faults import Fail
from hosts.shared_node import RULES, Pod, SharedNode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.errors import LockTimeoutError
from resctrl_hooks.core.node.ledger import CHANGING, Ledger
from resctrl_hooks.core.node.locks import Lock
from resctrl_hooks.core.node.refusals import RefusedError
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey
from resctrl_hooks.core.node.resctrl.monitor import Monitor
from resctrl_hooks.core.node.sharing import admission
from resctrl_hooks.core.node.sharing.claims import entry_of, holders
from resctrl_hooks.core.node.sharing.decision import Claim
from resctrl_hooks.core.node.sharing.priority import priority_in, priority_of, version_of

HOUSES = ("lab",)


LOW = [{"namespaces": ["low"], "value": 1}]


@pytest.mark.parametrize(
    "rmids, settings, started, counted",
    [
        (3, {}, "batch batch gold", [0, 1]),  # without rules the first pods
        (3, {"priority": RULES}, "silver batch", [0, 1]),
        (3, {"priority": RULES}, "silver batch gold", [0, 2]),  # the lowest priority waits
        (4, {"priority": RULES}, "batch batch silver gold", [0, 2, 3]),  # and of these the latest pod
        (3, {"priority": RULES}, "gold gold gold gold", [0, 1]),  # equals never preempt each other
        (4, {"priority": RULES, "reserve": {"rmids": 2, "above": 50}}, "silver silver", [0]),
        (4, {"priority": RULES, "reserve": {"rmids": 2, "above": 50}}, "silver silver gold", [0, 2]),
        (2, {"priority": LOW, "reserve": {"rmids": 1}}, "low", [0]),  # a missing part of a reserve is 0
        (2, {"priority": LOW, "reserve": {"above": 500}}, "low", [0]),
    ],
)
def test_pods_are_counted_from_their_first_instruction_by_rank(
    tmp_path: Path, rmids: int, settings: dict[str, Any], started: str, counted: list[int]
) -> None:
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
def test_group_created_by_another_program_is_shared_and_uses_no_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: bool
) -> None:
    turns: dict[str, Any] = {"share": {"interval": 0.0001, "atLeast": 0.0}}
    node = SharedNode(tmp_path, rmids=4, priority=RULES, reserve={"rmids": 1, "above": 100}, **turns)
    pods = [node.start("silver"), node.start("batch")]
    key = Pod(2, "").key
    at_its_turn(monkeypatch, lambda: node.kernel.mkdir(f"{node.host.resctrl}/mon_groups/{key}"), now=not meanwhile)
    pods.append(node.start("gold"))
    assert pods[2].key == key
    assert node.counted() == pods[: 3 - meanwhile]
    for _ in range(2):
        report = node.reconcile()
        assert (report.events["failed"], [*report.events["handover"]]) == ({}, [])
        assert (node.counted(), node.waiting()) == (pods, [])
    assert not node.host.log.exists() or "EEXIST" not in node.host.log.read_text()


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


def at_its_turn(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None], *, now: bool = False) -> None:
    """Do something when the next hook asks for its turn, and has let go of its key; or now."""
    real = Ledger.lock_named

    def lock_named(ledger: Ledger, name: str, patience: float) -> Lock:
        if name == "handover":
            monkeypatch.undo()
            act()
        return real(ledger, name, patience)

    if now:
        act()
    else:
        monkeypatch.setattr(Ledger, "lock_named", lock_named)


def test_refusal_keeps_group_created_meanwhile_by_another_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    scheduling: dict[str, Any] = {"enabled": True, "failurePolicy": "fail", "classes": {"small": {"cpuWeight": 20}}}
    node.configure(
        monitoring={"priority": RULES}, scheduling={**scheduling, "defaults": {"namespaces": {"gold": "small"}}}
    )
    batch = node.start("batch")
    began: list[Pod] = []

    def start_beside() -> None:
        refused = node.pods[-1]
        folder = node.host.cgroup / Pod(len(node.pods), "gold").beside(refused).cgroup.lstrip("/")
        folder.mkdir(parents=True)
        (folder / "cpu.weight").write_text("100")
        began.append(node.start("gold", beside=refused))

    at_its_turn(monkeypatch, start_beside)
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

    at_its_turn(monkeypatch, hold_its_key)
    gold = node.start("gold")
    assert "reason=no-rmids" in node.host.log.read_text()
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
    assert giver is not None or "reason=no-rmids" in node.host.log.read_text()
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
def test_first_matching_rule_counts(
    host: Host, tmp_path: Path, namespace: str, rules: list[dict[str, Any]], sandbox: str, expected: int
) -> None:
    host.process(100, f"{POD_CGROUP}/crio-{ID}")
    (tmp_path / "config.json").write_text(json.dumps({"annotations": {"tier": "batch", "app": "x"}}))
    notes = {"io.kubernetes.cri-o.ResolvPath": f"{tmp_path / sandbox}/resolv.conf"} if sandbox else {}
    workload = workload_of(host, **{"io.kubernetes.pod.namespace": namespace}, **notes)
    assert priority_of(workload, rules) == expected


@pytest.mark.parametrize("rules, born, expected", [
    (PRIORITIES, 1.0, 9), (PRIORITIES[1:], 1.0, 100), (PRIORITIES, None, 100), (None, 1.0, 100),
])  # fmt: skip
def test_running_container_keeps_its_priority_until_the_rules_change(
    host: Host, rules: Any, born: float | None, expected: int
) -> None:
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
