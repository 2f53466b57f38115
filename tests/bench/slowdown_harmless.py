"""False alarms on a kernel with resctrl: many pods, quiet ones and loud ones whose memory carries them.

The guest of tests/vm has the processors for it:

    python tests/vm run --cpus 12 --numa 2 --root 0 --limit 9000 --bandwidth 2000 --core 100 --pmu 1 -- \\
        python3 tests/bench/slowdown_harmless.py --minutes 10 --capacity 2000e6

Every few windows random pods stop and others go on. Each window judges each pod that works, as on a node. An alarm is
a pod that becomes `slowed`. Nothing here slows a pod: each has a processor of its own.
"""

import argparse
import json
import os
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from slowdown_pods import ELSEWHERE, HASH, LOOP, SAMPLER, VICTIM, Pod
from slowdown_scenes import KERNELS_CPUS, LEARNED, MOST_TRIES

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.log import Log
from resctrl_hooks.node.settings import Settings
from resctrl_hooks.node.slowdown.live import Live
from resctrl_hooks.node.slowdown.store import Store

CHANGE = 5
"""Windows between two changes of the pods that work."""
JUDGED = 10
CPUS = (*range(SAMPLER + VICTIM, ELSEWHERE), *range(ELSEWHERE + VICTIM, 2 * ELSEWHERE))


class Node:
    """Pods with a processor each, every second one of them loud."""

    def __init__(self, context: Context, live: Live, window: float) -> None:
        self._window = window
        self.live = live
        self.pods = [
            Pod(context, f"app{number}-0", "", [cpu], LOOP if number % 2 else HASH) for number, cpu in enumerate(CPUS)
        ]
        self.works = dict.fromkeys(self.pods, False)

    def change(self, pods: list[Pod]) -> None:
        """Let these pods work, and the others stand still."""
        for pod, works in self.works.items():
            if (pod in pods) != works:
                (pod.stop if works else pod.go)()
                self.works[pod] = pod in pods

    def sample(self) -> list[Pod]:
        """Sample a window; return the pods that work."""
        working = [pod for pod, works in self.works.items() if works]
        self.live.step([pod.key for pod in working])
        time.sleep(self._window)
        return working

    def learn(self) -> None:
        """Learn the baselines, of one pod after another."""
        for pod in self.pods:
            self.change([pod])
            for _ in range(MOST_TRIES * LEARNED):
                self.sample()
                if self.live.has_baseline(pod.key):
                    break
            else:
                raise SystemExit(f"{pod.name} has no baseline after {MOST_TRIES * LEARNED} windows")

    def end(self) -> None:
        """End all pods."""
        self.live.watched.close()
        for pod in self.pods:
            pod.end()


def main() -> None:
    """Print the alarms in so many minutes, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--window", type=float, default=1.0, help="seconds")
    parser.add_argument("--capacity", type=float, required=True, help="bytes per second of a memory domain")
    parser.add_argument("--without-pmu", action="store_true", help="judge by traffic")
    options = parser.parse_args()
    os.sched_setaffinity(0, {SAMPLER})
    Path("/sys/devices/virtual/workqueue/cpumask").write_text(KERNELS_CPUS, encoding="ascii")
    alarms: list[str] = []
    verdicts: Counter[str] = Counter()
    methods: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir="/run") as state, tempfile.TemporaryDirectory() as folder:
        context = Context(
            Settings({"stateDir": state, "monitoring": {"capacity": {"*": options.capacity}}}), Log(stderr=True)
        )
        context.ledger.prepare()
        store = Store(folder)
        store.load()
        live = Live(context, store, lambda _, text: print(text), perf=not options.without_pmu)
        node = Node(context, live, options.window)
        try:
            node.learn()
            slowed: set[str] = set()
            end = time.monotonic() + 60 * options.minutes
            while time.monotonic() < end:
                node.change(random.sample(node.pods, random.randint(len(CPUS) // 2, len(CPUS))))
                for _ in range(CHANGE):
                    for pod in node.sample():
                        found = live.present(pod.key, JUDGED).verdict
                        verdicts[found.verdict] += 1
                        methods[found.method] += 1
                        if found.verdict == "slowed" and pod.key not in slowed:
                            alarms.append(f"{pod.name}: {found.ratio}")
                        (slowed.add if found.verdict == "slowed" else slowed.discard)(pod.key)
        finally:
            node.end()
    minutes = verdicts.total() * options.window / 60
    print(json.dumps({"podMinutes": round(minutes, 1), "alarms": alarms, "verdicts": verdicts, "methods": methods}))


if __name__ == "__main__":
    main()
