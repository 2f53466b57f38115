"""Verdicts and causes from samples: each scene has one; waits have an answer, culprits and a factor."""

import math
from typing import Any

import pytest

from observe.node.slowdown.samples import NOISY, OTHER, SECONDS, VICTIM, WORK, diagnose, quiet_baseline, use, window
from resctrl_hooks.observe.node.slowdown.baseline.baseline import Baseline
from resctrl_hooks.observe.node.slowdown.case import OUTSIDE, Culprit
from resctrl_hooks.observe.node.slowdown.causes.cause import Cause
from resctrl_hooks.observe.node.slowdown.causes.cpu import ABOVE, FULL, INTERRUPTS, REQUEST, STOLEN
from resctrl_hooks.observe.node.slowdown.causes.remedy import CPU_MAX, CPU_WEIGHT, IO_MAX, Facts
from resctrl_hooks.observe.node.slowdown.causes.table import CAUSES, causes_of
from resctrl_hooks.observe.node.slowdown.evidence.cgroup_tree import REST
from resctrl_hooks.observe.node.slowdown.evidence.cpu.lost_time import Lost
from resctrl_hooks.observe.node.slowdown.evidence.cpu.processors import Processor
from resctrl_hooks.observe.node.slowdown.evidence.cpu.shares import Group
from resctrl_hooks.observe.node.slowdown.evidence.disks import DiskUse, Kind, Moved
from resctrl_hooks.observe.node.slowdown.evidence.node_use import NodeUse
from resctrl_hooks.observe.node.slowdown.evidence.reclaim import Memory
from resctrl_hooks.observe.node.slowdown.evidence.use import Use
from resctrl_hooks.observe.node.slowdown.evidence.window import Window
from resctrl_hooks.observe.node.slowdown.verdict import judge, latest

BANDWIDTH, CACHE, OWN = "memory-bandwidth", "l3-cache", "own-change"
LIMIT, CONTENTION = "cpu-limit", "cpu-contention"
LOUD = {"noisy": use(2.0, 4e9)}
HELD: dict[str, Any] = {"occupancy": {0: 8e6}}
STUCK: dict[str, Any] = {"waited": 0.5, "stood": 0.5}


def supported(causes: dict[str, Cause]) -> dict[str, list[str]]:
    """Return the supported causes with the keys of the pods that they name."""
    return {name: [one.key for one in cause.pods] for name, cause in causes.items() if cause.state == "supported"}


def six(load: float | None = 0.1, **uses: Use) -> list[Window]:
    """Return six equal windows."""
    return [window(number, load, **uses) for number in range(6)]


