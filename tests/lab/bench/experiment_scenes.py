"""Experiments with values of a neighbour's cgroup on a real kernel: does the interval contain the true effect?

    python tests/lab/vm run --cpus 4 --limit 5000 -- python3 tests/lab/bench/experiment_scenes.py --runs 10

The truth is the victim's own work in the free windows of the experiment by that in the limited ones, as a change of
the time that it takes.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from waits_pods import LOOP, READ, Load, Worker, make_disk

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.log import Log
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.observe.node.slowdown.causes.remedy import BFQ_WEIGHT, CPU_MAX, CPU_WEIGHT, IO_MAX
from resctrl_hooks.observe.slowdown.experiment.proof import Experiment
from resctrl_hooks.observe.slowdown.experiment.schedule import SECONDS, SETTLE
from resctrl_hooks.observe.slowdown.experiment.value_trial import Plan

FILES = {CPU_WEIGHT: "cpu.weight", CPU_MAX: "cpu.max", BFQ_WEIGHT: "io.bfq.weight", IO_MAX: "io.max"}
ON_DISK = (BFQ_WEIGHT, IO_MAX)
KEY = "5a0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
"""Of a pod without a group: its cost is compared by its waits."""
SCHEDULER = Path("/sys/block/nullb0/queue/scheduler")


def play(sets: str) -> dict[str, Any]:
    """Run one experiment; return its effect, and the true one."""
    kind, cpus = (READ, (2, 3)) if sets in ON_DISK else (LOOP, (1,))
    with tempfile.TemporaryDirectory(dir="/run") as state:
        context = Context(Settings({"stateDir": state}), Log(stderr=True))
        context.ledger.prepare()
        victim, hog = (
            Worker(context, Load(f"kubepods.slice/{name}", on, kind)) for name, on in (("victim", (1,)), ("hog", cpus))
        )
        file, rates = hog.folder / FILES[sets], {True: list[float](), False: list[float]()}
        free = file.read_text()

        def sleep(seconds: float) -> None:
            begun, done = time.monotonic(), _done(victim)
            time.sleep(seconds)
            if seconds == SECONDS - SETTLE:
                rates[file.read_text() != free].append((_done(victim) - done) / (time.monotonic() - begun))

        try:
            for one in (victim, hog):
                one.go()
            time.sleep(2)
            plan = Plan(sets, "hog", (str(hog.folder),))
            with Experiment(context, KEY, [str(victim.folder)], [], sleep=sleep, planned=[plan]) as experiment:
                (proof,) = experiment.run()
            effect, truth = proof.effect, geometric_mean(rates[False]) / geometric_mean(rates[True]) - 1
            found = {"effect": effect.effect, "low": effect.low, "high": effect.high} if effect else {}
            return {"truth": truth, "reason": proof.reason, "restored": file.read_text() == free, **found}
        except HookError as error:
            return {"reason": str(error), "restored": file.read_text() == free}
        finally:
            for one in (victim, hog):
                one.end()


def _done(victim: Worker) -> float:
    """Return a pod's work so far; of one that only computes, the CPU time: emulation slows its rounds, unseen."""
    return victim.cpu_seconds if victim.load.kind == LOOP else float(victim.rounds)


def main() -> None:
    """Run the experiments; a line for each, and the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1, help="of each kind")
    parser.add_argument("--only", nargs="*", choices=FILES, default=[*FILES], help="what is limited")
    options = parser.parse_args()
    os.sched_setaffinity(0, {0})
    make_disk(25)
    os.system("modprobe bfq")
    SCHEDULER.write_text("bfq")
    for sets in options.only:
        contained = restored = 0
        for _ in range(options.runs):
            run = play(sets)
            contained += bool("low" in run and run["low"] <= run["truth"] <= run["high"])
            restored += run["restored"]
            print(json.dumps({"sets": sets, **run}), flush=True)
        print(f"{sets}: {contained} of {options.runs} contain the truth, {restored} restored", file=sys.stderr)


if __name__ == "__main__":
    main()
