"""Scenes of a pod beside others on a kernel with resctrl, and the verdicts on it: who suffers, why, because of whom.

The guest of tests/lab/vm has the processors for it. Each boot plays its scenes in random order, a line for each run:

    V="python tests/lab/vm run --cpus 10 --numa 2 --root 0 --limit 9000"
    S="python3 tests/lab/bench/slowdown_scenes.py --runs 4"
    $V --bandwidth 48 --core 23 --pmu 1 -- $S --capacity 48e6 >> runs.jsonl
    $V --bandwidth 48 --core 23 -- $S --capacity 48e6 --without-pmu >> runs.jsonl
    $V --bandwidth 640 --core 200 --pmu 1 --cache 2 -- $S --capacity 640e6 --cache >> runs.jsonl
    PYTHONPATH=. python tests/lab/bench/slowdown_scenes.py --table runs.jsonl

Each boot learns the victim's baseline while the neighbours stand still. Each run begins with that baseline, samples
some quiet windows, and then the scene. The truth is the victim's own work: its rounds in a second of the quiet windows
by those in the scene; of CPU time, if it sleeps by itself. On a busy machine, emulation takes time that the guest's
clock counts and its cycles do not, so its rounds are also compared by its cycles and its part of the CPU time.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from remedies import follow, unfollow
from slowdown_pods import ELSEWHERE, HASH, LOOP, SAMPLER, SERVICE, SERVICES, VICTIM, WALK, Stage
from slowdown_table import table

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.log import Log
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.observe.node.slowdown.baseline.store import NAME, Store
from resctrl_hooks.observe.node.slowdown.causes.cause import Cause
from resctrl_hooks.observe.node.slowdown.constants import GRADES
from resctrl_hooks.observe.node.slowdown.live import Live

LEARNED, QUIET, JUDGED, FOLLOWED = 10, 4, 10, 5
"""Windows: of a baseline, before a scene, of a verdict, and with its remedies."""
MOST_TRIES = 5
BANDWIDTH, CACHE, LIMIT, CONTENTION, OWN = "memory-bandwidth", "l3-cache", "cpu-limit", "cpu-contention", "own-change"
SMALL, WAYS = "small", "003"
KERNELS_CPUS = f"{1 << SAMPLER | 1 << SAMPLER + ELSEWHERE:x}\n"


class Scene(NamedTuple):
    """What happens after the quiet windows, and the right answer."""

    neighbours: dict[str, list[int]]
    acts: tuple[Callable[[Stage], None], ...] = ()
    cause: str = ""
    """Empty: nothing slows the victim."""
    culprits: tuple[str, ...] = ()
    also: str = ""
    """The cause that acts with it: it makes the victim wait, while `cause` makes its work cost more."""
    verdict: str = ""
    """Other than `slowed` with a cause, and `normal` without one."""
    each: Callable[[Stage, int], None] | None = None
    """What happens in each half of a window."""
    kind: int = LOOP
    capacity: bool = True
    fresh: bool = False
    """Whether the victim's workload is a new one, with a baseline of its own."""
    true_by: str = "rounds"
    """Rounds by second, by second of CPU time (`cpu`), or by cycle; empty: two kinds of work cannot be compared."""
    boots: tuple[str, ...] = ("pmu",)
    rdt_class: str = ""

    def left(self, after: dict[str, float]) -> float | None:
        """Return how slow the victim is after the remedies; None if unknown."""
        return self.by_cycles(after) or after.get(self.true_by)

    def by_cycles(self, truths: dict[str, float]) -> float | None:
        """Return the truth by the victim's own cycles for a round and by its part of the CPU time; None if unknown."""
        if not self.true_by or "cycles" not in truths or self.each is _rival:  # some of its windows are not counted
            return None
        return truths["cycles"] * (1.0 if self.true_by == "cpu" else truths["rounds"] / truths["cpu"])

    @property
    def right(self) -> str:
        """The right verdict."""
        return self.verdict or ("slowed" if self.cause else "normal")