@pytest.mark.parametrize(
    "load, victim, others, quiet, verdict, found",
    [
        (0.9, use(3.2, 6e8), LOUD, {}, "slowed", {BANDWIDTH: [NOISY]}),
        (0.9, use(3.2), {"noisy": use(2.0, 6e9), "other": use(2.0, 3e9), "small": use(2.0, 5e8)}, {}, "slowed",
         {BANDWIDTH: [NOISY, OTHER]}),
        (0.3, use(5.0, missed=8.0, occupancy={0: 5e6}),
         {"noisy": use(2.0, occupancy={0: 6e6}), "other": use(2.0, occupancy={1: 9e6})}, HELD, "slowed",
         {CACHE: [NOISY]}),
        (0.2, use(2.6, missed=0.5, occupancy={0: 1e6}), {"noisy": use(2.0, 4e8, occupancy={0: 4e6})},
         {"missed": 0.0, "occupancy": {0: 4e6}}, "slowed", {CACHE: [NOISY]}),
        (0.3, use(5.0, missed=8.0, **HELD), {}, {"occupancy": {0: 2e6}}, "slowed", {OWN: []}),
        (0.9, use(5.0, missed=8.0, **HELD), {"noisy": use(2.0, 4e9, occupancy={0: 1e5})}, HELD, "slowed", {OWN: []}),
        (0.9, use(5.0, missed=8.0, occupancy={0: 4e6}), {"noisy": use(2.0, 4e9, **HELD)}, HELD, "slowed",
         {BANDWIDTH: [NOISY], CACHE: [NOISY]}),
        (0.3, use(5.0, missed=8.0, occupancy={}), LOUD, {}, "slowed", {}),
        (0.9, use(2.0, throttled=0.5, throttles=50, **STUCK), LOUD, {}, "slowed", {LIMIT: []}),
        (0.1, use(2.0, cpu=0.5, cpus=1, **STUCK),
         {"noisy": use(2.0, cpu=0.5, cpus=1), "other": use(2.0, cpu=1.0, cpus=2)}, {}, "slowed", {CONTENTION: [NOISY]}),
        (0.1, use(2.0, reclaimed=0.4, reclaimed_fully=0.4, memory_events=9), {}, {}, "slowed", {"memory-limit": []}),
        (0.1, use(3.0, clock=0.66), {}, {}, "slowed", {"frequency": []}),
        (0.95, use(2.1), {"noisy": use(2.0, 9e9)}, {}, "normal", {}),
        (0.9, use(2.6, 0.0), LOUD, {}, "slowed", {OWN: []}),
        (0.1, use(3.2, work=WORK / 1000), {}, {}, "unknown", {}),
        (0.9, use(3.2), LOUD, {"samples": 9}, "unknown", {}),
        (0.9, use(None), LOUD, {}, "unknown", {}),
        (0.9, use(3.2, method="traffic"), LOUD, {"method": "traffic"}, "slowed", {BANDWIDTH: [NOISY]}),
        (0.3, use(3.2, method="traffic"), LOUD, {"method": "traffic"}, "unknown", {}),
        (None, use(3.2, method="traffic"), LOUD, {"method": "traffic"}, "unknown", {}),
        (0.9, use(2.4, method="traffic"), LOUD, {"method": "traffic"}, "normal", {BANDWIDTH: [NOISY]}),
        (0.9, use(2.6, method="traffic"), LOUD, {"method": "traffic"}, "slowed", {BANDWIDTH: [NOISY]}),
        (0.9, use(2.4), LOUD, {}, "slowed", {BANDWIDTH: [NOISY]}),
        (0.9, use(2.2, method="traffic", stood=0.2, waited=0.2, throttled=0.2), LOUD, {"method": "traffic"}, "slowed",
         {LIMIT: []}),
    ],
    ids=["full memory", "two culprits", "lost cache", "lived in the cache", "more misses without neighbours",
         "moves more beside full memory", "cache taken and full memory", "uncounted cache", "own limit", "shared CPU",
         "memory limit", "slower clock", "harmless neighbour", "no traffic", "other intensity", "too few samples",
         "not counted", "estimate", "estimate, quiet memory", "estimate, unknown load", "estimate of 1.2",
         "estimate of 1.3", "counters of 1.2", "estimate and waits"],
)  # fmt: skip
def test_scene_has_its_verdict_and_its_causes(
    load: float | None, victim: Use, others: dict[str, Use], quiet: Any, verdict: str, found: dict[str, list[str]]
) -> None:
    judged, causes = diagnose(six(load, victim=victim, **others), quiet_baseline(**quiet))
    assert (judged.verdict, supported(causes)) == (verdict, found)
    assert all(VICTIM not in [one.key for one in cause.pods] for cause in causes.values())
    assert all(not cause.pods for cause in causes.values() if cause.state != "supported")
    assert (judged.ratio is None) is (verdict == "unknown")


def test_words_and_parts_of_a_verdict() -> None:
    others = {"noisy": use(2.0, 6e9), "other": use(2.0, 3e9), "small": use(2.0, 5e8)}
    verdict, causes = diagnose(six(0.9, victim=use(3.2, 6e8), **others), quiet_baseline())
    assert verdict.ratio == pytest.approx(1.6, rel=0.05)
    assert causes[BANDWIDTH].text == "memory domain 0 is loaded to 90%"
    assert [one.share for one in causes[BANDWIDTH].pods] == pytest.approx([6 / 9.5, 3 / 9.5])
    assert causes[CACHE].state == causes[OWN].state == "excluded"
    verdict, causes = diagnose(six(0.9, victim=use(2.0, throttled=0.5, throttles=50, **STUCK)), quiet_baseline())
    assert verdict.ratio == pytest.approx(2.0, rel=0.05)
    assert "300 times, for 50%" in causes[LIMIT].text
    states: list[tuple[Use, float, Any, str, str]] = [
        (use(5.0, missed=8.0, **HELD), 0.9, HELD, BANDWIDTH, "unknown"),
        (use(5.0, missed=8.0, occupancy={}), 0.3, {}, CACHE, "unknown"),
        (use(2.6, 0.0), 0.9, {}, BANDWIDTH, "excluded"),
    ]
    for victim, load, quiet, name, state in states:
        assert diagnose(six(load, victim=victim, **LOUD), quiet_baseline(**quiet))[1][name].state == state
    for baseline in (None, quiet_baseline(samples=9)):
        assert "no baseline yet" in diagnose(six(0.9, victim=use(3.2), **LOUD), baseline)[0].reason
    verdict, _ = diagnose(six(victim=use(3.2, work=WORK / 1000)), quiet_baseline())
    assert verdict.reason == "its baseline has too few samples at this intensity of work"


