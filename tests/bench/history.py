"""The history: cost of a sample beside atop's, and answers from a file of many rows.

    python tests/bench/history.py cost [--samples 60]       # as root; atop on the path
    python tests/bench/history.py answers [--rows 10000000]

resctrl is a tree of plain files on tmpfs, so the time of the kernel to read a counter is not in the figures. atop runs
in a PID namespace with one process per pod: a real pod has more, and atop's cost grows with them. Both are measured
idle, with processes that sleep, and moving: every counter of every pod, and processes that work and allocate a random
amount between two samples.
"""

import argparse
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from host import TMPFS
from hosts.monitored import MonitoredHost, plain_host

from resctrl_hooks.node.history.part import start
from resctrl_hooks.node.history.place import claim
from resctrl_hooks.node.history.rows import Sampler
from resctrl_hooks.node.history.sample import Sample
from resctrl_hooks.node.history.store import Store
from resctrl_hooks.node.history.writer import HistoryPart
from resctrl_hooks.node.part import Moment
from resctrl_hooks.node.snapshot.snapshot import open_files, take

DOMAINS = 2
SIZES = (20, 100, 250)


class Pods:
    """A node of pods whose counters move when they are told to."""

    def __init__(self, host: MonitoredHost, number: int) -> None:
        self.host = host
        self._chance = random.Random(43)
        self._folders = [Path(host.resctrl)]
        for place in range(number):
            key = f"{place:08x}-8a3b-4f0e-9a55-1d9d3b7e6c01"
            with host.context.monitor.hold(key) as locked:
                locked.record.update({"namespace": "shop", "pod": f"web-{place}-{self._chance.randbytes(4).hex()}"})
                self._folders.append(Path(locked.ensure_group("").path))
        self._totals = [0] * (number * DOMAINS)
        self.move()

    def move(self) -> None:
        """Let each pod move up to 1 GB in each L3 domain, and the root class their sum."""
        places = iter(range(len(self._totals)))
        for folder in self._folders[1:]:
            for domain in range(DOMAINS):
                place = next(places)
                self._totals[place] += self._chance.randrange(1_000_000_000)
                self._say(folder, domain, self._totals[place], self._chance.randrange(1 << 25))
        for domain in range(DOMAINS):
            self._say(self._folders[0], domain, sum(self._totals[domain::DOMAINS]) + 10_000_000, 1 << 29)

    def _say(self, folder: Path, domain: int, total: int, occupancy: int) -> None:
        of = folder / f"mon_data/mon_L3_{domain:02d}"
        of.mkdir(parents=True, exist_ok=True)
        for name, value in (("llc_occupancy", occupancy), ("mbm_total_bytes", total), ("mbm_local_bytes", total // 2)):
            (of / name).write_text(f"{value}\n")


@contextmanager
def node(number: int) -> Iterator[tuple[Pods, Path]]:
    """Yield a node of so many pods, and the path of its history."""
    with tempfile.TemporaryDirectory(dir=TMPFS) as folder, plain_host(Path(folder), "info") as host:
        yield Pods(host, number), Path(folder) / "var/history.sqlite"


def cost(samples: int) -> None:
    """Print processor time and bytes of a sample, of the history and of atop."""
    print("| pods | history: ms | bytes, all move | idle | atop: ms, idle | bytes, all move | idle |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for number in SIZES:
        ours, our_bytes = history_cost(number, samples * 10)  # many: the empty file counts too
        idle_bytes = history_cost(number, samples * 10, idle=True)[1]
        theirs, their_idle_bytes = atop_cost(number, samples)
        their_bytes = atop_cost(number, samples, idle=False)[1]
        figures = ours * 1000, our_bytes, idle_bytes, theirs * 1000, their_bytes, their_idle_bytes
        print(f"| {number} | {' | '.join(f'{one:.1f}' for one in figures)} |", flush=True)


def history_cost(number: int, samples: int, *, idle: bool = False) -> tuple[float, float]:
    """Return the median processor seconds of a sample, and its bytes."""
    with node(number) as (pods, path):
        pods.host.context.settings.history = {"enabled": True, "file": str(path)}
        part, files = start(pods.host.context), open_files()
        assert isinstance(part, HistoryPart)
        times = []
        for _ in range(samples):
            if not idle:
                pods.move()
            before = time.process_time()
            part.sample(Moment(0.0, lambda: take(pods.host.context, files)))
            while part.disk.waiting:
                time.sleep(0.001)
            times.append(time.process_time() - before)
        part.close()
        return statistics.median(times), path.stat().st_size / samples


def atop_cost(number: int, samples: int, *, idle: bool = True) -> tuple[float, float]:
    """Return atop's processor seconds and bytes of a sample, with a process per pod, less those of its start.

    Unless they are idle, the seconds contain the processes' own.
    """
    with tempfile.TemporaryDirectory() as folder:
        few, many = (_atop(Path(folder) / str(count), number, count, idle=idle) for count in (2, samples + 2))
    return (many[0] - few[0]) / samples, (many[1] - few[1]) / samples


WORKERS = """
import os, random, time
for _ in range({number}):
    if os.fork() == 0:
        held = []
        while True:
            time.sleep(random.uniform(0.5, 1))
            end = time.monotonic() + random.uniform(0, 0.004)
            held = [bytes(random.randrange(1 << 18))]
            while time.monotonic() < end:
                pass
os.execvp("atop", ["atop", "-w", "{file}", "1", "{count}"])
"""
"""Processes that work for up to 4 ms and hold up to 256 KiB between two samples, and atop beside them."""


def _atop(file: Path, number: int, count: int, *, idle: bool) -> tuple[float, int]:
    """Run atop for so many samples beside such processes; return the processor time of all, and its file's size."""
    words = ["sh", "-c", f"for one in $(seq {number}); do sleep 10000 & done; atop -w {file} 1 {count}"]
    if not idle:
        words = [sys.executable, "-c", WORKERS.format(number=number, file=file, count=count)]
    before = _used()
    subprocess.run(["unshare", "-pf", "--mount-proc", *words], check=True, capture_output=True)
    return _used() - before, file.stat().st_size


def _used() -> float:
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


def answers(rows: int) -> None:
    """Print how long `top --at` and `report --since` take with a file of so many rows."""
    with tempfile.TemporaryDirectory() as folder, node(SIZES[-1]) as (pods, _):
        path = Path(folder) / "history.sqlite"
        claim(str(path))
        store, sampler = Store(str(path), write=True), Sampler(pods.host.context)
        store._file.execute("PRAGMA synchronous = OFF")  # the file is made faster than it would grow
        each = len(sampler.sample())
        number = rows // each
        first = int(time.time()) - number * 10
        begin = time.process_time()
        made = [_values(pods, sampler) for _ in range(50)]
        for place in range(number):
            when = first + place * 10
            store.add(Sample(when * 1000, 1000.0 + place * 10, "b", "node", made[place % 50]))
        store.close()
        size = path.stat().st_size
        print(f"{number} samples of {each} rows, {number * each} rows, {size / (1 << 20):.0f} MiB")
        print(f"{(time.process_time() - begin) / number * 1000:.1f} ms of processor time each to encode and add")
        pods.host.configure(history={"enabled": True, "file": str(path)})
        middle = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(first + number * 5 + 3))
        hour = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(first + number * 5 + 3600))
        page = Path(folder) / "page.html"
        for words in (
            ["--version"],
            ["top", "--at", middle],
            ["report", "--since", middle, "--until", hour, "-o", page],
        ):
            times = []
            for _ in range(5):
                before = time.monotonic()
                subprocess.run(pods.host.command(*words), check=True, capture_output=True)
                times.append(time.monotonic() - before)
            print(f"{words[0]}: {statistics.median(times):.2f} s")


def _values(pods: Pods, sampler: Sampler) -> list[dict[str, str | float | None]]:
    pods.move()
    return [dict(row) for row in sampler.sample()]


def main() -> None:
    """Run one of the two measurements."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("cost", "answers"))
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--rows", type=int, default=10_000_000)
    given = parser.parse_args()
    if given.what == "answers":
        answers(given.rows)
        return
    if os.geteuid() or not shutil.which("atop"):
        sys.exit("run as root, with atop on the path")
    cost(given.samples)


if __name__ == "__main__":
    main()
