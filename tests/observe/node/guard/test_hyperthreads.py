"""Where thread_throttle_mode is max, a limit acts on both hyperthreads of a core."""

import posix

import pytest
from conftest import Host

from resctrl_hooks.core.node.host.topology import UNKNOWN, MemoryNode, Topology
from resctrl_hooks.observe.node.guard.actuator import classes_beside
from resctrl_hooks.observe.node.guard.guard import Guard
from resctrl_hooks.observe.node.guard.harm import PAUSE

from .node import FULL, Node

THREADS = {1: [0b0001, 0b0010, 0b0100, 0b1000], 2: [0b0011, 0b1100]}
PLACES = {"pinned": {"bronze": 0b1100, "gold": 0b0011}, "shared": {"bronze": 0b1111, "gold": 0b1111}}
TAKEN_BACK = ("max", 2, "shared", True)


def topology(threads: int) -> Topology:
    return Topology(0b1111, THREADS[threads], l3={0: 0b1111}, nodes=[MemoryNode(0, 0b1111, {}, 1, UNKNOWN)])


def run_on(node: Node, monkeypatch: pytest.MonkeyPatch, **cpus: int | None) -> None:
    """Give each class one task that may run on these CPUs; None: it has ended."""
    of_task: dict[int, int | None] = {}
    for number, (name, mask) in enumerate(cpus.items()):
        of_task[100 + number] = mask
        (node.root / name / "tasks").write_text(f"{99 - number}\n{100 + number}\n")

    def affinity(task: int) -> set[int]:
        mask = of_task.get(task)
        if mask is None:
            raise ProcessLookupError
        return {cpu for cpu in range(4) if mask >> cpu & 1}

    monkeypatch.setattr(posix, "sched_getaffinity", affinity)


def pass_time(node: Node, guard: Guard, seconds: int, *, falls: bool) -> None:
    """Let gold move a fifth less while bronze is limited, if it falls."""
    for _ in range(seconds):
        limited = node.limit("bronze") != "MB:0=100"
        node.pass_time(guard, {**FULL, "gold": 16.0 if falls and limited else 20.0})


@pytest.mark.parametrize(
    "mode, threads, place, falls",
    [TAKEN_BACK, ("max", 2, "shared", False), ("max", 2, "pinned", True), ("max", 1, "shared", True),
     ("per-thread", 2, "shared", True), ("", 2, "shared", True)],
)  # fmt: skip
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
    assert bool(node.status()["domains"]["0"]["classes"]["bronze"]["kept"]) is kept
    assert any("a cut slowed class gold, which moves 20% less" in line for line in node.lines) is kept


def on_shared_cores(host: Host, monkeypatch: pytest.MonkeyPatch, mode: str = "act") -> tuple[Node, Guard]:
    node = Node(host, mode=mode)
    (node.root / "info/MB/thread_throttle_mode").write_text("max\n")
    run_on(node, monkeypatch, **PLACES["shared"])
    return node, node.guard(topology=topology(2))


def test_reason_of_an_exhausted_domain_is_measured_and_the_cut_is_tried_again_after_a_pause(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, guard = on_shared_cores(host, monkeypatch)
    pass_time(node, guard, 100, falls=True)
    assert [value for name, value in node.fs.writes if name == "bronze"] == ["MB:0=90", "MB:0=100"]
    assert node.limit("silver") == "MB:0=50"
    (line,) = [line for line in node.lines if "is exhausted" in line]
    assert (
        "load 95%: class bronze is not lowered: a cut slowed class gold, which moves 20% less, on the same processor "
        "cores (thread_throttle_mode is max); all other limitable classes are at their floors" in line
    )
    (domain,) = node.status()["domains"].values()
    assert (domain["state"], "not lowered" in domain["last"]["reason"]) == ("exhausted", True)
    pass_time(node, guard, int(PAUSE), falls=False)
    assert node.limit("bronze") == "MB:0=20"


def test_taking_back_that_failed_is_tried_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    node, guard = on_shared_cores(host, monkeypatch)
    failures = [OSError(24, "Too many open files", "/x")]

    def fail_once(_: str) -> None:
        if failures and len(node.fs.writes) == 1:
            raise failures.pop()

    node.fs.before = fail_once
    pass_time(node, guard, 20, falls=True)
    assert (failures, node.limit("bronze")) == ([], "MB:0=100")


def test_observing_guard_measures_no_effect_of_cuts_that_it_did_not_make(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, guard = on_shared_cores(host, monkeypatch, mode="observe")
    node.pass_time(guard, FULL, 5)
    node.pass_time(guard, {**FULL, "gold": 16.0}, 60)
    assert not node.status()["domains"]["0"]["classes"]["bronze"]["kept"]


def test_exhausted_domain_names_a_class_that_another_program_changed(host: Host) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    (node.root / "bronze/schemata").write_text("MB:0=70\n")
    node.pass_time(guard, FULL, 60)
    (line,) = [line for line in node.lines if "is exhausted" in line]
    assert "class bronze is not lowered: another program changed its value" in line


EVERY = Topology(0b1111, THREADS[2])
HYBRID = Topology(0b1111, [0b0011, 4, 8])
"""Two of its cores have one thread each."""


@pytest.mark.parametrize(
    "bronze, gold, of, shared",
    [
        (0b0010, 0b0001, EVERY, True),
        (0b0010, 0b1100, EVERY, False),
        (0b1111, 0b0001, EVERY, True),
        (None, 0b1111, EVERY, False),
        (1, None, EVERY, False),
        (0b1111, 0b1111, Topology(0b1111, THREADS[1]), False),
        (0b1111, 0b1111, HYBRID, True),
        (0b1100, 0b1100, HYBRID, False),
        (0b1100, 0b1100, None, True),
    ],
)
def test_classes_meet_on_a_core_if_their_tasks_may(
    host: Host, monkeypatch: pytest.MonkeyPatch, bronze: int, gold: int, of: Topology | None, *, shared: bool
) -> None:
    node = Node(host)
    run_on(node, monkeypatch, bronze=bronze, gold=gold)
    resctrl = node.context().monitor.resctrl
    assert classes_beside(resctrl, "bronze", ["silver", "gold"], of)[-1:] == (["gold"] if shared else [])
    assert not of or classes_beside(resctrl, "bronze", ["silver"], of) == []