@pytest.mark.parametrize("windows, quiet, state", [(12, 2.0, "supported"), (6, 2.5, "unknown")])
def test_culprit_without_a_capacity_is_found_by_its_correlation(windows: int, quiet: float, state: str) -> None:
    seen = [
        window(i, None, victim=use(3.4 if i % 2 else quiet), noisy=use(2.0, 5e9 if i % 2 else 1e7), other=use(2.0, 1e9))
        for i in range(windows)
    ]
    verdict, causes = diagnose(seen, quiet_baseline())
    cause = causes[BANDWIDTH]
    assert (cause.state, "monitoring.capacity" in cause.text) == (state, state == "unknown")
    if state == "supported":
        (culprit,) = cause.pods
        assert (verdict.verdict, culprit.key) == ("slowed", NOISY)
        assert culprit.correlation == pytest.approx(1.0)


@pytest.mark.parametrize(
    "load, moved, before, state",
    [(0.6, 4e9, 1e9, "supported"), (0.6, 4e9, 3e9, "unknown"), (0.6, 1e9, 1e9, "excluded"),
     (0.9, 1e9, 1e9, "excluded")],
)  # fmt: skip
def test_traffic_is_compared_with_that_of_quiet_times(load: float, moved: float, before: float, state: str) -> None:
    quiet = quiet_baseline(beside={"load": 0.2, "beside": before, "held": 0.0})
    _, causes = diagnose(six(load, victim=use(3.0), noisy=use(moved=moved)), quiet)
    assert causes[BANDWIDTH].state == state


def test_pod_is_compared_by_its_own_work_memory_noise_and_best_counters() -> None:
    domains: dict[int, float | None] = {0: 0.1, 1: 0.95}
    away = [window(i, domains, victim=use(3.2, {0: 1e9, 1: 0.0}), noisy=use(2.0, {0: 0.0, 1: 9e9})) for i in range(8)]
    verdict, causes = diagnose(away, quiet_baseline())
    assert (verdict.verdict, supported(causes)) == ("slowed", {OWN: []}), "a loud one in another domain is not blamed"
    for slowdown in (1.3, 2.0, 3.5):
        less_work = six(0.9, victim=use(2.0 * slowdown, work=WORK / slowdown))
        assert diagnose(less_work, quiet_baseline())[0].ratio == pytest.approx(slowdown, rel=0.05)
    noisy = Baseline()
    for number in range(40):
        noisy.learn(use(2.0 if number % 3 else 4.0), SECONDS)
    assert diagnose(six(victim=use(2.6)), noisy)[0].verdict == "normal", "a noisy workload needs a larger ratio"
    estimate: dict[str, Any] = {"method": "traffic", "work": 10.0, "missed": None}
    turns = [window(i, 0.9, victim=use(3.2) if i % 3 == 0 else use(1.0, **estimate), **LOUD) for i in range(11)]
    verdict, causes = diagnose(turns, quiet_baseline())
    assert (verdict.method, verdict.samples) == ("perf", 4)
    assert verdict.ratio == pytest.approx(1.6, rel=0.05)
    assert supported(causes) == {BANDWIDTH: [NOISY]}, "estimates between the counters' turns do not count"
    assert len(latest(turns, VICTIM, 2)) == 5, "two samples of the best grade, and the windows since"


def many(*parts: float) -> dict[str, Use]:
    """Return neighbours that move these parts of 10 GB/s."""
    return {f"pod{number}": use(2.0, part * 1e10) for number, part in enumerate(parts)}


