"""What the guard does where a limit acts on both hyperthreads of a core: ``thread_throttle_mode`` is ``max``."""

import json
from typing import Any

import pytest
from conftest import Host

from resctrl_hooks.core.node.host.topology import UNKNOWN, MemoryNode, Topology
from resctrl_hooks.observe.node.guard.guard import Guard
from resctrl_hooks.observe.node.guard.harm import PAUSE
from resctrl_hooks.observe.node.guard.law import LOWER, RAISE, Change, Domain, Rules
from resctrl_hooks.observe.node.guard.limit import Limit, PerCent
from resctrl_hooks.observe.node.guard.sample import Sample
from resctrl_hooks.observe.node.guard.status import NAME

from .node import FULL, Node
from .test_actuator import run_on

THREADS = {1: [0b0001, 0b0010, 0b0100, 0b1000], 2: [0b0011, 0b1100]}
PLACES = {"pinned": {"bronze": 0b1100, "gold": 0b0011}, "shared": {"bronze": 0b1111, "gold": 0b1111}}
TAKEN_BACK = ("max", 2, "shared", True)


def topology(threads: int) -> Topology:
    return Topology(0b1111, THREADS[threads], l3={0: 0b1111}, nodes=[MemoryNode(0, 0b1111, {}, 1, UNKNOWN)])


def pass_time(node: Node, guard: Guard, seconds: int, *, falls: bool) -> None:
    """Let gold move a fifth less while bronze is limited, if it falls."""
    for _ in range(seconds):
        limited = node.limit("bronze") != "MB:0=100"
        node.pass_time(guard, {**FULL, "gold": 16.0 if falls and limited else 20.0})


def bronze(host: Host) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((host.state / NAME).read_text())["domains"]["0"]["classes"]["bronze"]
    return found


@pytest.mark.parametrize("falls", [False, True], ids=["traffic of gold stays", "traffic of gold falls"])
@pytest.mark.parametrize("place", ["pinned", "shared"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("mode", ["max", "per-thread", ""])
def test_class_is_lowered_unless_a_cut_harms_a_protected_one_on_the_same_cores(
    host: Host, monkeypatch: pytest.MonkeyPatch, mode: str, threads: int, place: str, *, falls: bool
) -> None:
    node = Node(host)
    file = node.root / "info/MB/thread_throttle_mode"
    file.write_text(f"{mode}\n") if mode else file.unlink()
    run_on(node, monkeypatch, **PLACES[place])
    pass_time(node, node.guard(topology=topology(threads)), 60, falls=falls)
    kept = (mode, threads, place, falls) == TAKEN_BACK
    assert node.limit("bronze") == ("MB:0=100" if kept else "MB:0=20")
    assert bool(bronze(host)["kept"]) is kept
    assert any("a cut slowed class gold, which moves 20% less" in line for line in node.lines) is kept


@pytest.fixture
def harmed(host: Host, monkeypatch: pytest.MonkeyPatch) -> tuple[Node, Guard]:
    node = Node(host)
    (node.root / "info/MB/thread_throttle_mode").write_text("max\n")
    run_on(node, monkeypatch, **PLACES["shared"])
    guard = node.guard(topology=topology(2))
    pass_time(node, guard, 100, falls=True)
    return node, guard


def test_reason_of_an_exhausted_domain_is_the_measured_one(harmed: tuple[Node, Guard]) -> None:
    node, _ = harmed
    assert [value for name, value in node.fs.writes if name == "bronze"] == ["MB:0=90", "MB:0=100"]
    assert node.limit("silver") == "MB:0=50"
    (line,) = [line for line in node.lines if "is exhausted" in line]
    assert (
        "load 95%: class bronze is not lowered: a cut slowed class gold, which moves 20% less, on the same processor "
        "cores (thread_throttle_mode is max); all other limitable classes are at their floors" in line
    )
    (domain,) = json.loads((node.host.state / NAME).read_text())["domains"].values()
    assert (domain["state"], "not lowered" in domain["last"]["reason"]) == ("exhausted", True)


def test_harmful_cut_is_tried_again_after_a_pause(harmed: tuple[Node, Guard]) -> None:
    node, guard = harmed
    pass_time(node, guard, int(PAUSE), falls=False)
    assert node.limit("bronze") == "MB:0=20"


def test_taking_back_that_failed_is_tried_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(host)
    (node.root / "info/MB/thread_throttle_mode").write_text("max\n")
    run_on(node, monkeypatch, **PLACES["shared"])
    guard = node.guard(topology=topology(2))
    failures = [OSError(24, "Too many open files", "/x")]

    def fail_once(_: str) -> None:
        if failures and len(node.fs.writes) == 1:
            raise failures.pop()

    node.fs.before = fail_once
    pass_time(node, guard, 20, falls=True)
    assert not failures
    assert node.limit("bronze") == "MB:0=100"


def test_observing_guard_measures_no_effect_of_cuts_that_it_did_not_make(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(host, mode="observe")
    (node.root / "info/MB/thread_throttle_mode").write_text("max\n")
    run_on(node, monkeypatch, **PLACES["shared"])
    guard = node.guard(topology=topology(2))
    node.pass_time(guard, FULL, 5)
    node.pass_time(guard, {**FULL, "gold": 16.0}, 60)
    assert not bronze(host)["kept"]


def decided(domain: Domain, time: float, ratio: float | None) -> list[Change]:
    rules = Rules([], ["bronze"], 0.85, 0.70, at_slowdown=True, beside=lambda _: ["gold"])
    ratios = {} if ratio is None else {"gold": ratio}
    rates = {"gold": 20e9, "bronze": 50e9}
    return domain.decide(Sample(time, 0.7, 100e9, rates, [*ratios], ratios), rules, PerCent(10))


@pytest.mark.parametrize("after, taken_back", [(1.6, True), (1.3, False)])
def test_growing_slowdown_of_pods_on_the_same_cores_takes_a_cut_back(after: float, *, taken_back: bool) -> None:
    domain = Domain({"bronze": Limit(100, 20)}, 0.0)
    changes = [change for second in range(3) for change in decided(domain, float(second), 1.3)]
    assert [(change.kind, change.new) for change in changes] == [(LOWER, 90)]
    for second in range(3, 35):  # the windows since then are not complete
        assert not decided(domain, float(second), None)
    (change,) = decided(domain, 36.0, after) or [Change("", "", 0, 0, "")]
    assert (change.kind == RAISE) is taken_back
    assert ("whose pods are slowed 1.60 times, not 1.30" in change.reason) is taken_back


def test_exhausted_domain_names_a_class_that_another_program_changed(host: Host) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    (node.root / "bronze/schemata").write_text("MB:0=70\n")
    node.pass_time(guard, FULL, 60)
    (line,) = [line for line in node.lines if "is exhausted" in line]
    assert "class bronze is not lowered: another program changed its value" in line
