"""What the exec watcher costs, and how soon after an exec a process is moved.

    sudo python tests/bench/exec_watch.py [--seconds 10] [--rates 10 100 1000] [--probes 300]
    sudo python tests/bench/exec_watch.py --soak 3600 --rates 20

The watcher is a whole process, as its unit starts it, and the kernel's process connector is this machine's. Records and
resctrl are plain files on tmpfs: a write to ``tasks`` costs less than the kernel's. Its one container's cgroup is that
of this script, so that the processes which it starts are those that enter the container.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from resctrl_hooks.node import launch
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.host.procfs import cgroups_of
from resctrl_hooks.node.settings import load
from resctrl_hooks.node.watch.containers import Containers
from resctrl_hooks.node.watch.listener import Listener
from resctrl_hooks.node.watch.move import GONE, MOVED, serve
from resctrl_hooks.node.watch.priority import become_ordinary, become_urgent

TMPFS = "/dev/shm"
KEY = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
CONTAINER = "c" * 64
SHORT, PROBE = "/bin/true", "100 ms"
PROBE_MS = 100.0


class Host:
    """A made-up host with one container: this script's cgroup, or with ``other`` one that has no process."""

    def __init__(self, root: Path, *, other: bool = False) -> None:
        (root / "resctrl/mon_groups" / KEY).mkdir(parents=True)
        (root / "resctrl/info").mkdir()
        for group in ("resctrl", f"resctrl/mon_groups/{KEY}"):
            (root / group / "tasks").touch()
        self.tasks = root / "resctrl/mon_groups" / KEY / "tasks"
        self.state = root / "state"
        self.config = root / "config.json"
        self.config.write_text(
            json.dumps(
                {
                    "format": 1,
                    "resctrlPath": str(root / "resctrl"),
                    "stateDir": str(self.state),
                    "runtimeRoots": {"none": str(root / "none")},
                    "log": {"target": "none"},
                }
            )
        )
        self.context = Context(load(str(self.config))[0])
        cgroup = cgroups_of("/proc", os.getpid())[0].folder(self.context.settings.cgroup_path)
        with self.context.monitor.hold(KEY) as locked:
            locked.ensure_group()
            step = {"feature": "monitoring", "action": "join", "needs": {"class": ""}, "why": ""}
            details = {"cgroup": "/nowhere" if other else cgroup, "steps": [step]}
            locked.add_member(CONTAINER, details, os.getpid())

    @property
    def watch(self) -> list[str]:
        """The watcher's command."""
        return ["/usr/bin/python3", "-I", "-S", launch.__file__, "--config", str(self.config), "watch"]

    def forget_tasks(self) -> None:
        """Empty the group's list, which in a plain file would have all that ever were in it."""
        os.truncate(self.tasks, 0)

    def figures(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.state / "exec.json").read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return found


class Process:
    """The watcher's process and its resource use."""

    def __init__(self, host: Host) -> None:
        self._process = subprocess.Popen(host.watch)
        while host.figures().get("mode") != "events":
            time.sleep(0.05)

    def seconds(self) -> float:
        """Processor time so far."""
        return int(Path(f"/proc/{self._process.pid}/schedstat").read_text().split()[0]) / 1e9

    def memory(self) -> tuple[int, int]:
        """Resident and private kilobytes."""
        lines = Path(f"/proc/{self._process.pid}/smaps_rollup").read_text().splitlines()[1:]
        values = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        return values["Rss"], values["Private_Dirty"] + values["Private_Clean"]

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def at_rate(rate: float, seconds: float, each: Callable[[], None] = lambda: None) -> int:
    """Start ``/bin/true`` at a rate; how many."""
    begun = time.monotonic()
    count = 0
    while (now := time.monotonic() - begun) < seconds:
        due = int(now * rate) + 1
        if count >= due:
            time.sleep(min(1 / rate, 0.05))
            continue
        os.waitpid(os.posix_spawn(SHORT, [SHORT], {}), 0)
        count += 1
        each()
    return count


def measure_rates(rates: list[float], seconds: float, *, other: bool) -> list[str]:
    """Return a row for each rate."""
    rows = []
    for rate in rates:
        with tempfile.TemporaryDirectory(dir=TMPFS) as folder:
            host = Host(Path(folder), other=other)
            process = Process(host)
            time.sleep(6)  # so that its figures of the beginning are written
            before, begun, told = process.seconds(), time.monotonic(), host.figures()
            count = at_rate(rate, seconds, host.forget_tasks)
            took = time.monotonic() - begun
            used = process.seconds() - before
            time.sleep(6)
            after = host.figures()
            rss, private = process.memory()
            process.stop()
        events = after["events"] - told["events"]
        what = "ignored" if other else "moved"
        rows.append(
            f"| {what} | {rate:g} | {count / took:.0f} | {events} | {after['moved'] - told['moved']} "
            f"| {100 * used / took:.2f} | {1e6 * used / max(events, 1):.0f} | {rss / 1024:.1f} | {private / 1024:.1f} "
            f"| {after['overruns']} | {after['degraded']} |"
        )
        print(rows[-1], flush=True)
    return rows