def _go(stage: Stage) -> None:
    stage.all_go()


def _rival(stage: Stage, half: int) -> None:
    if stage.rival:
        stage.rival.turn(half)


A, BOTH = ("a-0",), ("pmu", "no pmu")
THREE = {"a-0": [2], "b-0": [3], "c-0": [4]}
NAMES = (*THREE,)
AWAY = {f"{name}-0": [ELSEWHERE + number] for number, name in enumerate("abc", 1)}
CROWD = {"a-0": [2, 3]}
WALKER: dict[str, Any] = {"kind": WALK, "fresh": True, "true_by": "cycles"}
SCENES = {
    "no neighbour": Scene({"a-0": [2]}, boots=BOTH),
    "one neighbour, memory not full": Scene({"a-0": [2]}, (_go,), boots=BOTH),
    "one neighbour of two processes": Scene({"a-0": [2, 3]}, (_go,), BANDWIDTH, A),
    "three neighbours": Scene(THREE, (_go,), BANDWIDTH, NAMES, boots=BOTH),
    "two culprits, 2 to 1": Scene({"a-0": [2, 3], "b-0": [4]}, (_go,), BANDWIDTH, ("a-0", "b-0"), boots=BOTH),
    "a service, and pods in the other domain": Scene(
        {SERVICE: [2, 3, 4], **AWAY}, (_go,), BANDWIDTH, (SERVICE,), boots=BOTH
    ),
    "own CPU limit, three neighbours": Scene(THREE, (_go, Stage.limit), BANDWIDTH, NAMES, LIMIT, boots=BOTH),
    "CPU shared with one of three neighbours": Scene(
        {**THREE, "a-0": [VICTIM, 2]}, (_go,), BANDWIDTH, NAMES, CONTENTION
    ),
    "comes and goes, no capacity": Scene({"a-0": [2, 3, 4]}, (), BANDWIDTH, A, each=Stage.toggle, capacity=False),
    "own CPU limit, one neighbour": Scene({"a-0": [2]}, (_go, Stage.limit), LIMIT, boots=BOTH),
    "CPU shared with a busy pod": Scene({"a-0": [VICTIM]}, (_go,), CONTENTION, A, boots=BOTH),
    "own change of work, one neighbour": Scene(
        {"a-0": [2]}, (_go, Stage.change), OWN, kind=HASH, fresh=True, true_by=""
    ),
    "restart, three neighbours": Scene(THREE, (_go, Stage.restart), BANDWIDTH, NAMES),
    "new workload, three neighbours": Scene(THREE, (_go, Stage.renew), verdict="unknown", true_by="", boots=BOTH),
    "idle half of the time": Scene({"a-0": [2]}, (Stage.idle_half,), true_by="cpu"),
    "idle half of the time, three neighbours": Scene(
        THREE, (_go, Stage.idle_half), BANDWIDTH, NAMES, true_by="cpu"
    ),
    "three neighbours in the other domain": Scene(AWAY, (_go,), boots=BOTH),
    "own CPU limit, three neighbours in the other domain": Scene(AWAY, (_go, Stage.limit), LIMIT),
    "multiplexed counters, three neighbours": Scene(
        THREE, (Stage.multiplex, _go), BANDWIDTH, NAMES, each=_rival
    ),
    "a neighbour takes the cache": Scene(CROWD, (_go,), CACHE, A, boots=("cache",), **WALKER),
    "the same, neighbour limited to two ways": Scene(CROWD, (_go,), boots=("cache",), rdt_class=SMALL, **WALKER),
    "three neighbours take the other domain's cache": Scene(AWAY, (_go,), boots=("cache",), **WALKER),
    "cache, own CPU limit": Scene({"a-0": [2]}, (Stage.limit,), LIMIT, boots=("cache",), **{**WALKER, "true_by": ""}),
}  # fmt: skip


