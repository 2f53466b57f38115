"""The processor time of the slowdown part by window: no pod slowed, all of them, and all of them protected, too.

    PYTHONPATH=.:tests python tests/bench/slowdown_cost.py [PODS [MEMORY DOMAINS]]

All pods use all memory domains and all CPUs, which is the worst case. Counters and cgroups are files in a temporary
directory (put it on a tmpfs by TMPDIR), so the kernel's own time for its files is not included.
"""

import random
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hosts.counter_tree import say_paths
from hosts.monitored import plain_host

from resctrl_hooks.observe.node.resident import Moment
from resctrl_hooks.observe.node.sampler.process import collect_rarely
from resctrl_hooks.observe.node.slowdown import reader
from resctrl_hooks.observe.node.slowdown.baseline import Baseline
from resctrl_hooks.observe.node.slowdown.constants import TRAFFIC, WINDOW
from resctrl_hooks.observe.node.slowdown.resident import SlowdownResident, start
from resctrl_hooks.observe.node.slowdown.units import WallPart
from resctrl_hooks.observe.node.slowdown.use import Use
from resctrl_hooks.observe.node.snapshot.snapshot import open_files, take

WARM, WINDOWS = 60, 15
RATE = 1e8  # bytes per second of a pod to each memory domain
SIZES = [(32, 2), (128, 2), (250, 8), (500, 8)]


class Node:
    """A node whose pods use half a CPU each, and wait for three tenths of the time."""

    def __init__(self, folder: str, pods: int, domains: int, *, protected: bool = False) -> None:
        settings: dict[str, Any] = {
            "cgroupPath": f"{folder}/cgroup",
            "slowdown": {"enabled": True, "perf": False, "directory": f"{folder}/var"},
            "monitoring": {"capacity": {"*": 60e9}},
            "rdt": {"guard": {"protect": {"/": {"slowdown": 1.2}} if protected else {}}},
        }
        self._host = plain_host(Path(folder), "info/L3_MON", **settings)
        host = self._host.__enter__()
        (host.resctrl / "info/L3_MON/num_rmids").write_text("1024\n")
        self.context = host.context
        self._domains, self._random, self._seconds = domains, random.Random(1), 0.0
        self._pods: list[tuple[Path, Path, list[float]]] = []
        self._root = [0.0] * domains
        for number in range(pods):
            cgroup = Path(f"{self.context.settings.cgroup_path}/pod{number}")
            with self.context.monitor.hold(str(uuid.uuid4())) as locked:
                locked.record.update({"namespace": "shop", "pod": f"cart{number}-0", "cgroup": str(cgroup)})
                group = Path(locked.ensure_group("").path)
            cgroup.mkdir(parents=True)
            (cgroup / "cpuset.cpus.effective").write_text("0-255\n")
            (cgroup / "memory.events").write_text("low 0\nhigh 0\nmax 0\n")
            (cgroup / "memory.pressure").write_text("some avg10=0.00 total=0\nfull avg10=0.00 total=0\n")
            self._pods.append((group, cgroup, [0.0] * domains))
        self._write()
        part = start(self.context)
        assert part is not None
        self.part: SlowdownResident = part
        self._files = open_files()
        setattr(reader, "time", SimpleNamespace(monotonic=lambda: self._seconds))  # noqa: B010  # it is no export

    def _write(self) -> None:
        used, waited = int(self._seconds * 5e5), int(self._seconds * 3e5)
        for group, cgroup, moved in self._pods:
            self._say(group, moved)
            (cgroup / "cpu.stat").write_text(f"usage_usec {used}\nnr_throttled 0\nthrottled_usec 0\n")
            (cgroup / "cpu.pressure").write_text(
                f"some avg10=0.00 total={waited}\nfull avg10=0.00 total={waited // 2}\n"
            )
        self._say(Path(self.context.settings.resctrl_path), self._root)

    def _say(self, group: Path, moved: list[float]) -> None:
        values: dict[str, object] = {}
        for number, value in enumerate(moved):
            domain = f"mon_L3_{number:02}"
            values[f"{domain}/llc_occupancy"] = self._random.randrange(1 << 20)
            values[f"{domain}/mbm_total_bytes"] = values[f"{domain}/mbm_local_bytes"] = int(value)
        say_paths(group, values)

    def window(self) -> float:
        """Let a window pass; return the seconds of processor time of its sample."""
        self._seconds += WINDOW
        for _, _, moved in self._pods:
            for number in range(self._domains):
                more = RATE * WINDOW * self._random.uniform(0.5, 1.5)
                moved[number] += more
                self._root[number] += more
        self._write()
        before = time.process_time()
        self.part.sample(Moment(self._seconds, lambda: take(self.context, self._files)))
        return time.process_time() - before

    def slow(self, factor: float) -> None:
        """Give all workloads a baseline of which the pods' work costs a multiple."""
        price = 0.5 * WINDOW / (RATE * WINDOW * self._domains / 1e9)
        baseline, work = Baseline(), WINDOW * RATE * self._domains / 1e9
        for _ in range(60):
            baseline.learn(Use(TRAFFIC, price * work / factor, work, 0.5, {}, {}, stood=WallPart(0.15)), WINDOW)
        setattr(self.part._live.store, "find", lambda _: baseline)  # noqa: B010  # a method

    @property
    def slowed(self) -> int:
        """How many pods are slowed."""
        return sum(one.verdict.verdict == "slowed" for one in self.part._findings.values())

    def close(self) -> None:
        """End it."""
        self.part.close()
        self._host.__exit__(None, None, None)


def measure(pods: int, domains: int, factor: float, *, protected: bool) -> None:
    """Print a line for one size of node."""
    collect_rarely()  # as the resident process
    with tempfile.TemporaryDirectory() as folder:
        node = Node(folder, pods, domains, protected=protected)
        node.slow(factor)
        for _ in range(WARM):
            node.window()
        found = [node.window() for _ in range(WINDOWS)]
        middle = statistics.median(found)
        of_cpu = f"{middle / WINDOW:.2%} of one CPU"
        kind = " and protected" if protected else ""
        size = f"{pods} pods ({node.slowed} slowed{kind}), {domains} memory domains"
        print(f"{size}: {middle * 1e3:.0f} ms by window, {of_cpu}; most {max(found) * 1e3:.0f} ms", flush=True)
        node.close()


def main() -> None:
    """Print three lines for each size of node."""
    asked = [int(word) for word in sys.argv[1:]]
    for pods, domains in [(asked[0], asked[1] if len(asked) > 1 else 2)] if asked else SIZES:
        for factor, protected in ((1.0, False), (2.0, False), (2.0, True)):
            measure(pods, domains, factor, protected=protected)


if __name__ == "__main__":
    main()