@pytest.mark.parametrize(
    "others, moved, services, culprits",
    [
        (many(1 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 6), None, {}, 6),
        (many(*[0.1] * 10), None, {}, 10),
        (many(0.5, 0.3, 0.05, 0.05, 0.05, 0.05), None, {}, 2),
        (many(*[0.01] * 100), None, {}, ["pods with less than 3% each"]),
        (many(0.03), 1.1e10, {}, [OUTSIDE]),
        (many(0.03), 1.1e10, {"a.service": 2.0, "b.service": 0.3, "pod0": 4.0}, ["a.service"]),
        (many(0.03), 1.1e10, {"a.service": 2.0, "b.service": 1.0}, [OUTSIDE]),
        (many(0.03), 1.1e10, {REST: 2.0}, [OUTSIDE]),
        (many(0.5), 1.1e10, {"a.service": 0.1}, ["pod0", "a.service"]),
    ],
    ids=["six", "ten", "two make most", "very many", "no pod", "a service", "two services", "the kernel", "and a pod"],
)
def test_culprits_are_the_fewest_that_make_most_traffic(
    others: dict[str, Use], moved: float | None, services: dict[str, float], culprits: int | list[str]
) -> None:
    node = NodeUse(groups=tuple(Group(name, used=used) for name, used in services.items()))
    seen = [one._replace(moved={0: moved}, node=node) for one in six(0.9, victim=use(3.2, 1e9), **others)]
    _, causes = diagnose(seen, quiet_baseline())
    named = causes[BANDWIDTH].pods
    assert {one.key for one in named} == {*([*others][:culprits] if isinstance(culprits, int) else culprits)}
    assert sum(one.share for one in named) <= 1 + 1e-9


@pytest.mark.parametrize("victim, more", [(use(3.2), 1.6), (use(5.0, missed=8.0, occupancy={0: 4e6}), 2.5)])
def test_factors_of_causes_multiply_to_the_cost(victim: Use, more: float) -> None:
    verdict, causes = diagnose(six(0.9, victim=victim, noisy=use(2.0, 4e9, **HELD)), quiet_baseline(**HELD))
    factors = [one.factor or 0.0 for one in causes.values() if one.state == "supported"]
    assert min(factors) > 1
    assert [math.prod(factors), verdict.dearer] == pytest.approx([more, more], rel=0.05)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("has", [True, False])
def test_limit_is_advised_where_it_can_act(own: bool, has: bool) -> None:
    cause = Cause(BANDWIDTH, "supported", "", (Culprit(NOISY, 0.9, None),))
    facts = Facts(VICTIM, {NOISY: "ci/job"}, {NOISY: "batch", VICTIM: "batch" if own else ""}, has_mb=has)
    limits = [one for one in CAUSES[BANDWIDTH].remedies(cause, facts) if one.sets]
    assert [one.classes for one in limits] == ([() if own else ("batch",)] if has else [])
    assert all(("another RDT class" in one.text) is own and "ci/job" in one.text for one in limits)


@pytest.mark.parametrize(
    "cores, beside, hyperthread, own",
    [([0b11, 0b1100], 0.9, "unknown", "unknown"), ([0b11, 0b1100], 0.05, "excluded", "supported"),
     ([1, 2, 4, 8], 0.9, "excluded", "supported"), ([], 0.9, "unknown", "supported")],
    ids=["busy", "idle", "one each", "not known"],
)  # fmt: skip
def test_busy_hyperthread_is_not_excluded(cores: list[int], beside: float, hyperthread: str, own: str) -> None:
    node = NodeUse({0: Processor(1.0), 1: Processor(beside), 2: Processor(1.0), 3: Processor(1.0)}, cores=cores)
    windows = [one._replace(node=node) for one in six(0.1, victim=use(3.2, cpus=1, missed=1.0))]
    _, causes = diagnose(windows, quiet_baseline())
    assert (causes["hyperthread"].state, causes[OWN].state) == (hyperthread, own)


# Waits for CPUs, disks and memory

BACKUP = "system.slice/backup.service"
FACTS = Facts(VICTIM, {VICTIM: "shop/cart", NOISY: "batch/a", OTHER: "batch/b"}, {})


def causes_in(node: NodeUse, **victim: Any) -> dict[str, Cause]:
    """Return the victim's causes in three equal windows."""
    victim = {"waited": 0.5, "stood": 0.5, "blocked": 0.0, "cpus": 1, **victim}
    explained = node.explained(VICTIM, use(None, **victim))
    one = window(0, victim=explained, noisy=use(None), other=use(None))._replace(node=node)
    windows = [one._replace(time=float(number)) for number in range(3)]
    return {cause.cause: cause for cause in causes_of(windows, VICTIM, judge(windows, VICTIM, None))}


def group(name: str, used: float, wanted: float, weight: float = 100.0, cpus: int = 1) -> Group:
    """Return a cgroup."""
    return Group(name, weight, cpus=cpus, used=used, wanted=wanted)


