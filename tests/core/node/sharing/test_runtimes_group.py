"""Groups that container runtimes create are a part of the pod: their tasks stay, and their counts are added."""

import errno
import json
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import examples, not_none
from hosts.shared_node import Pod, SharedNode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.cli import show
from resctrl_hooks.core.inventory.gather import pod_of
from resctrl_hooks.core.node.ledger import RUNTIMES
from resctrl_hooks.core.node.resctrl.counter_totals import ended
from resctrl_hooks.core.node.sharing import runtimes
from resctrl_hooks.core.node.watch import move
from resctrl_hooks.core.node.watch.containers import Containers

HOUSES = ("lab",)


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
def test_pods_counts_are_the_sum_of_its_groups_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, int]]
) -> None:
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


def test_default_is_the_most_groups_of_the_last_day_but_a_quarter_of_the_rmids(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_damaged_or_outdated_record(tmp_path: Path, text: str, number: int) -> None:
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
