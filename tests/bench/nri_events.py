"""What the NRI plugin costs: processor time and time of its events, and memory, against a bare interpreter's start.

    python tests/bench/nri_events.py [--count 200]

The node half is installed on a made-up host on tmpfs, resctrl is a plain tree there, and the runtime is a fake one
that speaks NRI as containerd does. Processor time is that of the plugin with all of its children, without its own
start. What an event costs beside a real containerd is measured in the guest (docs/nri.md).
"""

import argparse
import os
import posix
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from host import TMPFS, Host, bare
from nri.fake_runtime import FakeRuntime, Peer

UID = "3f0ac7f2-8a3b-4f0e-9a55-000000000001"
POD = {"id": "s" * 64, "name": "web-0", "uid": UID, "namespace": "shop"}
LIFE, NOBODYS = ("StartContainer", "StopContainer"), ("PostStartContainer",)
MOST_MEMORY = 30 * 1024


class Cost(NamedTuple):
    """A plugin's life: all of its processor time in seconds, the seconds of each event, its memory in kB."""

    cpu: float
    events: list[float]
    resident: int
    own: int


def served(host: Host, events: tuple[str, ...], count: int) -> Cost:
    """A plugin that serves so many rounds of events."""
    command = host.hook_without_guard()
    runtime = FakeRuntime(str(host.root / "nri.sock"))
    shutil.rmtree(host.root / "state", ignore_errors=True)
    waiting = subprocess.Popen(["sleep", "600"])
    pid = os.posix_spawn(command[0], [*command[:-1], "nri", "--socket", runtime.path], {"INVOCATION_ID": "1"})
    peer = runtime.accept()
    peer.greet()
    peer.event("RemoveContainer", POD, {"id": "w" * 64})  # once, for what is only there after a first event
    took = [_round(peer, event, waiting.pid) for _ in range(count) for event in events]
    host.read_journal()
    memory = _memory(pid)
    os.kill(pid, 15)
    _, status, usage = os.wait4(pid, 0)
    assert not status
    waiting.kill()
    waiting.wait()
    runtime.close()
    return Cost(usage.ru_utime + usage.ru_stime, took, *memory)


def _round(peer: Peer, event: str, pid: int) -> float:
    container: dict[str, Any] = {"id": "c" * 64, "pod_sandbox_id": POD["id"], "name": "c0", "pid": pid}
    begun = time.perf_counter()
    answer = peer.event(event, POD, container)
    took = time.perf_counter() - begun
    assert answer == (0, "", b""), answer
    return took


def _memory(pid: int) -> tuple[int, int]:
    """Resident memory, and what of it no other process shares, in kB."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    size = {name: int(value.split()[0]) for name, value in lines.items()}
    return size["Rss"], size["Private_Clean"] + size["Private_Dirty"]


def main() -> int:
    """Measures and prints; 1 if more than the goal's 30 MB of memory are resident."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="rounds of events")
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory(dir=TMPFS) as folder:
        host = Host(Path(folder))
        empty = Path(folder) / "empty"
        empty.touch()
        call = bare(host.hook_without_guard()[0], empty)
        interpreter = statistics.median(call.seconds()[1] for _ in range(30))
        idle = served(host, (), 0)
        print(f"a bare interpreter's start takes {interpreter * 1000:.1f} ms of processor time\n")
        print("| | ms | processor time, ms | against a bare interpreter's start |\n|---|--:|--:|--:|")
        for name, events in (("a container's start and stop", LIFE), ("an event for which nothing is done", NOBODYS)):
            cost = served(host, events, count)
            cpu = (cost.cpu - idle.cpu) / count
            middle = statistics.median(map(sum, zip(*[iter(cost.events)] * len(events), strict=True)))
            print(f"| {name} | {middle * 1000:.2f} | {cpu * 1000:.2f} | {cpu / interpreter:.2f} |")
            if events is LIFE:
                memory = cost
        print(f"\nresident: {memory.resident / 1024:.1f} MiB, of which {memory.own / 1024:.1f} MiB are its own")
    print(f"Linux {os.uname().release}, {os.cpu_count()} CPUs, load average {posix.getloadavg()[0]:.1f}")
    return int(memory.resident > MOST_MEMORY)


if __name__ == "__main__":
    sys.exit(main())
