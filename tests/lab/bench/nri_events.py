"""What the NRI plugin costs: time of its events, processor time, and memory, compared with other plugins if present.

    python tests/lab/bench/nri_events.py [--count 50] [--no-op PATH] [--resctrl-mon PATH]

The node half is installed on a made-up host on tmpfs, resctrl is a plain tree there, and the runtime is a fake one that
speaks NRI as containerd does: it sends messages as containerd 2.1.9 wrote them, one after the other, and only those to
which a plugin subscribes. ``--no-op`` is NRI's template plugin, ``--resctrl-mon`` that of nri-plugins, both built from
their sources; they meet the same runtime in the same run. When StartContainer is answered, the pod's group must exist
with the process in it, except with the no-op. Processor time is that of the plugin with all of its children, without
its own start. Times are the least of all lives, memory is that after the last one.
"""

import argparse
import fcntl
import os
import posix
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from host import TMPFS, Host
from nri.node.fake_runtime import FakeRuntime, Peer
from nri.node.sessions import CONTAINERD, session

from resctrl_hooks.nri.node.event import EVENTS
from resctrl_hooks.nri.node.protobuf import encode

LIFE = (
    "RunPodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer",
    "StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox",
)  # fmt: skip
POD_EVENTS = ("RunPodSandbox", "StopPodSandbox", "RemovePodSandbox")
IN_A_ROW = 50
MOST_MEMORY = 30 * 1024
REGISTERED = 2
"""Seconds within which a plugin completes the work after its registration."""


class Cost(NamedTuple):
    """Of a plugin: least seconds of each event and of a life, processor time of one, seconds of `IN_A_ROW`, kB."""

    events: dict[str, float]
    life: float
    cpu: float
    row: float
    rss: int
    pss: int


class Running(NamedTuple):
    """A plugin's process, the runtime's end of its connection, and whether it monitors pods."""

    pid: int
    peer: Peer
    monitors: bool = True


@contextmanager
def ours(host: Host) -> Iterator[Running]:
    """This project's plugin, as its unit starts it: without a hook's limits of time."""
    python, *_, launch, option, config, _ = host.hook_without_guard()
    runtime = FakeRuntime(str(host.root / "nri.sock"))
    words = [python, "-I", "-S", "-B", launch, option, config, "nri", "--socket", runtime.path]
    yield Running(os.posix_spawn(python, words, {"INVOCATION_ID": "1"}), runtime.accept())
    runtime.close()


@contextmanager
def built(program: str, *arguments: str, monitors: bool = True) -> Iterator[Running]:
    """A plugin in Go, connected as a runtime does that starts it itself."""
    mine, its = socket.socketpair()
    fcntl.fcntl(its.fileno(), fcntl.F_SETFD, 0)  # the program inherits it
    quiet = os.open(os.devnull, os.O_WRONLY)
    environment = {"NRI_PLUGIN_SOCKET": str(its.fileno()), "NRI_PLUGIN_NAME": "plugin", "NRI_PLUGIN_IDX": "10"}
    actions = [(os.POSIX_SPAWN_DUP2, quiet, 1), (os.POSIX_SPAWN_DUP2, quiet, 2)]
    pid = os.posix_spawn(program, [program, *arguments], environment, file_actions=actions)
    its.close()
    os.close(quiet)
    yield Running(pid, Peer(mine), monitors)
    mine.close()


class Messages:
    """Payloads as containerd wrote them, for pods and containers of a number; a later field replaces an earlier."""

    def __init__(self) -> None:
        sent = {str(one.said["message"].get("event")): one for one in session(CONTAINERD) if _is_state_change(one.said)}
        self._pod = _without_event(sent["RUN_POD_SANDBOX"].data)
        self._container = _without_event(sent["START_CONTAINER"].data)

    def payload(self, event: str, number: int, pid: int) -> bytes:
        """Return the payload of an event of container `number`, alone in its pod."""
        pod = {"id": f"{number:064x}", "uid": uid(number)}
        if event in POD_EVENTS:
            return self._pod + encode("PodEvent", {"pod": pod})
        container = {"id": f"{number:063x}c", "pod_sandbox_id": pod["id"], "pid": 0 if "Create" in event else pid}
        return self._container + encode("ContainerEvent", {"pod": pod, "container": container})


