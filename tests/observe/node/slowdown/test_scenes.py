"""The rules on a modelled node with noise: scenes of a pod beside others, and how often the verdicts are right.

The model is the simulation's (`lab.simulation.work`). `resctrl-hook diagnose` sees windows of it, and the truth is the
model's own time for the same work. Run it as a program for the table in docs/dev/results.md.
"""

from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from math import prod
from random import Random
from typing import Any

import pytest

from resctrl_hooks.lab.simulation.work import CYCLES, Pace, Work, settle
from resctrl_hooks.observe.node.slowdown.baseline.baseline import Baseline
from resctrl_hooks.observe.node.slowdown.baseline.quiet import Peaks, is_quiet, surroundings
from resctrl_hooks.observe.node.slowdown.causes.table import causes_of, confirmed
from resctrl_hooks.observe.node.slowdown.constants import JUDGED, STORED_WINDOWS
from resctrl_hooks.observe.node.slowdown.evidence.cpu.lost_time import Lost
from resctrl_hooks.observe.node.slowdown.evidence.use import Use
from resctrl_hooks.observe.node.slowdown.evidence.waiting import waiting_of
from resctrl_hooks.observe.node.slowdown.evidence.window import Window
from resctrl_hooks.observe.node.slowdown.units import CpuPart, WallPart
from resctrl_hooks.observe.node.slowdown.verdict import judge, latest

VICTIM = "victim"
HOUSES = ("lab",)
SECONDS, CAPACITY, L3 = 10.0, 100e9, 32e6
QUIET, SCENE, SEEDS = 20, 20, 12
NOISE = 0.03
DOMAINS = (0, 1)


@dataclass(frozen=True)
class Pod:
    """A pod of the model. ``cycles`` and ``bytes`` are by instruction without waiting, ``cpu`` its CPUs in use."""

    cpu: float = 4.0
    cycles: float = 1.0
    bytes: float = 0.8
    domain: int = 0
    held: float = 2e6
    method: str = "perf"
    throttled: float = 0.0
    waited: float = 0.0
    clock: float = 1.0
    rests: float = 0.0
    """The part of the time in which it has no work; it has one CPU then."""


VICTIM_POD = Pod(held=20e6)
LOUD = Pod(cpu=80.0, bytes=1.6)
SMALL = Pod(cpu=1.0, bytes=0.05)
HUNGRY = Pod(cpu=12.0, bytes=0.4, held=22e6)
"""Takes the cache, and little bandwidth."""


@dataclass(frozen=True)
class Scene:
    """The pods of the quiet phase are the victim and small neighbours; ``beside`` is what the neighbours become."""

    beside: dict[str, Pod]
    causes: tuple[str, ...] = ()
    """Why the victim is slowed, if it is."""
    change: dict[str, Any] = field(default_factory=dict)
    """Of the victim itself."""
    start: dict[str, Any] = field(default_factory=dict)
    """Of the victim, from the beginning."""
    toggles: bool = False
    known: bool = True
    """Whether the victim has a baseline."""
    capacity: bool = True
    quiet: Pod = SMALL
    """The neighbours of the quiet phase."""
    phases: tuple[dict[str, Any], ...] = ({},)
    """The victim's, in turns; some windows have two."""
    turn: int = 1
    """Windows of a phase."""
    verdict: str = ""
    """Other than `slowed` or `normal`."""

    @property
    def culprits(self) -> frozenset[str]:
        """Return the neighbours that a cause names."""
        return frozenset(self.beside if {*self.causes} & {BANDWIDTH, CACHE, CONTENTION} else ())


BANDWIDTH, CACHE, LIMIT, CONTENTION = "memory-bandwidth", "l3-cache", "cpu-limit", "cpu-contention"
AWAY = replace(LOUD, domain=1)
REST = {"cpu": 1.0, "rests": 0.5}
HOLDER = replace(SMALL, held=12e6)
"""Holds more than a quarter of the cache, which the victim does not need."""
TWO: tuple[dict[str, Any], ...] = ({}, {"cycles": 0.4, "bytes": 0.01})
VARIES: tuple[dict[str, Any], ...] = ({}, {"cpu": 1.0}, {"cpu": 0.5})
BURSTS: tuple[dict[str, Any], ...] = ({"cpu": 0.3}, {"cpu": 8.0})


def _once(**change: Any) -> tuple[dict[str, Any], ...]:
    """Return phases of which one in twelve is another one."""
    return (*[{}] * 11, change)


