"""What the sampling process costs a node: its processor time and its memory, while pods wait for CPUs or do not.

    PYTHONPATH=.:tests python tests/lab/bench/sampler_cost.py [--pods 100] [--cpus 32] [--minutes 6]

The process is the node's own, with history and slowdown on. It reads files in a temporary directory (put it on a tmpfs
by TMPDIR) that change in time, so the kernel's own time for its counters is not included. After three minutes it has
all windows that it keeps. Four nodes run side by side: with and without RDT, and all pods wait or none does.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from random import Random
from typing import NamedTuple

from resctrl_hooks.core.node import launch
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.log import Log
from resctrl_hooks.core.node.settings import Settings

SERVICES, TASKS, DOMAINS = 50, 8, 2
STEP = 10.0  # seconds between two readings, which are at its multiples; the files change before each
AHEAD = 1.5
TICKS = os.sysconf("SC_CLK_TCK")
PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total={0}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={1}\n"
FLAGS = {True: "flags : fpu cqm_llc cat_l3 mba", False: "flags : fpu"}
MEMORY_STAT = "".join(f"{name} 4096000\n" for name in ("anon", "file", "kernel", "slab", "sock", "shmem", "file_dirty"))


class Used(NamedTuple):
    """A process so far: seconds of processor time, and KiB of memory by PSS and RSS."""

    seconds: float
    pss: int
    rss: int


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Node:
    """A node of files, with pods of eight tasks each, and services beside them."""

    def __init__(self, root: Path, pods: int, cpus: int, *, rdt: bool, waits: bool) -> None:
        self.root, self.cpus, self.rdt, self.waits = root, cpus, rdt, waits
        self.random, self.moved = Random(1), [0] * pods
        self.proc, cgroups, resctrl = root / "proc", root / "cgroup", root / "sys/fs/resctrl"
        write(self.proc / "filesystems", "nodev\tresctrl\n" if rdt else "nodev\tproc\n")
        write(self.proc / "cpuinfo", f"{FLAGS[rdt]}\n")
        for name in ("sys", "self", "mounts", "uptime"):
            (self.proc / name).symlink_to(f"/proc/{name}")
        if rdt:
            for name in ("mon_groups", "info/L3_MON"):
                (resctrl / name).mkdir(parents=True)
            write(resctrl / "info/L3_MON/num_rmids", "1024\n")
        paths = {"resctrlPath": resctrl, "stateDir": root / "state", "cgroupPath": cgroups, "procPath": self.proc}
        values = {
            "format": 1,
            **{name: str(path) for name, path in paths.items()},
            "runtimeRoots": {"none": str(root / "none")},
            "log": {"target": "file", "file": str(root / "log")},
            "monitoring": {"capacity": {"*": 9e10}},
            "history": {"enabled": True, "file": str(root / "history")},
            "slowdown": {"enabled": True, "perf": False, "directory": str(root / "var")},
        }
        write(root / "config.json", json.dumps(values))
        self.context = Context(Settings(values), Log({"target": "none"}))
        self.context.ledger.prepare()
        self.pods = [self._pod(number, cgroups / "kubepods.slice" / f"pod{number}") for number in range(pods)]
        self.services = [cgroups / "system.slice" / f"daemon{number}.service" for number in range(SERVICES)]
        self.update()

    def _pod(self, number: int, cgroup: Path) -> tuple[Path, Path | None]:
        """Record a pod; return its cgroup and its group."""
        names = {"namespace": f"team{number % 8}", "pod": f"cart{number}-0", "cgroup": str(cgroup)}
        with self.context.monitor.hold(str(uuid.uuid4())) as locked:
            locked.record.update(names)  # type: ignore[typeddict-item]  # by name
            locked.save()
            group = Path(locked.ensure_group("").path) if self.rdt else None
        first = 4_100_000 + number * TASKS
        for tid in range(first, first + TASKS):
            (self.proc / str(tid)).mkdir()
        write(cgroup / "cgroup.threads", "".join(f"{tid}\n" for tid in range(first, first + TASKS)))
        return cgroup, group

    def update(self) -> None:
        """Write all counters of now: each pod uses half a CPU, and waits for a third of the time, or not at all."""
        now = time.monotonic()
        for number, (cgroup, group) in enumerate(self.pods):
            self._use(cgroup, now, number)
            for tid in (cgroup / "cgroup.threads").read_text().split():
                ran, delay = now * 0.5e9 / TASKS, now * (0.5e9 if self.waits else 0) / TASKS
                write(self.proc / tid / "schedstat", f"{ran:.0f} {delay:.0f} 1000\n")
            self.moved[number] += int(self.random.uniform(0.9, 1.1) * 1e9)
            for domain in range(DOMAINS if group else 0):
                for name in ("mbm_total_bytes", "mbm_local_bytes", "llc_occupancy"):
                    value = 4 << 20 if name == "llc_occupancy" else self.moved[number]
                    write(Path(f"{group}/mon_data/mon_L3_{domain:02}/{name}"), f"{value}\n")
        for number, cgroup in enumerate(self.services):
            self._use(cgroup, now / 10, number)
        for domain in range(DOMAINS if self.rdt else 0):
            for name in ("mbm_total_bytes", "mbm_local_bytes", "llc_occupancy"):
                root = Path(self.context.settings.resctrl_path)
                write(root / f"mon_data/mon_L3_{domain:02}/{name}", f"{sum(self.moved)}\n")
        ticks = int(now * TICKS)
        each = "".join(f"cpu{cpu} {ticks} 0 {ticks // 9} {ticks // 9} 0 0 0 0 0 0\n" for cpu in range(self.cpus))
        write(self.proc / "stat", f"cpu {ticks * self.cpus} 0 0 {ticks} 0 0 0 0 0 0\n{each}")
        write(self.proc / "vmstat", "pgscan_direct 0\npgscan_kswapd 0\n")
        write(self.proc / "diskstats", f"8 0 sda {ticks} 0 {ticks} 0 0 0 0 0 0 {ticks} 0 0\n")

    def _use(self, cgroup: Path, now: float, number: int) -> None:
        used, waited = int(now * 5e5), int(now * 3e5) if self.waits else 0
        files = {
            "cpu.stat": f"usage_usec {used}\nuser_usec {used}\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
            "cpu.pressure": PRESSURE.format(waited, waited),
            "memory.pressure": PRESSURE.format(0, 0),
            "io.pressure": PRESSURE.format(0, 0),
            "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n",
            "memory.current": f"{4096 * (1000 + number)}\n",
            "memory.stat": MEMORY_STAT,
            "io.stat": f"8:0 rbytes={used} wbytes=0 rios={used >> 12} wios=0 dbytes=0 dios=0\n",
            "cpuset.cpus.effective": f"0-{self.cpus - 1}\n",
            "cpu.weight": "100\n",
            "cpu.max": "max 100000\n",
        }
        for name, text in files.items():
            write(cgroup / name, text)

    @contextmanager
    def process(self) -> Iterator[int]:
        """Yield the id of the running process."""
        words = ["/usr/bin/python3", "-I", "-S", "-B", launch.__file__, "--config", str(self.root / "config.json")]
        process = subprocess.Popen([*words, "guard", "run"], stdin=subprocess.DEVNULL)
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)

    def verdicts(self) -> str:
        """Return how many pods have which verdict."""
        pods = json.loads((self.root / "state/slowdown.json").read_text())["pods"].values()
        words = [pod["verdict"] for pod in pods]
        return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))


def used_by(pid: int) -> Used:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    sizes = dict(line.split()[:2] for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return Used((int(fields[11]) + int(fields[12])) / TICKS, int(sizes["Pss:"]), int(sizes["Rss:"]))


def run(nodes: list[Node], seconds: float) -> None:
    """Let the processes run; print what each used in the second half of the time."""
    with ExitStack() as stack:
        pids = [stack.enter_context(node.process()) for node in nodes]
        begin = time.monotonic()
        half: list[Used] = []
        while (past := time.monotonic() - begin) < seconds:
            if not half and past > seconds / 2:
                half, since = [used_by(pid) for pid in pids], time.monotonic()
            time.sleep(STEP - (time.monotonic() + AHEAD) % STEP)
            for node in nodes:
                node.update()
        length = time.monotonic() - since
        print(f"load average {os.getloadavg()[0]:.0f}\n\n| node | pods | verdicts | of one CPU | PSS MiB | RSS MiB |")
        print("|---|---|---|--:|--:|--:|")
        for node, pid, before in zip(nodes, pids, half, strict=True):
            now = used_by(pid)
            words = "with RDT" if node.rdt else "without RDT", "all wait" if node.waits else "none waits"
            part = (now.seconds - before.seconds) / length
            sizes = f"{now.pss / 1024:.1f} | {now.rss / 1024:.1f}"
            print(f"| {' | '.join(words)} | {node.verdicts()} | {part:.2%} | {sizes} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--cpus", type=int, default=32)
    parser.add_argument("--minutes", type=float, default=6.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kinds = product((True, False), repeat=2)
        nodes = [
            Node(Path(folder, f"{rdt}-{waits}"), options.pods, options.cpus, rdt=rdt, waits=waits)
            for rdt, waits in kinds
        ]
        run(nodes, options.minutes * 60)
        for node in nodes:
            sys.stdout.write((node.root / "log").read_text() if (node.root / "log").exists() else "")


if __name__ == "__main__":
    main()