def tree(*groups: Group) -> Group:
    """Return the slice of pods."""
    return Group("kubepods.slice", children=groups)


@pytest.mark.parametrize(
    "groups, busy, answer, culprits",
    [
        ([tree(group(VICTIM, 0.25, 0.5), group(NOISY, 0.75, 1.0))], {}, ABOVE, [NOISY]),
        ([tree(group(VICTIM, 0.8, 1.0, cpus=1), group(NOISY, 2.2, 3.0, cpus=7))], {}, ABOVE, [NOISY]),
        ([tree(group(VICTIM, 0.1, 1.0, 10), group(NOISY, 0.9, 1.0, 90))], {}, REQUEST, []),
        ([tree(group(VICTIM, 0.02, 1.0, 2), group(NOISY, 0.49, 1.0), group(OTHER, 0.49, 1.0))], {}, REQUEST, []),
        ([tree(group(VICTIM, 0.5, 1.0), group(NOISY, 0.5, 1.0))], {}, FULL, [NOISY]),
        ([tree(group(VICTIM, 0.34, 1.0), group(NOISY, 0.33, 1.0), group(OTHER, 0.33, 1.0))], {}, FULL, [NOISY, OTHER]),
        ([tree(group(VICTIM, 0.5, 1.0)), group(BACKUP, 0.5, 1.0)], {}, FULL, [BACKUP]),
        ([tree(group(VICTIM, 0.5, 1.0), group(NOISY, 0.5, 1.0), group(OTHER, 1.0, 1.0, cpus=2))], {}, FULL, [NOISY]),
        ([tree(group(VICTIM, 0.4, 0.9), group(NOISY, 0.1, 0.1))], {"interrupts": 0.5}, INTERRUPTS, []),
        ([tree(group(VICTIM, 0.5, 1.0), group(NOISY, 0.5, 1.0))], {"stolen": 0.6}, STOLEN, []),
        ([tree(group(VICTIM, 0.5, 1.0), group(NOISY, 0.1, 0.1))], {}, None, []),
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
    found = causes_in(NodeUse(processors, None if groups is None else tuple(groups)))
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
    node = NodeUse({0: Processor(0.5)}, (tree(group(VICTIM, 0.25, 0.5), group(NOISY, 0.75, 1.0)),))
    alone = causes_in(node, throttled=0.5, throttles=9, cpu=0.5, lost=Lost(0.5, 0.0, 0.5))
    assert (alone["cpu-limit"].state, alone["cpu-contention"].state) == ("supported", "excluded")
    assert alone["cpu-limit"].factor == pytest.approx(2.0)
    assert not alone["cpu-limit"].pods
    both = causes_in(node, throttled=0.3, throttles=9, cpu=0.2, lost=Lost(0.2, 0.5, 0.3))
    factors = [both[name].factor or 0.0 for name in ("cpu-limit", "cpu-contention")]
    assert factors[0] * factors[1] == pytest.approx(5.0)
    rests = causes_in(node, cpu=0.25, waited=0.25, stood=0.25, lost=Lost(0.25, 0.25, 0.0))
    assert rests["cpu-contention"].factor == pytest.approx(2.0)
    disk = (tree(group(VICTIM, 0.1, 0.15), group(NOISY, 0.9, 1.0)),)
    for stood, state in ((0.03, "excluded"), (0.08, "supported")):  # short waits after each operation are no cause
        waits = {"waited": stood, "stood": stood, "blocked": 0.85, "blocked_fully": 0.85, "cpu": 0.1}
        assert causes_in(NodeUse({0: Processor(0.9)}, disk), **waits)["cpu-contention"].state == state


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
    cause = causes_in(node, waited=0.0, stood=0.0, blocked=0.85, blocked_fully=0.85, cpu=0.15)["disk"]
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
    found = causes_in(node, waited=0.0, stood=0.0, reclaimed=0.5, reclaimed_fully=0.5, cpu=0.5, memory_events=events)
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
    assert supported(causes_in(node, **waits)) == {"memory-reclaim": [NOISY]}
    memory[NOISY] = Memory(4e6, 3.9e6)
    assert [one.key for one in causes_in(node, **waits)["memory-reclaim"].pods] == [OTHER, NOISY], "all read again"
    found = causes_in(node._replace(scanned=0), memory_events=5, **waits)
    assert [name for name, one in found.items() if one.state == "supported"] == ["memory-limit"]
    assert found["memory-limit"].factor == pytest.approx(2.5)
