"""Waits for CPUs, disks and memory: why, because of whom, and by which factor."""

from typing import Any

import pytest

from observe.node.slowdown.samples import NOISY, OTHER, VICTIM, use, window
from resctrl_hooks.observe.node.slowdown.causes.cause import Cause
from resctrl_hooks.observe.node.slowdown.causes.cpu import ABOVE, FULL, INTERRUPTS, REQUEST, STOLEN
from resctrl_hooks.observe.node.slowdown.causes.remedy import CPU_MAX, CPU_WEIGHT, IO_MAX, Facts
from resctrl_hooks.observe.node.slowdown.causes.table import CAUSES, causes_of
from resctrl_hooks.observe.node.slowdown.evidence.cpu.lost_time import Lost
from resctrl_hooks.observe.node.slowdown.evidence.cpu.processors import Processor
from resctrl_hooks.observe.node.slowdown.evidence.cpu.shares import Group
from resctrl_hooks.observe.node.slowdown.evidence.disks import DiskUse, Kind, Moved
from resctrl_hooks.observe.node.slowdown.evidence.node_use import NodeUse
from resctrl_hooks.observe.node.slowdown.evidence.reclaim import Memory
from resctrl_hooks.observe.node.slowdown.verdict import judge

BACKUP = "system.slice/backup.service"
FACTS = Facts(VICTIM, {VICTIM: "shop/cart", NOISY: "batch/a", OTHER: "batch/b"}, {})


def causes(node: NodeUse, **victim: Any) -> dict[str, Cause]:
    """Return the victim's causes in three equal windows."""
    victim = {"waited": 0.5, "stood": 0.5, "blocked": 0.0, "cpus": 1, **victim}
    explained = node.explained(VICTIM, use(None, **victim))
    one = window(0, victim=explained, noisy=use(None), other=use(None))._replace(node=node)
    windows = [one._replace(time=float(number)) for number in range(3)]
    return {cause.cause: cause for cause in causes_of(windows, VICTIM, judge(windows, VICTIM, None))}


def group(name: str, used: float, wanted: float, weight: float = 100.0, cpus: int = 1) -> Group:
    """Return a cgroup."""
    return Group(name, weight, cpus=cpus, used=used, wanted=wanted)


def pods(*groups: Group) -> Group:
    """Return the slice of pods."""
    return Group("kubepods.slice", children=groups)


@pytest.mark.parametrize(
    "groups, busy, answer, culprits",
    [
        ([pods(group(VICTIM, 0.25, 0.5), group(NOISY, 0.75, 1.0))], {}, ABOVE, [NOISY]),
        ([pods(group(VICTIM, 0.8, 1.0, cpus=1), group(NOISY, 2.2, 3.0, cpus=7))], {}, ABOVE, [NOISY]),
        ([pods(group(VICTIM, 0.1, 1.0, 10), group(NOISY, 0.9, 1.0, 90))], {}, REQUEST, []),
        ([pods(group(VICTIM, 0.02, 1.0, 2), group(NOISY, 0.49, 1.0), group(OTHER, 0.49, 1.0))], {}, REQUEST, []),
        ([pods(group(VICTIM, 0.5, 1.0), group(NOISY, 0.5, 1.0))], {}, FULL, [NOISY]),
        ([pods(group(VICTIM, 0.34, 1.0), group(NOISY, 0.33, 1.0), group(OTHER, 0.33, 1.0))], {}, FULL, [NOISY, OTHER]),
        ([pods(group(VICTIM, 0.5, 1.0)), group(BACKUP, 0.5, 1.0)], {}, FULL, [BACKUP]),
        ([pods(group(VICTIM, 0.5, 1.0), group(NOISY, 0.5, 1.0), group(OTHER, 1.0, 1.0, cpus=2))], {}, FULL, [NOISY]),
        ([pods(group(VICTIM, 0.4, 0.9), group(NOISY, 0.1, 0.1))], {"interrupts": 0.5}, INTERRUPTS, []),
        ([pods(group(VICTIM, 0.5, 1.0), group(NOISY, 0.5, 1.0))], {"stolen": 0.6}, STOLEN, []),
        ([pods(group(VICTIM, 0.5, 1.0), group(NOISY, 0.1, 0.1))], {}, None, []),
        (None, {}, "", [NOISY, OTHER]),
    ],
    ids=["rests, beside one that does not", "more tasks", "small weight", "small weight beside two", "two equal ones",
         "three equal ones", "service", "pod on another CPU", "interrupts", "hypervisor",
         "nobody else", "not read yet"],
)  # fmt: skip
def test_wait_for_a_cpu_has_an_answer(
    groups: list[Group] | None, busy: dict[str, float], answer: str | None, culprits: list[str]
) -> None:
    processors = {cpu: Processor(0.5, **busy) for cpu in range(4)}
    found = causes(NodeUse(processors, None if groups is None else tuple(groups)))
    cause = found["cpu-contention"]
    state = "unknown" if answer is None else "supported"
    assert (cause.state, cause.answer, [one.key for one in cause.pods]) == (state, answer or "", culprits)
    assert all(one.outside == (one.key == BACKUP) for one in cause.pods)
    assert found["cpu-limit"].state == found["disk"].state == found["memory-reclaim"].state == "excluded"
    remedies = [*CAUSES["cpu-contention"].remedies(cause, FACTS)]
    sets = {one.sets: one.pods for one in remedies if one.pods}
    is_limited = answer and culprits and culprits != [BACKUP]
    assert sets == ({CPU_MAX: (*culprits,), CPU_WEIGHT: (*culprits,)} if is_limited else {})
    assert (BACKUP in culprits) is any("set-property --runtime backup.service" in one.text for one in remedies)


