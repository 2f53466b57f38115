"""What a hostile pod or client can cost: amounts that docs/security.md bounds, each measured in processes of its own.

    python tests/bench/limits.py [--only scrapes connections cgroups idle dead] [--state FOLDER]

The host is made of plain files on tmpfs; records are in ``--state``, by default on the disk of /var/tmp. With another
version's checkout first in PYTHONPATH it measures that version.
"""

import argparse
import http.client
import json
import os
import resource
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from pods import add_bundle, add_process, add_to_crun, annotations_of

import resctrl_hooks
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.log import Log
from resctrl_hooks.node.settings import Settings

LAUNCH = Path(resctrl_hooks.__file__).parent / "node/launch.py"
TMPFS = "/dev/shm"
PODS, SCRAPES = 500, 100
CONNECTIONS, SLOW, PROBES = 347, 3.0, 10
CGROUPS, IDLE, DEAD = 20_000, 3_000, 10_000
PATIENT = 300
COUNTERS = ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")
BOOT = "0d5d0a52-6e2c-4a3c-8f2e-000000000001"


class Host:
    """A host of plain files, with its settings."""

    def __init__(self, root: Path, state: Path) -> None:
        self.root = root
        for folder in ("resctrl/mon_groups", "resctrl/info", "proc/sys/kernel/random", "crun", "cgroup"):
            (root / folder).mkdir(parents=True)
        (root / "resctrl/tasks").touch()
        (root / "proc/sys/kernel/random/boot_id").write_text(f"{BOOT}\n")
        paths = {"resctrlPath": "resctrl", "procPath": "proc", "cgroupPath": "cgroup"}
        values: dict[str, Any] = {name: str(root / folder) for name, folder in paths.items()}
        values |= {"format": 1, "stateDir": str(state), "log": {"target": "none"}, "deadlineSeconds": 60}
        values["runtimeRoots"] = {"crun": str(root / "crun")}
        self.config = root / "config.json"
        self.config.write_text(json.dumps(values))
        self.context = Context(Settings(values), Log({"target": "none"}, stderr=False))

    def container(self, number: int, pid: int, pod: str) -> dict[str, Any]:
        """Create a container's process, cgroup and bundle; return the runtime's state before its start."""
        id_ = f"{number:064x}"
        cgroup = f"/kubepods/pod{pod}/crio-{id_}"
        add_process(self.root, pid, cgroup)
        annotations = annotations_of(pod, "web", f"c{number}")
        bundle = add_bundle(self.root, id_, annotations=annotations)
        state = {"ociVersion": "1.2.1", "id": id_, "status": "created", "pid": pid, "bundle": bundle}
        return state | {"annotations": annotations, "cgroup": cgroup}

    def run(self, command: str, state: dict[str, Any] | None = None) -> tuple[float, float]:
        """Return seconds, in all and of the processor, of a command of the node half."""
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        words = [sys.executable, "-I", "-S", str(LAUNCH), "--config", str(self.config), command]
        subprocess.run(words, input=json.dumps(state).encode(), capture_output=True, check=True, timeout=PATIENT)
        seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    @contextmanager
    def server(self) -> Iterator[tuple[int, int]]:
        """Serve metrics; gives port and process."""
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
        words = [sys.executable, "-m", "resctrl_hooks", "--config", str(self.config), "metrics", "--listen"]
        process = subprocess.Popen([*words, f"127.0.0.1:{port}"], stderr=subprocess.DEVNULL, cwd="/")
        try:
            while not answers(port):
                time.sleep(0.1)
            yield port, process.pid
        finally:
            process.terminate()
            process.wait()


def get(port: int, path: str, patience: float) -> int:
    """Return the status of an answer."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=patience)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status


def answers(port: int, patience: float = 2.0) -> bool:
    """Return whether the liveness probe succeeds."""
    try:
        return get(port, "/healthz", patience) == http.HTTPStatus.OK
    except OSError:
        return False


def key(number: int) -> str:
    """Return a pod's UID."""
    return f"{number:08x}-8a3b-4f0e-9a55-1d9d3b7e6c01"


