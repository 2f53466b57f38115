"""Whether the interval of ``diagnose --experiment`` contains the true effect, on a kernel with resctrl.

The guest of tests/vm has the processors for it:

    python tests/vm run --cpus 12 --numa 2 --root 0 --limit 9000 --bandwidth 48 --core 23 --pmu 1 -- \\
        python3 tests/bench/experiment_scenes.py --runs 10

A victim computes beside two classes that may be limited: of the loud one at random one to three processors work, of the
small one a process that sleeps for half of the time. The truth is the victim's own work, counted for longer before and
after the experiment, with and without the limit in turn: its cycles for a round, and for
an instruction. Interrupts of a slow emulated processor are a part of both, but not the same one.
"""

import argparse
import json
import os
import random
import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from slowdown_pods import SAMPLER, VICTIM, Pod
from slowdown_scenes import KERNELS_CPUS

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.log import Log
from resctrl_hooks.node.settings import Settings
from resctrl_hooks.node.slowdown.perf import PerfCounters
from resctrl_hooks.slowdown.proof import Experiment, Proof

LOUD, SMALL = "loud", "small"
FLOOR, FREE = 20, 100
TURNS, TURN = 3, 5.0
"""Turns with and without the limit on either side of the experiment, and their seconds."""
RESCTRL = Path("/sys/fs/resctrl")
SETTLE = 0.5


class Price(NamedTuple):
    """What the victim's work costs: cycles for a round, and for an instruction."""

    round: float
    instruction: float


def price(victim: Pod, seconds: float) -> Price:
    """Return what the victim's work costs now."""
    counters = PerfCounters([str(victim.folder)])
    try:
        rounds, before = victim.rounds, counters.read()
        time.sleep(seconds)
        after = counters.read()
        cycles = after.cycles - before.cycles
        return Price(cycles / (victim.rounds - rounds), cycles / (after.instructions - before.instructions))
    finally:
        counters.close()


def prices(victim: Pod, name: str) -> dict[bool, list[Price]]:
    """Return the prices of turns with and without the limit of a class."""
    found: dict[bool, list[Price]] = {True: [], False: []}
    for turn in range(2 * TURNS):
        limited = bool(turn % 2)
        limit(name, FLOOR if limited else FREE)
        time.sleep(SETTLE)
        found[limited].append(price(victim, TURN))
    limit(name, FREE)
    return found


def limit(name: str, percent: int) -> None:
    """Give a class this part of the memory bandwidth, in both domains."""
    (RESCTRL / name / "schemata").write_text(f"MB:0={percent};1={percent}\n", encoding="ascii")


def experiment(context: Context, victim: Pod) -> list[Proof]:
    """Run the experiment of `diagnose --experiment`."""
    with Experiment(context, victim.key, [str(victim.folder)], [""]) as trial:
        return list(trial.run())


def row(proof: Proof, true: dict[bool, list[Price]]) -> dict[str, object]:
    """Return one experiment's line: what it found, and the truth by rounds and by instructions."""
    off, on = ([fmean(field) for field in zip(*true[limited], strict=True)] for limited in (False, True))
    truths = [limited / free - 1 for limited, free in zip(on, off, strict=True)]
    effect = proof.effect
    return {
        "class": proof.name,
        "reason": proof.reason,
        "effect": effect and round(effect.effect, 4),
        "interval": effect and [round(effect.low, 4), round(effect.high, 4)],
        "truths": [round(one, 4) for one in truths],
        "contains": effect and [effect.low <= one <= effect.high for one in truths],
    }


def run(context: Context) -> None:
    """Play once, and print a line for each class."""
    pods = {name: Pod(context, f"{name}-0", name, cpus) for name, cpus in ((LOUD, loud_cpus()), (SMALL, [5]))}
    victim = Pod(context, "cart-0", "", [SAMPLER + VICTIM])
    try:
        pods[SMALL].idle_half()
        for pod in (victim, *pods.values()):
            pod.go()
        time.sleep(1)
        before = {name: prices(victim, name) for name in pods}
        found = experiment(context, victim)
        after = {name: prices(victim, name) for name in pods}
        for proof in found:
            sides = before[proof.name], after[proof.name]
            print(
                json.dumps(row(proof, {limited: sides[0][limited] + sides[1][limited] for limited in (True, False)})),
                flush=True,
            )
    finally:
        for pod in (victim, *pods.values()):
            pod.end()


def loud_cpus() -> list[int]:
    """Return one to three processors of the victim's domain."""
    return [2, 3, 4][: random.randint(1, 3)]


def main() -> None:
    """Play so many times; print a line for each class and time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    os.sched_setaffinity(0, {SAMPLER})
    Path("/sys/devices/virtual/workqueue/cpumask").write_text(KERNELS_CPUS, encoding="ascii")
    throttle = {}
    for name in (LOUD, SMALL):
        (RESCTRL / name).mkdir(exist_ok=True)
        throttle[name] = {"floor": FLOOR}
    with tempfile.TemporaryDirectory(dir="/run") as state:
        context = Context(Settings({"stateDir": state, "rdt": {"guard": {"throttle": throttle}}}), Log(stderr=True))
        context.ledger.prepare()
        for _ in range(options.runs):
            run(context)


if __name__ == "__main__":
    main()
