"""The cost of counted cgroups: at context switches, beside ``perf stat --for-each-cgroup``, and for the sampler itself.

    PYTHONPATH=. python tests/bench/perf_switches.py

As root, with cgroup v2. Software events take the place of cycles, instructions, reference cycles and misses, because
virtual machines have none of these: the kernel's work for cgroups is the same, the processor's counters come on top.
All times are processor time, so other programs of the machine disturb them little.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from resctrl_hooks.node.slowdown import perf
from resctrl_hooks.node.slowdown.constants import SLOTS, WINDOW

SWITCHES, ROUNDS = 20_000, 7
NUMBERS = (8, 32)
CPUS, PODS = 16, 32
SOFTWARE = 1
EVENTS = {"cpu-clock": 0, "page-faults": 2, "context-switches": 3, "minor-faults": 5}
"""linux/perf_event.h"""


def use_software_events() -> None:
    """Let the reader count software events."""
    clock, faults, switches, minor = EVENTS.values()
    for name, value in (
        ("_HARDWARE", SOFTWARE),
        ("_NEEDED", (clock, faults)),
        ("_WANTED", (switches, minor)),
        ("_CYCLES", clock),
    ):
        setattr(perf, name, value)


@contextmanager
def cgroups(number: int) -> Iterator[list[Path]]:
    """Yield new cgroups."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    root = Path(next(words[1] for words in mounts if words[2] == "cgroup2"), f"bench{os.getpid()}")
    folders = [root / f"pod{one}" for one in range(number)]
    root.mkdir()
    try:
        for folder in folders:
            folder.mkdir()
        yield folders
    finally:
        for folder in (*(one for one in folders if one.exists()), root):
            for _ in range(100):
                try:
                    folder.rmdir()
                    break
                except OSError:  # its last process still ends
                    time.sleep(0.05)


@contextmanager
def watched(folders: list[Path]) -> Iterator[None]:
    """Count these cgroups as the slowdown part does."""
    with ExitStack() as parts:
        for folder in folders:
            parts.enter_context(closing(perf.PerfCounters([str(folder)])))
        yield


@contextmanager
def watched_by_perf(folders: list[Path]) -> Iterator[None]:
    """Count these cgroups with ``perf stat``."""
    names = ",".join(f"{folder.parent.name}/{folder.name}" for folder in folders)
    command = ["perf", "stat", "-a", "-e", ",".join(EVENTS), "--for-each-cgroup", names, "-o", "/dev/null"]
    with subprocess.Popen([*command, "sleep", "1000"], stderr=subprocess.PIPE) as process:
        time.sleep(2)
        if process.poll() is not None:
            raise SystemExit(f"perf stat fails: {process.stderr.read().decode() if process.stderr else ''}")
        yield
        process.terminate()


def switch_time(folders: list[Path]) -> float:
    """Return the processor time of a switch between two processes of two cgroups on one CPU, in microseconds."""
    there, back, result = os.pipe(), os.pipe(), os.pipe()
    pids = []
    for number, folder in enumerate(folders[:2]):
        pid = os.fork()
        if not pid:
            (folder / "cgroup.procs").write_text("0")
            os.sched_setaffinity(0, {0})
            begun = time.process_time()
            for _ in range(SWITCHES // 2):
                if number == 0:
                    os.write(there[1], b"x")
                    os.read(back[0], 1)
                else:
                    os.read(there[0], 1)
                    os.write(back[1], b"x")
            os.write(result[1], f"{time.process_time() - begun}\n".encode())
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    found = os.read(result[0], 1000).split()
    for fd in (*there, *back, *result):
        os.close(fd)
    return sum(map(float, found)) / SWITCHES * 1e6


def switches() -> None:
    """Print the time of a switch with and without watched cgroups, round by round in turns."""
    ways: dict[str, Callable[[list[Path]], object]] = {"resctrl-hooks": watched, "perf stat": watched_by_perf}
    found: dict[tuple[str, int], list[float]] = {}
    with cgroups(max(NUMBERS)) as folders:
        for _ in range(ROUNDS):
            found.setdefault(("nobody", 0), []).append(switch_time(folders))
            for name, way in ways.items():
                for number in NUMBERS:
                    with way(folders[:number]):  # type: ignore[attr-defined]
                        found.setdefault((name, number), []).append(switch_time(folders))
    print("| watched by | cgroups | processor time of a switch | quartiles |\n|---|--:|--:|--:|")
    for (name, number), times in found.items():
        low, middle, high = statistics.quantiles(times, n=4)
        print(f"| {name} | {number} | {middle:.2f} µs | {low:.2f} to {high:.2f} |")


def sampler() -> None:
    """Print the processor time of a window's opening, reading and closing, with the events of `PODS` on `CPUS`."""
    here = os.cpu_count() or 1
    watched_at_once = -(-PODS // SLOTS)
    print("\n| pods counted at once | CPUs | descriptors | a window of 10 s | of one CPU |\n|--:|--:|--:|--:|--:|")
    for pods in (watched_at_once, PODS):
        with cgroups(pods * CPUS // here) as folders:
            times = []
            for _ in range(ROUNDS):
                begun = time.process_time()
                counters = [perf.PerfCounters([str(folder)]) for folder in folders]
                for one in counters:
                    one.read()
                held = sum(one.descriptors for one in counters)
                for one in counters:
                    one.read()
                    one.close()
                times.append(time.process_time() - begun)
        middle = statistics.median(times)
        print(f"| {pods} | {CPUS} | {held} | {middle * 1e3:.1f} ms | {middle / WINDOW:.2%} |")


if __name__ == "__main__":
    use_software_events()
    if sys.argv[1:] != ["sampler"]:
        switches()
    sampler()