def test_own_limit_is_nobodys_and_its_factor_multiplies_with_that_of_a_neighbour() -> None:
    node = NodeUse({0: Processor(0.5)}, (pods(group(VICTIM, 0.25, 0.5), group(NOISY, 0.75, 1.0)),))
    alone = causes(node, throttled=0.5, throttles=9, cpu=0.5, lost=Lost(0.5, 0.0, 0.5))
    assert (alone["cpu-limit"].state, alone["cpu-contention"].state) == ("supported", "excluded")
    assert alone["cpu-limit"].factor == pytest.approx(2.0)
    assert not alone["cpu-limit"].pods
    both = causes(node, throttled=0.3, throttles=9, cpu=0.2, lost=Lost(0.2, 0.5, 0.3))
    factors = [both[name].factor or 0.0 for name in ("cpu-limit", "cpu-contention")]
    assert factors[0] * factors[1] == pytest.approx(5.0)
    rests = causes(node, cpu=0.25, waited=0.25, stood=0.25, lost=Lost(0.25, 0.25, 0.0))
    assert rests["cpu-contention"].factor == pytest.approx(2.0)
    disk = (pods(group(VICTIM, 0.1, 0.15), group(NOISY, 0.9, 1.0)),)
    for stood, state in ((0.03, "excluded"), (0.08, "supported")):  # short waits after each operation are no cause
        waits = {"waited": stood, "stood": stood, "blocked": 0.85, "blocked_fully": 0.85, "cpu": 0.1}
        assert causes(NodeUse({0: Processor(0.9)}, disk), **waits)["cpu-contention"].state == state