SCENES = {
    "nobody": Scene({}),
    "one neighbour": Scene({"a": LOUD}, (BANDWIDTH,)),
    "three neighbours": Scene(dict.fromkeys("abc", replace(LOUD, cpu=32.0)), (BANDWIDTH,)),
    "two culprits, 2 to 1": Scene({"a": LOUD, "b": replace(LOUD, cpu=40.0)}, (BANDWIDTH,)),
    "a neighbour takes the cache": Scene({"a": HUNGRY}, (CACHE,)),
    "the same in a small mask": Scene({"a": replace(HUNGRY, held=3e6)}),
    "comes and goes, no capacity": Scene({"a": replace(LOUD, cpu=160.0)}, (BANDWIDTH,), toggles=True, capacity=False),
    "loud in the other domain": Scene({"a": AWAY}),
    "own CPU limit, loud in the other domain": Scene({"a": AWAY}, (LIMIT,), change={"throttled": 0.4}),
    "CPUs shared with a busy pod": Scene({"a": SMALL}, (CONTENTION,), change={"waited": 0.35}),
    "own change of work": Scene({"a": SMALL}, ("own-change",), change={"cycles": 1.9}),
    "own change of work beside full memory": Scene({"a": LOUD}, ("own-change",), change={"bytes": 2.4}),
    "slower clock": Scene({"a": SMALL}, ("frequency",), change={"clock": 0.75}),
    "new workload": Scene({"a": LOUD}, known=False, verdict="unknown"),
    "idle half of the time": Scene({"a": SMALL}, change={"cpu": 2.0}),
    "idle half of the time, one neighbour": Scene({"a": LOUD}, (BANDWIDTH,), change={"cpu": 2.0}),
    "no PMU, one neighbour": Scene({"a": LOUD}, (BANDWIDTH,), start={"method": "traffic"}),
    "no PMU, nobody": Scene({}, start={"method": "traffic"}),
    "rests half of the time, shares its CPU": Scene({"a": SMALL}, (CONTENTION,), start=REST, change={"waited": 0.45}),
    "own CPU limit from the beginning, one neighbour": Scene({"a": LOUD}, (BANDWIDTH, LIMIT), start={"throttled": 0.5}),
    "own CPU limit from the beginning, nobody": Scene({}, (LIMIT,), start={"throttled": 0.5}),
    "CPUs shared with a busy pod from the beginning": Scene({"a": SMALL}, (CONTENTION,), start={"waited": 0.35}),
    "own CPU limit and one neighbour": Scene({"a": LOUD}, (BANDWIDTH, LIMIT), change={"throttled": 0.3}),
    "cache full of others' lines, loud in the other domain": Scene({"a": AWAY}, quiet=HOLDER),
    "cache full of others' lines, then one neighbour": Scene(
        {"a": replace(LOUD, held=12e6)}, (BANDWIDTH,), quiet=HOLDER
    ),
    "cache full of others' lines, then taken": Scene({"a": HUNGRY}, (CACHE,), quiet=HOLDER),
    "memory not full, but fuller than before": Scene(
        {"a": replace(LOUD, cpu=47.0)}, (BANDWIDTH,), start={"bytes": 8.0}
    ),
    "two phases, nobody": Scene({}, phases=TWO),
    "two phases, one neighbour": Scene({"a": replace(LOUD, cpu=160.0)}, (BANDWIDTH,), phases=TWO),
    "two long phases, nobody": Scene({}, phases=TWO, turn=4),
    "two long phases, one neighbour": Scene({"a": replace(LOUD, cpu=160.0)}, (BANDWIDTH,), phases=TWO, turn=4),
    "three phases, loud in the other domain": Scene({"a": AWAY}, phases=(*TWO, {"cpu": 1.0}), turn=3),
    "two phases, counters in turns, nobody": Scene({}, phases=TWO, turn=3, start={"method": "turns"}),
    "load that varies, nobody": Scene({}, phases=VARIES, turn=2),
    "load that varies, one neighbour": Scene({"a": LOUD}, (BANDWIDTH,), phases=VARIES, turn=2),
    "one takes the cache, another the memory": Scene({"a": HUNGRY, "b": LOUD}, (BANDWIDTH, CACHE)),
    "two phases, own CPU limit": Scene({"a": SMALL}, (LIMIT,), phases=TWO, turn=2, change={"throttled": 0.4}),
    "own change to cheaper work, one neighbour": Scene(
        {"a": LOUD}, change={"cycles": 0.3, "bytes": 0.1}, verdict="unknown"
    ),
    "bursts": Scene({}, phases=BURSTS),
    "bursts, loud in the other domain": Scene({"a": AWAY}, phases=BURSTS, turn=2),
    "bursts, no PMU": Scene({}, phases=BURSTS, start={"method": "traffic"}),
    "two phases, no PMU": Scene({}, phases=TWO, start={"method": "traffic"}),
    "short stops by its limit": Scene({}, change={"throttled": 0.09}),
    "short waits for a CPU": Scene({"a": SMALL}, change={"waited": 0.09}),
    "one window of waits": Scene({"a": SMALL}, phases=_once(waited=0.5)),
    "one window of its limit": Scene({"a": AWAY}, phases=_once(throttled=0.5)),
    "one window of other work": Scene({}, phases=_once(cycles=2.5, bytes=2.0)),
    "clock that varies": Scene({}, phases=({}, {"clock": 0.93})),
    "loud now and then, memory not full": Scene({"a": replace(LOUD, cpu=20.0)}, toggles=True),
    "every second window counted": Scene({"a": LOUD}, (BANDWIDTH,), start={"method": "turns"}),
}


