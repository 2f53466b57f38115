"""What a scrape of 500 pods costs, against reading the same files in a bare loop: interleaved, in one run.

    python tests/lab/bench/scrape.py [--count 25] [--groups 500]

The files are a plain tree on tmpfs, where reading costs least and all else weighs most. On a real resctrl the kernel
asks a CPU of the domain for each counter.
"""

import argparse
import statistics
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

from host import TMPFS
from prometheus_client.openmetrics.exposition import generate_latest
from reconcile import with_posix

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.log import Log
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.observe.metrics.collector import NodeCollector, registry_of
from resctrl_hooks.observe.metrics.former import with_former_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from resctrl_hooks.core.node.errors import HookError

BAR = 3.0
MOST_MEMORY = 8 << 20
"""Maximum allocation of a scrape of 500 pods, in bytes."""
COUNTERS = ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")
DOMAINS = ("mon_L3_00", "mon_L3_01")
OPEN = "bare loop: with open(path) as file: int(file.read())"
POSIX = "bare loop of system calls: open, read, close"
READ = "Monitor.read_all(), totals kept on disk"
SCRAPE = "a whole scrape, as OpenMetrics text"


def make_node(root: Path, groups: int) -> Context:
    """Return a node with so many pods of one group each."""
    resctrl = root / "resctrl"
    (resctrl / "mon_groups").mkdir(parents=True)
    context = Context(Settings({"resctrlPath": str(resctrl), "stateDir": str(root / "state")}), Log({"target": "none"}))
    folders = [resctrl]
    for number in range(groups):
        with context.monitor.hold(f"{number:08x}-8a3b-4f0e-9a55-1d9d3b7e6c01") as locked:
            locked.record.update({"namespace": "shop", "pod": f"web-{number}"})
            folders.append(Path(locked.ensure_group().path))
    for folder in folders:
        for domain in DOMAINS:
            (folder / "mon_data" / domain).mkdir(parents=True)
            for counter in COUNTERS:
                (folder / "mon_data" / domain / counter).write_text("123456789012\n")
    return context


def with_open(paths: list[str]) -> None:
    """Read the files as a simple program would."""
    for path in paths:
        with open(path) as file:
            int(file.read())


def main() -> int:
    """Print the table; exit code 1 if the bar isn't met."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=25)
    parser.add_argument("--groups", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=TMPFS) as root:
        context = make_node(Path(root), options.groups)
        groups = sorted((Path(root) / "resctrl" / "mon_groups").iterdir())
        paths = [
            f"{group}/mon_data/{domain}/{counter}" for group in groups for domain in DOMAINS for counter in COUNTERS
        ]
        problems: list[HookError] = []
        registry = registry_of(NodeCollector(context, problems.append))
        subjects: dict[str, Callable[[], object]] = {
            OPEN: lambda: with_open(paths),
            POSIX: lambda: with_posix(paths),
            READ: context.monitor.read_all,
            SCRAPE: lambda: with_former_names(generate_latest(registry)),  # type: ignore[no-untyped-call]  # it has no types
        }
        times: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(options.count):
            for name, subject in subjects.items():
                started = time.perf_counter()
                subject()
                times[name].append(time.perf_counter() - started)
        assert not problems, problems
        tracemalloc.start()
        subjects[SCRAPE]()
        memory = tracemalloc.get_traced_memory()[1]
        kept = (Path(root) / "state" / "totals" / "counters").stat().st_size
    medians = {name: statistics.median(found) for name, found in times.items()}
    print(f"{options.groups} groups, {len(paths)} files, medians of {options.count}")
    for name, median in medians.items():
        print(f"{median * 1e3:8.1f} ms  {median / medians[OPEN]:5.2f}  {median / medians[POSIX]:5.2f}  {name}")
    print("             of open, of system calls")
    print(f"peak memory of a scrape {memory / 1e6:.1f} MB, totals on disk {kept / 1e3:.0f} kB")
    met = {
        f"a scrape at most {BAR} times the bare loop with open(): {medians[SCRAPE] / medians[OPEN]:.2f}": (
            medians[SCRAPE] <= BAR * medians[OPEN]
        ),
        f"at most {MOST_MEMORY / 1e6:.1f} MB": memory <= MOST_MEMORY,
    }
    print("; ".join(f"{text} ({'met' if is_met else 'NOT MET'})" for text, is_met in met.items()))
    return int(not all(met.values()))


if __name__ == "__main__":
    sys.exit(main())