def scrapes(host: Host) -> str:
    """Scrapes at once, of a node with many pods."""
    folders = [host.root / "resctrl"]
    for number in range(PODS):
        with host.context.monitor.hold(key(number)) as locked:
            locked.record.update({"namespace": "shop", "pod": f"web-{number}"})
            folders.append(Path(locked.ensure_group().path))
    for folder in folders:
        for name in COUNTERS:
            (folder / "mon_data/mon_L3_00").mkdir(parents=True, exist_ok=True)
            (folder / "mon_data/mon_L3_00" / name).write_text("123456789012\n")
    statuses: list[int] = []

    def scrape() -> None:
        with suppress(OSError):  # a refused one is not answered
            statuses.append(get(port, "/metrics", PATIENT))

    with host.server() as (port, _):
        get(port, "/metrics", PATIENT)
        started = time.monotonic()
        threads = [threading.Thread(target=scrape) for _ in range(SCRAPES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - started
    good = statuses.count(http.HTTPStatus.OK)
    return f"{SCRAPES} scrapes of {PODS} pods at once: {good} answered after {seconds:.1f} s"


def connections(host: Host) -> str:
    """Measure connections that send a byte now and then, together with the liveness probe."""
    with host.server() as (port, pid):
        slow = []
        for _ in range(CONNECTIONS):
            slow.append(socket.create_connection(("127.0.0.1", port)))
            slow[-1].sendall(b"G")
            time.sleep(0.02)  # one by one: a full queue would lose some
        good = most = 0
        for _ in range(PROBES):
            for one in slow:
                with suppress(OSError):  # the server may have closed it
                    one.send(b"E")
            good += answers(port)
            most = max(most, len(os.listdir(f"/proc/{pid}/fd")))
            time.sleep(SLOW)
        still = sum(is_open(one) for one in slow)
        for one in slow:
            one.close()
    probes = f"{good} of {PROBES} liveness probes succeed"
    return f"{CONNECTIONS} slow connections: {probes}, the server has {most} files open, {still} connections stay open"


def is_open(connection: socket.socket) -> bool:
    """Return whether the server has not closed a connection."""
    try:
        ready, _, _ = select.select([connection], [], [], 0)
        return not ready or bool(connection.recv(1))
    except OSError:
        return False


def cgroups(host: Host) -> str:
    """Measure reconcile with one container that has many cgroups."""
    state = host.container(7, 107, key(7))
    add_to_crun(host.root, state["id"], 107, state["bundle"])
    host.run("reconcile")
    few = host.run("reconcile")[1]
    for number in range(CGROUPS):
        folder = host.root / f"cgroup{state['cgroup']}/{number % 100}/{number}"
        folder.mkdir(parents=True)
        (folder / "cgroup.threads").touch()
    many = host.run("reconcile")[1]
    return f"{CGROUPS} cgroups below a container: reconcile takes {many:.2f} s of a processor, {few:.2f} s without them"


def idle(host: Host) -> str:
    """A hook on a node with many idle keys of pods that have ended."""
    few = host.run("hook", host.container(0, 100, key(9)))[1]
    for number in range(10, 10 + IDLE):
        with host.context.monitor.hold(key(number)) as locked:
            locked.record["cgroup"] = str(host.root / f"cgroup/kubepods/pod{key(number)}")
            locked.ensure_group()
        host.context.ledger.mark("idle", key(number))
    many = host.run("hook", host.container(1, 101, key(9)))[1]
    return f"{IDLE} idle keys: a hook takes {many:.2f} s of a processor, {few:.2f} s without them"


def dead(host: Host) -> str:
    """Reconcile with many records of dead containers: how long the first pass takes, and how many there are."""
    for number in range(DEAD):
        with host.context.monitor.hold(key(number)) as locked:
            locked.record["cgroup"] = str(host.root / f"cgroup/kubepods/pod{key(number)}")
            locked.ensure_group()
            locked.add_member(f"{number:064x}", {"steps": []}, 4_000_000 + number)
    os.sync()
    times = []
    while host.context.ledger.keys():
        times.append(host.run("reconcile")[0])
    passes = f"the first pass takes {times[0]:.1f} s, all {len(times)} take {sum(times):.1f} s"
    return f"{DEAD} dead records: {passes}"


SUBJECTS: dict[str, Callable[[Host], str]] = {one.__name__: one for one in (scrapes, connections, cgroups, idle, dead)}


def main() -> None:
    """Print a line for each amount."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", choices=SUBJECTS, default=list(SUBJECTS))
    parser.add_argument("--state", type=Path, default=Path("/var/tmp"))
    options = parser.parse_args()
    for name in options.only:
        root = Path(tempfile.mkdtemp(prefix="limits-", dir=TMPFS))
        state = Path(tempfile.mkdtemp(prefix="limits-", dir=options.state))
        try:
            print(SUBJECTS[name](Host(root, state)), flush=True)
        finally:
            shutil.rmtree(root)
            shutil.rmtree(state)


if __name__ == "__main__":
    main()