class Player:
    """Plays scenes on this node, each from the same baselines.

    Args:
        capacity: bytes per second of a memory domain.
        perf: whether performance counters are to be used.
        window: seconds of a window.
        first_cpu: that of the victim's domain.
    """

    def __init__(self, capacity: float, *, perf: bool, window: float, first_cpu: int) -> None:
        self._capacity = capacity
        self._perf = perf
        self._window = window
        self._first_cpu = first_cpu
        self._learned = tempfile.TemporaryDirectory()

    def learn(self, kind: int) -> None:
        """Learn the baseline of the victim that does this kind of work."""
        with self._stage(Scene({}, kind=kind)) as (stage, live):
            self._learned_by(stage, live)
            live.close()
            shutil.copy(f"{live.store._folder}/{NAME}", f"{self._learned.name}/{NAME}")

    def _learned_by(self, stage: Stage, live: Live) -> dict[str, float | None]:
        """Sample until the victim has a baseline: on a busy machine, windows with waits for a CPU do not count."""
        for _ in range(MOST_TRIES):
            found = self._sample(stage, live, LEARNED)
            workload = live.workloads.of(stage.victim.key)
            baseline = live.store.find(workload) if workload else None
            if baseline and max(map(baseline.samples, GRADES)) >= LEARNED:
                return found
        raise SystemExit(f"no baseline after {MOST_TRIES * LEARNED} windows: {list(live.windows)[-3:]}")

    @contextmanager
    def _stage(self, scene: Scene) -> Iterator[tuple[Stage, Live]]:
        capacity = {"capacity": {"*": self._capacity}} if scene.capacity else {}
        with tempfile.TemporaryDirectory(dir="/run") as state, tempfile.TemporaryDirectory() as folder:
            context = Context(Settings({"stateDir": state, "monitoring": capacity}), Log(stderr=True))
            context.ledger.prepare()
            if os.path.exists(path := f"{self._learned.name}/{NAME}"):
                shutil.copy(path, folder)
            store = Store(folder)
            store.load()
            live = Live(context, store, lambda _, text: print(text, file=sys.stderr), perf=self._perf)
            name = f"{random.choice('klmn')}{random.getrandbits(48):x}z" if scene.fresh else "cart"
            stage = Stage(context, (name, scene.kind), scene.neighbours, scene.rdt_class, self._first_cpu)
            try:
                stage.victim.go()
                time.sleep(self._window)
                yield stage, live
            finally:
                live.watched.close()
                stage.end()

    def _sample(
        self, stage: Stage, live: Live, number: int, each: Callable[[Stage, int], None] | None = None
    ) -> dict[str, float | None]:
        """Sample so many windows; return the victim's rounds by second, by second of CPU time and by cycle."""
        live.step([])
        live.step([stage.victim.key])
        live.windows.clear()
        begun, rounds, used = time.monotonic(), stage.victim.rounds, stage.victim.cpu_seconds
        for half in range(2 * number):
            if each:
                each(stage, half)
            time.sleep(self._window / 2)
            if half % 2:
                live.step([stage.victim.key])
        done = stage.victim.rounds - rounds
        seen = [window.uses[stage.victim.key] for window in live.windows if stage.victim.key in window.uses]
        cycles = sum(use.cycles for use in seen)
        return {
            "rounds": done / (time.monotonic() - begun),
            "cpu": done / (stage.victim.cpu_seconds - used),
            "cycles": done / cycles if cycles else None,
        }

    def _followed(self, stage: Stage, causes: list[Cause]) -> list[str]:
        """Follow the remedies of causes; return their lines."""
        victim, units = stage.victim, {name: pod.folder for name, pod in stage.others.items()}
        lines = [line for one in causes if (line := follow(stage.context, victim.key, one, units, victim.folder))]
        time.sleep(self._window)
        return lines

    def play(self, scene: Scene) -> dict[str, Any]:
        """Run a scene once; return what was found, and the truth."""
        with self._stage(scene) as (stage, live):
            alone = self._learned_by(stage, live) if scene.fresh else self._sample(stage, live, QUIET)
            for act in scene.acts:
                act(stage)
            time.sleep(self._window)
            begun = time.monotonic()
            beside = self._sample(stage, live, JUDGED, scene.each)
            found = live.finding(stage.victim.key)
            verdict, causes = found.verdict, found.causes
            names = {pod.key: pod.name for pod in stage.others.values()}
            supported = [one for one in causes if one.state == "supported"]
            seen, seconds = [*live.windows], time.monotonic() - begun
            lines = self._followed(stage, supported) if verdict.verdict == "slowed" else []
            after = self._sample(stage, live, FOLLOWED, scene.each) if lines else {}
            unfollow(stage.context)
            return {
                "followed": lines,
                "after": {name: one / other for name, one in alone.items() if one and (other := after.get(name))},
                "verdict": verdict.verdict,
                "reason": verdict.reason,
                "ratio": verdict.ratio,
                "truths": {name: one / other for name, one in alone.items() if one and (other := beside[name])},
                "method": verdict.method,
                "samples": [verdict.samples, verdict.baseline_samples],
                "load": [window.load.get(found.domain or 0) for window in seen],
                "seconds": seconds,
                "prices": [use.price for window in seen if (use := window.uses.get(stage.victim.key))],
                "texts": {one.cause: f"{one.state}: {one.text}" for one in causes},
                "causes": sorted(one.cause for one in supported) if verdict.verdict == "slowed" else [],
                "factors": {one.cause: one.factor for one in supported},
                "culprits": sorted(
                    {names.get(pod.key, pod.key.rpartition("/")[2]) for one in supported for pod in one.pods}
                ),
            }


