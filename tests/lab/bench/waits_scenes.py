"""Scenes of a pod that waits for CPUs, a disk or memory on a real kernel: why, because of whom, and by which factor.

    python tests/lab/vm run --cpus 4 --limit 3000 -- python3 tests/lab/bench/waits_scenes.py --runs 4 >> runs.jsonl
    PYTHONPATH=. python tests/lab/bench/waits_scenes.py --table runs.jsonl

The truth is the victim's own work: its rounds in a second of quiet windows by those in the scene. On a busy machine,
emulation takes time that the guest cannot see, and it is slower after each wait. So the truth is corrected by the CPU
time of its own code in each round, except that of direct reads, which hardly compute.

Then the first remedy of each cause is followed, with its own values, and the victim's work is counted again.
"""

import argparse
import json
import os
import random
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from remedies import follow, unfollow
from waits_pods import GROW, KEEP, READ, Load, Worker, fill, make_disk

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.log import Log
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.observe.node.slowdown.baseline.store import Store
from resctrl_hooks.observe.node.slowdown.causes.cpu import ABOVE, FULL, REQUEST
from resctrl_hooks.observe.node.slowdown.evidence.cpu.lost_time import mean_lost
from resctrl_hooks.observe.node.slowdown.live import Live

QUIET, JUDGED, FOLLOWED = 4, 10, 5
"""Windows before a scene, of a verdict, and with its remedies."""
SLOWED = 1.15
NEAR = 0.15
SPARE = 80
"""MB of memory that a node with little memory has beside the victim's."""
WAITS = ("waited", "stood", "blocked", "blocked_fully", "reclaimed", "reclaimed_fully")
CPU, LIMIT, DISK, RECLAIM, MEMORY = "cpu-contention", "cpu-limit", "disk", "memory-reclaim", "memory-limit"
PODS, SERVICES = "kubepods.slice", "system.slice"


class Scene(NamedTuple):
    """A victim, its neighbours, and the right answer."""

    victim: Load
    others: tuple[Load, ...] = ()
    causes: tuple[str, ...] = ()
    """Empty: nothing slows the victim."""
    culprits: tuple[str, ...] = ()
    answer: str = ""
    """Of the cause `CPU`."""
    later: tuple[tuple[str, str], ...] = ()
    """What is written to the cgroup of the victim's processes when the scene begins."""
    scarce: bool = False
    """Whether the node has little memory."""


def _pod(name: str, *cpus: int, weight: int = 100, **more: Any) -> Load:
    files = (("cpu.weight", str(weight)), *more.pop("files", ()))
    return Load(f"{PODS}/pod-{name}", cpus or (1,), files=files, **more)


