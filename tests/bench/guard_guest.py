"""What the bandwidth guard does for a victim, in the guest whose memory bandwidth runs out: work per second by phase.

    python tests/vm run --cpus 8 --numa 2 --bandwidth 640 --core 320 -- python tests/bench/guard_guest.py
    python tests/vm run --amd 1 --cpus 8 --sockets 8 --numa 2 --bandwidth 1000 --core 500 --memory_cpus 4 \
        -- python tests/bench/guard_guest.py --capacity 1000

The first half of the processors has one memory: the victim runs on the first of them, the neighbours on the others, and
the guard outside. All figures are of an emulator: a model without caches, prefetchers and hyperthreads.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from kernel.bandwidth import NOISY, VICTIM, Worker, configure, guard, limits, status, workers
from kernel.groups import Resctrl
from kernel.installed import Installed, succeeds

ROOT = "/sys/fs/resctrl"
QUIET = 15.0
"""Seconds without a change after which the guard counts as settled."""


def line(phase: str, victim: Worker, neighbours: list[Worker], seconds: float) -> None:
    """Measure and print one phase."""
    before = [worker.rounds for worker in neighbours]
    begun = time.monotonic()
    rate = victim.rate(seconds)
    passed = time.monotonic() - begun
    others = [(worker.rounds - count) / passed for worker, count in zip(neighbours, before, strict=True)]
    print(f"{phase:32} victim {rate:8.1f}   neighbours {sum(others):8.1f}", flush=True)


def follow(resctrl: Resctrl, begun: float, most: float, end: list[int] | None = None) -> list[int]:
    """Print each change of the limits until they are as they shall be; without that, until nothing changes."""
    last, changed = limits(resctrl), time.monotonic()
    while last != end and time.monotonic() - begun < most and (end or time.monotonic() - changed < QUIET):
        time.sleep(0.1)
        now = limits(resctrl)
        if now != last:
            last, changed = now, time.monotonic()
            print(f"  {changed - begun:5.1f} s: {NOISY} MB {now}", flush=True)
    return last


def main() -> None:
    """Measure all phases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--capacity", type=int, default=640, help="MB/s, the boot's --bandwidth")
    parser.add_argument("--floor", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    options = parser.parse_args()
    os.environ["RESCTRL_ROOT"] = ROOT
    if not os.path.ismount(ROOT):
        subprocess.run(["mount", "-t", "resctrl", "resctrl", ROOT], check=True)
    resctrl = Resctrl(ROOT)
    resctrl.make(VICTIM)
    resctrl.make(NOISY)
    cpus = os.cpu_count() or 2
    os.sched_setaffinity(0, {cpus - 1})
    installed = Installed(tempfile.mkdtemp())
    declared = limits(resctrl)
    with workers(resctrl, VICTIM, range(1)) as (victim,):
        time.sleep(3)
        line("alone", victim, [], options.seconds)
        with workers(resctrl, NOISY, range(1, cpus // 2)) as neighbours:
            time.sleep(2)
            line("with neighbours", victim, neighbours, options.seconds)
            configure(installed, "observe", options.capacity, options.floor)
            with guard(installed, cpus - 2) as process:
                follow(resctrl, time.monotonic(), 20)
                line("observed", victim, neighbours, options.seconds)
            print(f"  {NOISY} MB {limits(resctrl)}, would have: {status(installed)['actions']}")
        configure(installed, "act", options.capacity, options.floor)
        with guard(installed, cpus - 2) as process:
            time.sleep(5)
            with workers(resctrl, NOISY, range(1, cpus // 2)) as neighbours:
                begun = time.monotonic()
                follow(resctrl, begun, 120)
                line("guarded", victim, neighbours, options.seconds)
                before = dict(status(installed)["actions"])
                line("guarded, later", victim, neighbours, 4 * options.seconds)
                print(f"  {NOISY} MB {limits(resctrl)}, actions {before}, then {status(installed)['actions']}")
                for words in (["top", "--once", "--by", "class", "--interval", "3s"], ["guard", "status"]):
                    print(succeeds("--config", installed.config, *words))
            begun = time.monotonic()
            follow(resctrl, begun, 300, declared)
            print(f"  released {time.monotonic() - begun:.1f} s after the neighbours ended")
            line("after the neighbours", victim, [], options.seconds)
        print(f"guard ended with {process.returncode}; MB {limits(resctrl)}; actions {status(installed)['actions']}")
    print("\n".join(text for text in installed.said().splitlines() if "guard" in text))


if __name__ == "__main__":
    main()