def main() -> None:
    """Play the scenes of this kind of boot, or print the table of earlier runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--capacity", type=float, default=0.0, help="bytes per second of a memory domain")
    parser.add_argument("--runs", type=int, default=1, help="of each scene")
    parser.add_argument("--window", type=float, default=1.0, help="seconds")
    parser.add_argument("--only", default="", help="a part of the scenes' names")
    parser.add_argument("--first-cpu", type=int, default=0, help="of the victim's L3 domain; 0 or 6")
    parser.add_argument("--here", action="store_true", help="leave out scenes with pods in the other domain")
    parser.add_argument("--without-pmu", action="store_true", help="the processor has no performance counters")
    parser.add_argument("--cache", action="store_true", help="the processor has an L3")
    parser.add_argument("--table", help="a file with the lines of earlier runs")
    options = parser.parse_args()
    if options.table:
        print(table(Path(options.table).read_text(encoding="utf-8").splitlines(), SCENES))
        return
    boot = "cache" if options.cache else "no pmu" if options.without_pmu else "pmu"
    os.sched_setaffinity(0, {options.first_cpu + SAMPLER})
    Path("/sys/devices/virtual/workqueue/cpumask").write_text(KERNELS_CPUS, encoding="ascii")
    Path("/sys/fs/resctrl", SERVICES).mkdir(exist_ok=True)
    if options.cache:
        Path("/sys/fs/resctrl", SMALL).mkdir(exist_ok=True)
        Path("/sys/fs/resctrl", SMALL, "schemata").write_text(f"L3:0={WAYS};1={WAYS}\n", encoding="ascii")
    player = Player(options.capacity, perf=True, window=options.window, first_cpu=options.first_cpu)
    player.learn(WALK if options.cache else LOOP)
    for _ in range(options.runs):
        for name, scene in random.sample([*SCENES.items()], len(SCENES)):  # a run may be cut short
            is_away = any(cpu >= ELSEWHERE for cpus in scene.neighbours.values() for cpu in cpus)
            if boot in scene.boots and options.only in name and not (is_away and options.here):
                print(json.dumps({"scene": name, "boot": boot, **player.play(scene)}), flush=True)


if __name__ == "__main__":
    main()