def measure_latency(probes: int, *, urgent: bool) -> None:
    """How long after its exec a process is moved, and whether it still runs then."""
    with tempfile.TemporaryDirectory(dir=TMPFS) as folder:
        host = Host(Path(folder))
        driver = "import os,sys,time\nfor _ in range(int(sys.argv[1])):\n"
        driver += "    os.waitpid(os.posix_spawn('/bin/true', ['/bin/true'], {}), 0); time.sleep(0.02)\n"
        listener = Listener()
        stamps: list[int] = []
        receive = listener._socket.recv

        class Stamping:
            def recv(self, size: int) -> bytes:
                data = receive(size)
                stamps.append(int.from_bytes(data[44:52], sys.byteorder))  # proc_event.timestamp_ns
                return data

            def close(self) -> None:
                pass

        listener._socket = Stamping()  # type: ignore[assignment]
        resctrl, move = host.context.monitor.resctrl, host.context.monitor.resctrl.add_tasks
        at: dict[int, tuple[int, int]] = {}

        def add_tasks(rdt_class: str, name: str, tids: list[int], pid: int = 0) -> None:
            move(rdt_class, name, tids, pid)
            at.setdefault(tids[0], (time.monotonic_ns(), parent_of(tids[0])))

        resctrl.add_tasks = add_tasks  # type: ignore[method-assign]
        containers = Containers(host.context.ledger)
        latencies, gone, still = [], 0, 0
        if urgent:
            become_urgent()  # the driver takes its children's ordinary priority
        with subprocess.Popen([sys.executable, "-c", driver, str(probes)]) as child:
            while child.poll() is None:
                del stamps[:]
                host.forget_tasks()
                for pid, stamp in zip(listener.wait(0.5), stamps, strict=False):
                    parent = parent_of(pid)
                    outcome = serve(host.context, containers, pid)
                    if outcome.what == GONE:
                        gone += 1
                    elif outcome.what == MOVED and parent in (child.pid, 0):
                        when, still_child_of = at.get(pid, (time.monotonic_ns(), 0))
                        latencies.append((when - stamp) / 1e6)
                        still += still_child_of == child.pid
        become_ordinary()
        print("with the lowest realtime priority:" if urgent else "as an ordinary process:")
        latencies.sort()
        count = len(latencies)
        shares = [max(0.0, 1 - one / PROBE_MS) for one in latencies]
        centiles = ", ".join(f"p{part} {latencies[min(count - 1, count * part // 100)]:.2f}" for part in (50, 90, 99))
        print(f"exec to moved, ms: {centiles}, of {count}")
        print(f"/bin/true: {count} of {count + gone} served before they ended, {still} still ran after the move")
        print(f"a probe of {PROBE}: {100 * statistics.mean(shares):.2f} % of its time after the move on average, "
              f"{100 * min(shares):.2f} % at least")  # fmt: skip


def parent_of(pid: int) -> int:
    """Return a process's parent; 0 for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if fields[0] in "ZX" else int(fields[1])


def soak(rate: float, seconds: float) -> None:
    """Memory, descriptors and figures at the beginning and ten times more."""
    with tempfile.TemporaryDirectory(dir=TMPFS) as folder:
        host = Host(Path(folder))
        process = Process(host)
        print("| s | execs started | events | moved | RSS MiB | private MiB | descriptors | processor s |")
        print("|--:|--:|--:|--:|--:|--:|--:|--:|")
        total = 0
        time.sleep(6)  # so that its figures of the beginning are written
        for part in range(11):
            total += at_rate(rate, seconds / 10, host.forget_tasks) if part else 0
            told, (rss, private) = host.figures(), process.memory()
            print(
                f"| {seconds / 10 * part:.0f} | {total} | {told['events']} | {told['moved']} | {rss / 1024:.2f} "
                f"| {private / 1024:.2f} | {process.descriptors()} | {process.seconds():.1f} |",
                flush=True,
            )
        process.stop()
        print(json.dumps(host.figures()))
        print("records:", sum(1 for _ in host.state.rglob("*")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rates", type=float, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--probes", type=int, default=300)
    parser.add_argument("--soak", type=float, default=0, help="seconds at the first rate, instead of the rest")
    given = parser.parse_args()
    assert shutil.which("true")
    if given.soak:
        soak(given.rates[0], given.soak)
        return
    for urgent in (False, True):
        measure_latency(given.probes, urgent=urgent)
    print("| processes | asked/s | started/s | events | moved | processor % | us per event | RSS MiB | private MiB "
          "| overruns | degraded |")  # fmt: skip
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for other in (True, False):
        measure_rates(given.rates, given.seconds, other=other)


if __name__ == "__main__":
    main()