@pytest.mark.parametrize(
    "busy, moved, state, culprits, factor",
    [
        (1.0, {VICTIM: Moved(1e6, 10), NOISY: Moved(3e6, 30)}, "supported", [NOISY], 1.0 / 0.4),
        (1.0, {VICTIM: Moved(1e6, 90), NOISY: Moved(9e6, 10), BACKUP: Moved(0, 1)}, "supported", [NOISY], None),
        (1.0, {VICTIM: Moved(1e6, 10), BACKUP: Moved(9e6, 90)}, "supported", [BACKUP], None),
        (1.0, {VICTIM: Moved(9e6, 90), NOISY: Moved(1e5, 1)}, "excluded", [], None),
        (0.2, {VICTIM: Moved(1e6, 10), NOISY: Moved(9e6, 90)}, "unknown", [], None),
        (1.0, {NOISY: Moved(9e6, 90)}, "unknown", [], None),
    ],
    ids=["neighbour", "bytes or operations", "service", "itself", "idle disk", "no disk of its own"],
)  # fmt: skip
def test_wait_for_a_disk(
    busy: float, moved: dict[str, Moved], state: str, culprits: list[str], factor: float | None
) -> None:
    sda, sdb = DiskUse("sda", busy, moved, 3.4, Kind(rotates=True)), DiskUse("sdb", 1.0, {OTHER: Moved(9, 9)})
    node = NodeUse(disks={"8:0": sda, "8:16": sdb})
    cause = causes(node, waited=0.0, stood=0.0, blocked=0.85, blocked_fully=0.85, cpu=0.15)["disk"]
    assert (cause.state, [one.key for one in cause.pods]) == (state, culprits)
    assert factor is None or cause.factor == pytest.approx(factor)
    assert [one.sets for one in CAUSES["disk"].remedies(cause, FACTS) if one.sets] == [IO_MAX] * (NOISY in culprits)


@pytest.mark.parametrize(
    "scanned, events, limits, taken, states, culprits",
    [
        (500, 0, {}, {VICTIM: 1e6, NOISY: 9e6}, ("excluded", "supported"), [NOISY]),
        (500, 0, {}, {VICTIM: 1e6, BACKUP: 9e6}, ("excluded", "supported"), [BACKUP]),
        (0, 7, {}, {VICTIM: 1e6, NOISY: 9e6}, ("supported", "excluded"), []),
        (0, 0, {"kubepods.slice": 3}, {VICTIM: 1e6, NOISY: 9e6}, ("excluded", "supported"), [NOISY]),
        (500, 0, {}, {VICTIM: 9e6, NOISY: 1e5}, ("excluded", "excluded"), []),
        (0, 0, {}, {VICTIM: 1e6, NOISY: 9e6}, ("excluded", "unknown"), []),
    ],
    ids=["neighbour", "service", "own limit", "limit above it", "itself", "no reclaim"],
)  # fmt: skip
def test_wait_for_memory(
    scanned: int, events: int, limits: dict[str, int], taken: dict[str, float], states: Any, culprits: list[str]
) -> None:
    node = NodeUse(memory={key: Memory(part, 0.0) for key, part in taken.items()}, scanned=scanned, limits=limits)
    found = causes(node, waited=0.0, stood=0.0, reclaimed=0.5, reclaimed_fully=0.5, cpu=0.5, memory_events=events)
    own, reclaim = found["memory-limit"], found["memory-reclaim"]
    assert (own.state, reclaim.state) == states
    assert [one.key for one in reclaim.pods] == culprits
    assert all(one.factor == pytest.approx(2.0) for one in (own, reclaim) if one.state == "supported")
    remedies = CAUSES["memory-reclaim"].remedies(reclaim, FACTS)
    assert not any("shop/cart" in one.text.partition(" for ")[0] for one in remedies)


def test_wait_for_a_disk_with_what_was_reclaimed_is_a_wait_for_memory() -> None:
    disk = DiskUse("sda", 1.0, {VICTIM: Moved(1e6, 10), NOISY: Moved(9e6, 90)})
    memory = {VICTIM: Memory(1e6, 1e6), NOISY: Memory(4e6, 0.0), OTHER: Memory(5e6, 4.9e6)}
    waits = {"waited": 0.0, "stood": 0.0, "blocked": 0.6, "blocked_fully": 0.6, "cpu": 0.4}
    node = NodeUse(disks={"8:0": disk}, memory=memory, scanned=9)
    supported = {name: one for name, one in causes(node, **waits).items() if one.state == "supported"}
    assert {name: [pod.key for pod in one.pods] for name, one in supported.items()} == {"memory-reclaim": [NOISY]}
    memory[NOISY] = Memory(4e6, 3.9e6)
    assert [one.key for one in causes(node, **waits)["memory-reclaim"].pods] == [OTHER, NOISY], "all read again"
    found = causes(node._replace(scanned=0), memory_events=5, **waits)
    assert [name for name, one in found.items() if one.state == "supported"] == ["memory-limit"]
    assert found["memory-limit"].factor == pytest.approx(2.5)