def stood(pod: Pod) -> float:
    """Return the part of the time for which a pod stands still."""
    return (1 - (1 - pod.throttled) * (1 - pod.waited)) * (1 - pod.rests)


@cache
def settled(pods: tuple[tuple[str, Pod], ...]) -> tuple[float, dict[str, float], dict[str, float]]:
    """Return the part of the cache that the victim needs and has, and each pod's bytes and cycles by instruction."""
    paces: dict[str, Pace] = {}
    for domain in DOMAINS:
        here = {key: pod for key, pod in pods if pod.domain == domain}
        works = {key: Work(pod.cpu, pod.cycles, pod.bytes, pod.held, key == VICTIM) for key, pod in here.items()}
        paces.update(settle(works, CAPACITY, L3))
    moved, prices = ({key: getattr(pace, name) for key, pace in paces.items()} for name in ("moved", "price"))
    return paces[VICTIM].held / VICTIM_POD.held, moved, prices


Phases = tuple[tuple[Pod, float], ...]
"""The victim in parts of a window."""


def window(
    number: int, pods: dict[str, Pod], random: Random, phases: Phases = (), *, capacity: bool = True
) -> tuple[Window, list[float]]:
    """Return a window of the model, and the cycles of an instruction of the victim in it, without noise."""
    parts = phases or ((pods[VICTIM], 1.0),)
    settings = [settled(tuple({**pods, VICTIM: pod}.items())) for pod, _ in parts]
    in_parts = [
        (_use(pod, price[VICTIM], bytes_[VICTIM], part_left, number, random), part)
        for (pod, part), (part_left, bytes_, price) in zip(parts, settings, strict=True)
    ]
    _, moved, prices = settings[0]
    others = {key: pod for key, pod in pods.items() if key != VICTIM}
    uses = {key: _use(pod, prices[key], moved[key], 1.0, number, random) for key, pod in others.items()}
    uses[VICTIM] = _together(in_parts)
    rates = {domain: sum((use.traffic or {}).get(domain, 0.0) for use in uses.values()) for domain in DOMAINS}
    seen = {domain: rate / CAPACITY if capacity else None for domain, rate in rates.items()}
    found = Window(number * SECONDS, SECONDS, seen, uses, CpuPart(0.0), rates)
    return found, [prices[VICTIM] for _, _, prices in settings]


def _together(uses: list[tuple[Use, float]]) -> Use:
    """Return a pod that is each of these for a part of a window."""
    first, _ = uses[0]
    if len(uses) == 1:
        return first
    cost, work = (sum(getattr(use, name) * part for use, part in uses) for name in ("cost", "work"))
    whole = sum((use.missed or 0.0) * (use.work or 0.0) * part for use, part in uses)
    traffic = {domain: sum((use.traffic or {})[domain] * part for use, part in uses) for domain in DOMAINS}
    missed = whole / work if first.missed is not None else None
    return first._replace(cost=cost, work=work, missed=missed, traffic=traffic)


NO_RECLAIM: dict[str, Any] = {"reclaimed": WallPart(0.0), "reclaimed_fully": WallPart(0.0), "memory_events": 0}


