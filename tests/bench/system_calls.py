"""How many system calls a look at the counters and a pass of reconcile take for each group, counted by strace.

    python tests/bench/system_calls.py [--groups 50 100 200]

The files are plain trees on tmpfs, with two L3 domains of three counters each, as `scrape.py` and `reconcile.py` make
them. Each subject runs in a process of its own, with one pass and with three more: the difference is the passes alone.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import reconcile as reconcile_bench
from prometheus_client.openmetrics.exposition import generate_latest
from scrape import TMPFS, make_node

from resctrl_hooks.inventory.snapshot import open_files, take
from resctrl_hooks.inventory.usage import Users, usage
from resctrl_hooks.metrics.collector import NodeCollector, registry_of
from resctrl_hooks.recording.sampler import Sampler

BAR = 15
MORE = 3
SUBJECTS = ("metrics", "top", "record", "reconcile")
_CALLS = re.compile(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?(\w+)$", re.MULTILINE)


def subject_of(name: str, root: Path, groups: int) -> Callable[[], object]:
    """One pass of a subject, over so many groups."""
    if name == "reconcile":
        reconcile_bench.PER_POD = 1
        return reconcile_bench.Host(root, groups).reconcile
    context = make_node(root, groups)
    if name == "metrics":
        registry = registry_of(NodeCollector(context, lambda error: sys.exit(str(error))))
        return lambda: generate_latest(registry)  # type: ignore[no-untyped-call]  # it has no types
    if name == "record":
        return Sampler(context).look
    users = Users(context)
    files = open_files()
    looks = [take(context, files)]

    def top() -> None:
        looks.append(take(context, files))
        usage(looks[-2], looks[-1], users)

    return top


def run(name: str, root: Path, groups: int, passes: int) -> None:
    """Run the measured process."""
    subject = subject_of(name, root, groups)
    for _ in range(passes):
        subject()


def counted(name: str, groups: int, passes: int) -> dict[str, int]:
    """Return the system calls of a process with so many passes, by name."""
    with tempfile.TemporaryDirectory(dir=TMPFS) as folder:
        output = Path(folder) / "strace"
        words = ["--child", name, folder, str(groups), str(passes)]
        subprocess.run(["strace", "-f", "-c", "-o", str(output), sys.executable, __file__, *words], check=True)
        return {call: int(number) for number, call in _CALLS.findall(output.read_text()) if call != "total"}


def main() -> int:
    """Print the table; exit code 1 if the bar isn't met."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--subjects", nargs="+", default=SUBJECTS)
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, root, groups, passes = options.child
        run(name, Path(root), int(groups), int(passes))
        return 0
    met = True
    print("| a look, or a pass, with | " + " | ".join(f"{groups} groups" for groups in options.groups) + " | |")
    print("|---|" + "--:|" * len(options.groups) + "---|")
    for name in options.subjects:
        cells, last = [], ""
        for groups in options.groups:
            once, more = (counted(name, groups, passes) for passes in (2, 2 + MORE))
            calls = {call: (number - once.get(call, 0)) / MORE / groups for call, number in more.items()}
            each = sum(calls.values())
            met = met and each <= BAR
            cells.append(f"{each:.1f}")
            last = ", ".join(f"{call} {number:.1f}" for call, number in sorted(calls.items()) if number >= 0.5)
        print(f"| {name} | {' | '.join(cells)} | {last} |", flush=True)
    print(f"at most {BAR} for each group: {'met' if met else 'NOT MET'}")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