def _is_state_change(said: dict[str, object]) -> bool:
    return said["method"] == "StateChange" and said["type"] != "response" and "message" in said


def _without_event(message: bytes) -> bytes:
    """Return the fields of a StateChange's payload but for the event's number, numbered as in the calls of NRI 0.12."""
    at = message.index(b"StateChange") + len("StateChange") + 1
    payload = memoryview(message)[at:]
    size, start = _varint(payload, 0)
    payload = payload[start : start + size]
    _, at = _varint(payload, 1)  # the event
    found = b""
    while at < len(payload):
        number = payload[at] >> 3
        size, start = _varint(payload, at + 1)
        found += bytes((((number - 1) << 3) | 2,)) + bytes(payload[at + 1 : start + size])
        at = start + size
    return found


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def uid(number: int) -> str:
    """Return the UID of a pod."""
    return f"3f0ac7f2-8a3b-4f0e-9a55-{number:012x}"


def measured(host: Host, plugin: Running, count: int) -> Cost:
    """Run lives with a plugin, one after the other, then start in a row."""
    messages = Messages()
    events = subscribed(plugin.peer)
    with waiting(host) as pid:
        lives = [life(host, plugin, messages, events, number, pid) for number in range(3)]
        before = used(plugin.pid)
        lives = [life(host, plugin, messages, events, 100 + number, pid) for number in range(count)]
        cpu = (used(plugin.pid) - before) / count
        row = 0.0
        for number in range(IN_A_ROW):
            for event in [name for name in LIFE[:5] if name in events]:
                row += timed(host, plugin, messages, event, 1000 + number, pid, pause=0)
        time.sleep(0.2)  # processes of the last events end
        memory = [memory_of(one) for one in (plugin.pid, *children(plugin.pid))]
    os.kill(plugin.pid, 15)
    os.waitpid(plugin.pid, 0)
    least = {event: min(one[event] for one in lives) for event in events}
    middle = min(sum(one.values()) for one in lives)
    return Cost(least, middle, cpu, row, sum(rss for rss, _ in memory), sum(pss for _, pss in memory))


def subscribed(peer: Peer) -> list[str]:
    """Greet a plugin; the events that it wants, in the order of a life."""
    peer.take_registration()
    mask = peer.configure().get("events", 0) or 0x7FF
    assert peer.ask("Synchronize")[0] == 0
    time.sleep(REGISTERED)
    return [event for event in LIFE if mask >> EVENTS.index(event) - 1 & 1]


@contextmanager
def waiting(host: Host) -> Iterator[int]:
    """A process that waits to be started; of its entry in the made-up /proc only the cgroup is not the real one."""
    process = subprocess.Popen(["sleep", "6000"])
    entry = host.root / "proc" / str(process.pid)
    entry.mkdir(parents=True)
    (host.root / "proc/sys").symlink_to("/proc/sys")
    for name in ("stat", "task"):
        (entry / name).symlink_to(f"/proc/{process.pid}/{name}")
    yield process.pid
    shutil.rmtree(host.root / "proc")
    process.kill()
    process.wait()


def life(host: Host, plugin: Running, messages: Messages, events: list[str], number: int, pid: int) -> dict[str, float]:
    """Return the seconds of each event of a container alone in its pod."""
    return {event: timed(host, plugin, messages, event, number, pid) for event in events}