def _use(pod: Pod, price: float, moved: float, left: float, number: int, random: Random) -> Use:
    price *= random.lognormvariate(0, NOISE)
    whole_cpus = pod.cpu * (1 - pod.rests)
    ran = whole_cpus * (1 - pod.throttled) * (1 - pod.waited)
    work = ran * CYCLES * pod.clock * SECONDS / price * random.lognormvariate(0, NOISE)
    traffic = {0: 0.0, 1: 0.0, pod.domain: work * moved / SECONDS * random.lognormvariate(0, NOISE)}
    counted = pod.method == "perf" or (pod.method == "turns" and number % 2 == 0)
    cycles = price * work
    whole = sum(traffic.values()) * SECONDS
    return Use(
        "perf" if counted else "traffic",
        cycles / pod.clock if counted else ran * SECONDS,
        work if counted else whole / 1e9,
        ran,
        traffic,
        {0: 20e6 * left if pod.held == VICTIM_POD.held else pod.held},
        missed=whole / work if counted else None,
        clock=pod.clock * random.lognormvariate(0, NOISE / 3) if counted else None,
        throttled=WallPart(pod.throttled * (1 - pod.rests)),
        waited=WallPart(max(pod.waited, pod.throttled) * (1 - pod.rests)),
        stood=WallPart(stood(pod)),
        lost=Lost(ran, whole_cpus * (1 - pod.throttled) * pod.waited, whole_cpus * pod.throttled),
        throttles=int(pod.throttled * 100),
        cycles=cycles if counted else 0.0,
        **NO_RECLAIM,
    )


def learn(found: Window, baseline: Baseline, peaks: Peaks) -> None:
    """Learn from a window as a node does."""
    peaks.saw(found)
    if is_quiet(found, VICTIM, peaks, {0: L3}, baseline):
        use = found.uses[VICTIM]
        baseline.learn(use, SECONDS, waiting_of([(use, SECONDS)]), surroundings(found, VICTIM))


@dataclass(frozen=True)
class Outcome:
    """One run: what was found, and what is true."""

    verdict: str
    ratio: float | None
    truth: float
    causes: frozenset[str]
    culprits: frozenset[str]
    parts: dict[str, float]
    """The factors of the causes."""
    alarms: int
    """How often the verdict became slowed, judged after each window as the resident process does."""


def play(scene: Scene, seed: int) -> Outcome:
    """Run a scene: a quiet phase that is learned as on a node, then the scene."""
    random, baseline, peaks = Random(seed), Baseline(), Peaks()
    windows, said, took, alone = [], [False], 0.0, 0.0
    peaks.held[0] = L3
    quiet, usual = dict.fromkeys(scene.beside, scene.quiet), replace(VICTIM_POD, **scene.start)
    for number in range(QUIET if scene.known else 0):
        found, _ = window(number, {VICTIM: VICTIM_POD, **quiet}, random, phases_of(scene, number, random))
        learn(found, baseline, peaks)
        windows.append(found)
    for number in range(SCENE):
        beside = quiet if scene.toggles and number % 2 == 0 else scene.beside
        phases = phases_of(scene, number, random, **scene.change)
        found, prices = window(QUIET + number, {VICTIM: VICTIM_POD, **beside}, random, phases, capacity=scene.capacity)
        windows.append(found)
        if number >= SCENE - JUDGED:
            took += 1
            for (pod, part), price in zip(phases, prices, strict=True):
                before = replace(pod, **{name: getattr(usual, name) for name in scene.change})
                alone += part * settled(((VICTIM, before), *quiet.items()))[2][VICTIM] / price
        now = latest(windows[-STORED_WINDOWS:], VICTIM, JUDGED)
        verdict = judge(now, VICTIM, baseline if scene.known else None)
        causes = causes_of(now, VICTIM, verdict)
        verdict = confirmed(verdict, causes)
        said.append(verdict.verdict == "slowed")
    supported = [one for one in causes if one.state == "supported"]
    changed = replace(VICTIM_POD, **scene.start | scene.change)
    wait = 1 / (1 - stood(changed) / (1 - changed.rests))
    return Outcome(
        verdict.verdict,
        verdict.ratio,
        took / alone * wait / changed.clock,
        frozenset(one.cause for one in supported),
        frozenset(pod.key for one in supported for pod in one.pods),
        {one.cause: one.factor for one in supported if one.factor is not None},
        sum(now and not before for before, now in pairwise(said)),
    )