VICTIM, HOG = _pod("victim"), _pod("hog")
BACKUP = Load(f"{SERVICES}/backup.service", (1,))
ELSEWHERE = _pod("elsewhere", 3)
HALF, RESTING = (("cpu.max", "50000 100000"),), _pod("victim", rest=True)
READER, DIRECT = _pod("victim", kind=READ), _pod("hog", 2, 3, kind=READ)
KEEPER = _pod("victim", kind=KEEP, size=32 << 20)
GROWS = _pod("hog", 2, 3, kind=GROW, size=60 << 20)
SCENES = {
    "alone": Scene(VICTIM),
    "busy neighbours on other CPUs": Scene(VICTIM, (_pod("hog", 2), ELSEWHERE)),
    "rests half of the time, alone": Scene(RESTING, (ELSEWHERE,)),
    "rests half of the time, shares its CPU": Scene(RESTING, (HOG,), (CPU,), ("pod-hog",), ABOVE),
    "one neighbour with three times the tasks": Scene(
        VICTIM, (_pod("hog", 1, 2, 3),), (CPU,), ("pod-hog",), ABOVE
    ),
    "two equal pods on one CPU": Scene(VICTIM, (HOG, ELSEWHERE), (CPU,), ("pod-hog",), FULL),
    "four equal pods on one CPU": Scene(
        VICTIM, (HOG, _pod("hog2"), _pod("hog3")), (CPU,), ("pod-hog", "pod-hog2", "pod-hog3"), FULL
    ),
    "small request": Scene(_pod("victim", weight=25), (HOG, ELSEWHERE), (CPU,), (), REQUEST),
    "small request beside two": Scene(_pod("victim", weight=20), (HOG, _pod("hog2")), (CPU,), (), REQUEST),
    "own limit": Scene(VICTIM, (_pod("hog", 2),), (LIMIT,), later=HALF),
    "own limit, several tasks": Scene(
        _pod("victim", 1, 2), (ELSEWHERE,), (LIMIT,), later=(("cpu.max", "80000 100000"),)
    ),
    "limit of its container, and a busy neighbour elsewhere": Scene(
        _pod("victim", container="web"), (_pod("hog", 2),), (LIMIT,), later=HALF
    ),
    "own limit and a neighbour": Scene(
        VICTIM, (_pod("hog", weight=300),), (CPU, LIMIT), ("pod-hog",), "", (("cpu.max", "20000 100000"),)
    ),
    "cpusets overlap": Scene(
        _pod("victim", 1, 2, pinned=False, files=(("cpuset.cpus", "1-2"),)),
        (_pod("hog", 2, 3, pinned=False, files=(("cpuset.cpus", "2-3"),)), ), (CPU,), ("pod-hog",), "",
    ),
    "service outside pods": Scene(VICTIM, (BACKUP, ELSEWHERE), (CPU,), (f"{SERVICES}/backup.service",), FULL),
    "service with several tasks": Scene(
        VICTIM, (BACKUP._replace(cpus=(1, 2, 3)),), (CPU,), (f"{SERVICES}/backup.service",), ABOVE
    ),
    "own threads on one CPU": Scene(_pod("victim", 1, 1, 1), (ELSEWHERE,)),
    "own threads on one CPU, and a neighbour": Scene(_pod("victim", 1, 1, 1), (HOG,), (CPU,), ("pod-hog",), FULL),
    "disk, alone": Scene(READER, (_pod("hog", 2),)),
    "disk, two readers beside": Scene(READER, (DIRECT,), (DISK,), ("pod-hog",)),
    "disk, a service beside": Scene(
        READER, (Load(f"{SERVICES}/backup.service", (2, 3), READ), ELSEWHERE), (DISK,), (f"{SERVICES}/backup.service",)
    ),
    "page cache, alone": Scene(KEEPER, scarce=True),
    "page cache, a neighbour grows": Scene(KEEPER, (GROWS,), (RECLAIM,), ("pod-hog",), scarce=True),
    "own memory limit": Scene(KEEPER, (_pod("hog", 2),), (MEMORY,), later=(("memory.max", "20000000"),)),
}  # fmt: skip


def play(scene: Scene, window: float) -> dict[str, Any]:
    """Run a scene once; return what was found, and the truth."""
    with tempfile.TemporaryDirectory(dir="/run") as state, tempfile.TemporaryDirectory() as folder:
        context = Context(Settings({"stateDir": state}), Log(stderr=True))
        context.ledger.prepare()
        store = Store(folder)
        store.load()
        workers = [Worker(context, load) for load in (scene.victim, *scene.others)]
        victim = workers[0]
        live = Live(context, store, lambda _, text: print(text, file=sys.stderr), perf=False)
        ballast = Path("/run/ballast")
        try:
            if scene.scarce:
                fill(ballast, (scene.victim.size >> 20) + SPARE)
            victim.go()
            time.sleep(2 * window + (scene.victim.size >> 20) / 4)  # until its pages are in memory
            alone = _sample(live, victim, QUIET, window)
            for name, value in scene.later:
                (victim.inner / name).write_text(value)
            for one in workers[1:]:
                one.go()
            time.sleep(2 * window)
            beside = _sample(live, victim, JUDGED, window)
            found = live.finding(victim.key)
            names = {one.key: one.load.path.rpartition("/")[2] for one in workers if one.key}
            uses = [one.uses[victim.key] for one in live.windows if victim.key in one.uses]
            supported = [one for one in found.causes if one.state == "supported"]
            units = {one.load.path: one.folder for one in workers}
            lines = [line for one in supported if (line := follow(context, victim.key, one, units, victim.inner))]
            time.sleep(2 * window)
            after = _sample(live, victim, FOLLOWED, window)
            unfollow(context)
            return {
                "followed": lines,
                "after": alone[0] / after[0],
                "after corrected": alone[0] / after[0] / (alone[1] / after[1]),
                "truth": alone[0] / beside[0],
                "corrected": alone[0] / beside[0] / (alone[1] / beside[1]),
                "verdict": found.verdict.verdict,
                "ratio": found.verdict.ratio,
                "causes": {one.cause: one.factor for one in supported},
                "culprits": sorted(names.get(pod.key, pod.key) for one in supported for pod in one.pods),
                "texts": {one.cause: f"{one.state}: {one.text}" for one in found.causes},
                "lost": [round(part, 3) for part in mean_lost([use.lost for use in uses]) or ()],
                "waits": [
                    round(sum([float(getattr(use, name) or 0) for use in uses]) / len(uses), 3) for name in WAITS
                ],
            }
        finally:
            if scene.scarce:
                os.system(f"umount {ballast}")
            live.watched.close()
            for one in workers:
                one.end()


