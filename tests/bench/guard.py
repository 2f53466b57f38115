"""Processor time of the bandwidth guard: one look at 16 memory domains and 16 RDT classes.

    python tests/bench/guard.py [--domains 16] [--classes 16] [--groups 8] [--looks 100] [--assignable]

resctrl is a tree of plain files on tmpfs, so the kernel's own time to read a counter is not in the figures.
"""

import argparse
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from host import TMPFS

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.guard.guard import Guard
from resctrl_hooks.node.log import Log
from resctrl_hooks.node.settings import Settings

GB = 1_000_000_000
PROTECTED = "class00"


class Tree:
    """A resctrl of plain files; `count` lets every class move the same."""

    def __init__(self, root: Path, options: argparse.Namespace) -> None:
        self.root = root
        self.domains = range(options.domains)
        self.classes = [f"class{number:02d}" for number in range(options.classes - 1)]  # and the root class
        self._bytes = 0
        names = [f"pod{number:02d}" for number in range(options.groups)]
        self.folders = [
            folder
            for name in ("", *self.classes)
            for folder in (root / name, *(root / name / "mon_groups" / group for group in names))
        ]
        for folder in self.folders:
            for domain in self.domains:
                (folder / f"mon_data/mon_L3_{domain:02d}").mkdir(parents=True)
            if options.assignable:
                of_all = ";".join(f"{domain}=e" for domain in self.domains)
                (folder / "mbm_L3_assignments").write_text(f"mbm_total_bytes:{of_all}\nmbm_local_bytes:{of_all}\n")
        for name in ("", *self.classes):
            (root / name / "mon_groups").mkdir(exist_ok=True)
            (root / name / "tasks").touch()
            (root / name / "schemata").write_text(f"MB:{';'.join(f'{domain}=100' for domain in self.domains)}\n")
        for name in ("info/MB", *(["info/L3_MON"] if options.assignable else [])):
            (root / name).mkdir(parents=True)
        for file, value in (("min_bandwidth", 10), ("bandwidth_gran", 10), ("thread_throttle_mode", "per-thread")):
            (root / "info/MB" / file).write_text(f"{value}\n")
        self.count(0)

    def count(self, amount: int) -> None:
        """Let each class and group move so many bytes in each domain."""
        self._bytes += amount
        for folder in self.folders:
            for domain in self.domains:
                for name in ("mbm_total_bytes", "mbm_local_bytes"):
                    (folder / f"mon_data/mon_L3_{domain:02d}" / name).write_text(f"{self._bytes}\n")


def measure(options: argparse.Namespace, rate: float) -> tuple[float, float]:
    """Return the milliseconds of processor time of a look, median and largest, at a load."""
    with tempfile.TemporaryDirectory(dir=TMPFS) as folder:
        root = Path(folder, "resctrl")
        tree = Tree(root, options)
        throttle = {name: {"floor": 20} for name in tree.classes if name != PROTECTED}
        values = {
            "format": 1,
            "resctrlPath": str(root),
            "stateDir": f"{folder}/state",
            "rdt": {"guard": {"mode": "observe", "protect": [PROTECTED], "throttle": throttle}},
            "monitoring": {"capacity": {"*": 100 * GB}},
        }
        context = Context(Settings(values), Log({"target": "none"}, stderr=False))
        context.ledger.prepare()
        guard = Guard(context, None, 1, 0.0)
        found = []
        for look in range(options.looks):
            tree.count(int(rate * 100 * GB / options.classes))
            before = time.process_time()
            guard.look(float(look))
            found.append((time.process_time() - before) * 1000)
        return statistics.median(found[1:]), max(found[1:])


def main() -> None:
    """Measure an idle and a full node."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domains", type=int, default=16)
    parser.add_argument("--classes", type=int, default=16)
    parser.add_argument("--groups", type=int, default=8, help="monitoring groups of each class")
    parser.add_argument("--looks", type=int, default=100)
    parser.add_argument("--assignable", action="store_true", help="counters are assigned (ABMC)")
    options = parser.parse_args()
    for what, rate in (("half load", 0.5), ("full", 0.95)):
        median, most = measure(options, rate)
        print(f"{what:10} {median:7.1f} ms a look, at most {most:7.1f} ms")
    print(f"memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB with this script")


if __name__ == "__main__":
    main()