def phases_of(scene: Scene, number: int, random: Random, **change: Any) -> Phases:
    """Return the victim's phases in a window, with their parts of it."""
    pods = [replace(VICTIM_POD, **scene.start | phase | change) for phase in scene.phases]
    now, later = pods[number // scene.turn % len(pods)], pods[(number // scene.turn + 1) % len(pods)]
    part = random.random()
    return ((now, 1.0),) if now == later or part > 0.5 else ((now, part), (later, 1.0 - part))


@cache
def runs_of(name: str) -> list[Outcome]:
    """Return the outcomes of a scene."""
    return [play(SCENES[name], seed) for seed in range(SEEDS)]


def part(found: list[bool]) -> float:
    """Return how many of them are true, as a part of 1."""
    return sum(found) / len(found)


def figures() -> dict[str, float]:
    """Return the figures over all runs."""
    runs = [(scene, run) for name, scene in SCENES.items() for run in runs_of(name)]
    slowed = [(scene, run) for scene, run in runs if run.verdict == "slowed"]
    right = [(scene, run) for scene, run in slowed if scene.causes]
    rated = [(scene, run, run.ratio) for scene, run in right if run.ratio is not None]
    harmless = [run for scene, run in runs if not scene.causes]
    return {
        "precision": len(right) / len(slowed),
        "recall": part([run.verdict == "slowed" for scene, run in runs if scene.causes and run.truth >= 1.25]),
        "causes right": part([run.causes == {*scene.causes} for scene, run in right]),
        "culprits right": part([run.culprits == scene.culprits for scene, run in right]),
        "ratio within 15 %": part([abs(ratio / run.truth - 1) <= 0.15 for _, run, ratio in rated]),
        "ratio is the product of its parts": part(
            [abs(prod(run.parts.values()) / ratio - 1) <= 0.1 for scene, run, ratio in rated if not scene.start]
        ),
        "false alarms": sum(run.alarms for run in harmless),
        "pod-minutes of harmless scenes": len(harmless) * SCENE * SECONDS / 60,
    }


def test_figures_are_within_their_bounds() -> None:
    found = figures()
    assert found["precision"] >= 0.95
    assert found["causes right"] >= 0.95
    assert found["culprits right"] >= 0.95
    assert found["ratio within 15 %"] >= 0.9
    assert found["ratio is the product of its parts"] >= 0.95
    assert found["pod-minutes of harmless scenes"] >= 200
    assert found["false alarms"] <= found["pod-minutes of harmless scenes"] / 200


@pytest.mark.parametrize("name", SCENES)
def test_verdicts_of_a_scene_are_right(name: str) -> None:
    scene, runs = SCENES[name], runs_of(name)
    if scene.verdict:
        assert {run.verdict for run in runs} == {scene.verdict}
    elif scene.causes:
        due = [run for run in runs if run.truth >= 1.25]
        assert len(due) >= SEEDS / 2, runs[0]
        assert part([run.verdict == "slowed" for run in due]) >= 0.9, due[0]
    else:
        assert [run for run in runs if run.verdict == "slowed"] == []


def test_parts_of_two_causes_are_theirs() -> None:
    for run in runs_of("own CPU limit and one neighbour"):
        assert run.parts == pytest.approx({LIMIT: 1 / 0.7, BANDWIDTH: 1.41}, rel=0.1)


def table() -> str:
    """Return the outcomes as a table in Markdown."""
    rows = ["| scene | runs | slowed | cause right | culprits right | ratio | truth |", "|---|--:|--:|--:|--:|--:|--:|"]
    for name, scene in SCENES.items():
        runs = runs_of(name)
        ratios = sorted(run.ratio for run in runs if run.ratio is not None)
        told = f"{ratios[0]:.2f} to {ratios[-1]:.2f}" if ratios else "-"
        causes = sum(run.causes == {*scene.causes} for run in runs) if scene.causes else "-"
        culprits = sum(run.culprits == scene.culprits for run in runs) if scene.causes else "-"
        slowed = sum(run.verdict == "slowed" for run in runs)
        truth = f"{runs[0].truth:.2f}" if scene.known else "-"
        rows.append(f"| {name} | {len(runs)} | {slowed} | {causes} | {culprits} | {told} | {truth} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print("\n".join(f"{name}: {value:.3f}" for name, value in figures().items()))
    print(table())