def _sample(live: Live, victim: Worker, number: int, window: float) -> tuple[float, float]:
    """Sample so many windows; return the victim's rounds by second, and by second of CPU time of its own code."""
    live.step([])
    live.windows.clear()
    begun, rounds, used = time.monotonic(), victim.rounds, victim.own_seconds
    for _ in range(number):
        time.sleep(window)
        live.step([])
    done = victim.rounds - rounds
    return done / (time.monotonic() - begun), done / max(1e-6, victim.own_seconds - used)


def main() -> None:
    """Play the scenes, or print the table of earlier runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1, help="of each scene")
    parser.add_argument("--window", type=float, default=1.0, help="seconds")
    parser.add_argument("--only", nargs="*", default=[""], help="parts of the scenes' names")
    parser.add_argument("--rate", type=int, default=25, help="MB per second of the disk")
    parser.add_argument("--table", help="a file with the lines of earlier runs")
    options = parser.parse_args()
    if options.table:
        print(_table(Path(options.table).read_text(encoding="utf-8").splitlines()))
        return
    os.sched_setaffinity(0, {0})
    make_disk(options.rate)
    for _ in range(options.runs):
        for name, scene in random.sample([*SCENES.items()], len(SCENES)):  # a run may be cut short
            if any(part in name for part in options.only):
                print(json.dumps({"scene": name, **play(scene, options.window)}), flush=True)


def _table(lines: list[str]) -> str:
    """Return the runs as a table in Markdown."""
    runs = [json.loads(line) for line in lines if line.startswith("{")]
    rows = [
        "| scene | runs | causes right | answer right | culprits right | ratio | truth | remedies followed |",
        f"|---|{'--:|' * 7}",
    ]
    for name, scene in SCENES.items():
        some = [run for run in runs if run["scene"] == name]
        if some:
            cells = (
                *(name, len(some)),
                sum(sorted(run["causes"]) == sorted(scene.causes) for run in some),
                sum(_answered(run, scene) for run in some) if scene.answer else "-",
                sum(run["culprits"] == sorted(scene.culprits) for run in some),
                *(_range([run["ratio"] for run in some]), _range([_truth(run) for run in some])),
                f"{_range([_after(run) for run in some])} ({sum(map(_helped, some))})" if scene.causes else "-",
            )
            rows.append(f"| {' | '.join(map(str, cells))} |")
    slowed = [run for run in runs if SCENES[run["scene"]].causes]
    near = sum(abs((run["ratio"] or 1.0) / _truth(run) - 1) <= NEAR for run in slowed)
    told = [run for run in slowed if run["followed"]]
    helped = f"{sum(map(_helped, told))} of {len(told)} remedies that could be followed helped as announced."
    return "\n".join([*rows, "", helped, f"{near} of {len(slowed)} ratios are within {NEAR:.0%} of the truth."])


def _helped(run: dict[str, Any]) -> bool:
    """Return whether the pod is slow no more, or as announced."""
    announced = [float(one) for line in run["followed"] for one in re.findall(r"still slowed ([\d.]+) times", line)]
    return bool(run["followed"]) and _after(run) < SLOWED * max([1.0, *announced])


def _after(run: dict[str, Any]) -> float:
    return float(run["after" if SCENES[run["scene"]].victim.kind == READ else "after corrected"])


def _truth(run: dict[str, Any]) -> float:
    return float(run["truth" if SCENES[run["scene"]].victim.kind == READ else "corrected"])


def _answered(run: dict[str, Any], scene: Scene) -> bool:
    return bool(run["texts"].get(CPU, "").startswith(f"supported: {scene.answer}"))


def _range(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{min(known):.2f}-{max(known):.2f}" if known else "-"


if __name__ == "__main__":
    main()