def timed(
    host: Host, plugin: Running, messages: Messages, event: str, number: int, pid: int, *, pause: float = 0.002
) -> float:
    """Send an event; seconds until its answer, which must not come before the work of a start."""
    tasks = host.resctrl / "mon_groups" / uid(number) / "tasks"
    if event == "RemovePodSandbox" and tasks.exists():
        tasks.unlink()  # which the kernel does with the group
    if event == "StartContainer":
        cgroup = f"kubepods/burstable/pod{uid(number)}/{number:063x}c"
        (host.root / "cgroup" / cgroup).mkdir(parents=True, exist_ok=True)
        (host.root / "proc" / str(pid) / "cgroup").write_text(f"0::/{cgroup}\n")
    payload = messages.payload(event, number, pid)
    begun = time.perf_counter()
    code, words, _ = plugin.peer.ask(event, payload)
    took = time.perf_counter() - begun
    assert not code, words
    if event == "StartContainer" and plugin.monitors:
        assert tasks.read_text().split() == [str(pid)], f"the process is not in {tasks}"
    if event == "PostCreateContainer" and tasks.parent.exists():
        tasks.touch()  # which the kernel does with the group
    host.read_journal()
    time.sleep(pause)  # a runtime has work of its own in between
    return took


def used(pid: int) -> float:
    """Processor seconds of a process and its children, living and dead."""
    ticks = 0.0
    for one in (pid, *children(pid)):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15] if one == pid else fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """Return the living children of a process."""
    return [int(one) for path in Path(f"/proc/{pid}/task").glob("*/children") for one in path.read_text().split()]


def memory_of(pid: int) -> tuple[int, int]:
    """Return a process's resident memory, and its proportional share of shared memory, in kB."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return int(lines["Rss"].split()[0]), int(lines["Pss"].split()[0])


def main() -> int:
    """Measure and print; 1 if more than the goal's 30 MB of memory are resident."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50, help="lives of a container alone in its pod")
    parser.add_argument("--no-op", metavar="PATH", help="NRI's template plugin")
    parser.add_argument("--resctrl-mon", metavar="PATH", help="the plugin nri-resctrl-mon")
    given = parser.parse_args()
    found: dict[str, Cost] = {}
    with tempfile.TemporaryDirectory(dir=TMPFS) as folder:
        host = Host(Path(folder), "--nri")
        host.configure(host.resctrl, procPath=f"{folder}/proc", cgroupPath=f"{folder}/cgroup")
        config = Path(folder) / "resctrl-mon.yaml"
        config.write_text(f"resctrlPath: {host.resctrl}\n")
        plugins = {"this plugin": ours(host)}
        if given.no_op:
            plugins["no-op"] = built(given.no_op, monitors=False)
        if given.resctrl_mon:
            plugins["resctrl-mon"] = built(given.resctrl_mon, "-config", str(config))
        for name, plugin in plugins.items():
            with plugin as running:
                found[name] = measured(host, running, given.count)
            shutil.rmtree(host.resctrl / "mon_groups")
            (host.resctrl / "mon_groups").mkdir()
    print(f"| least of {given.count} lives, ms | {' | '.join(found)} |\n|---{'|--:' * len(found)}|")
    for event in LIFE:
        row = (f"{cost.events[event] * 1000:.2f}" if event in cost.events else "-" for cost in found.values())
        print(f"| {event} | {' | '.join(row)} |")
    rows = {
        "whole life": [f"{cost.life * 1000:.2f}" for cost in found.values()],
        "processor time of a life": [f"{cost.cpu * 1000:.2f}" for cost in found.values()],
        f"{IN_A_ROW} creations and starts": [f"{cost.row * 1000:.0f}" for cost in found.values()],
        "RSS / PSS, MiB": [f"{cost.rss / 1024:.1f} / {cost.pss / 1024:.1f}" for cost in found.values()],
    }
    for name, values in rows.items():
        print(f"| {name} | {' | '.join(values)} |")
    print(f"Linux {os.uname().release}, {os.cpu_count()} CPUs, load average {posix.getloadavg()[0]:.1f}")
    return int(found["this plugin"].pss > MOST_MEMORY)


if __name__ == "__main__":
    sys.exit(main())
