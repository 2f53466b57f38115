"""What placing a container costs on a large node: 256 CPUs, 500 containers that are there already.

    python tests/lab/bench/placing.py [--count 60] [--containers 250] [--profile | --instructions]

The host is made of plain files on tmpfs. Whole hooks are measured, in processor time: with placement and without it,
each between two starts of a bare interpreter. What placement costs is the difference: its modules, the book, the
decision, the container's record and cpusets. The bar is 10 ms, or the bare interpreter's start where that is more.
``--instructions`` counts the hooks' instructions in valgrind instead, without noise: to compare two versions.
"""

import argparse
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

from host import TMPFS
from host import Host as Installed
from hosts import hook
from hosts.machines import machine, write_sysfs
from pods import add_bundle, add_process, annotations_of
from process import Call

from resctrl_hooks.core.node.container.oci import parse_state, read_bundle
from resctrl_hooks.core.node.container.workload import derive
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.host.procfs import cgroups_of
from resctrl_hooks.core.node.settings import load
from resctrl_hooks.placement.node.allocations import Book, topology_of
from resctrl_hooks.placement.node.allocator import policy_of
from resctrl_hooks.placement.node.request import request_of

BAR = 0.010
CONTAINERS = 500
PER_POD = 2
KIND = "cpus.placement.resctrl-hooks.io"
BARE = "bare interpreter"
BOOT = "0d5d0a52-6e2c-4a3c-8f2e-000000000001"


class Host:
    """A node of 256 CPUs with so many containers, most of them sharing; and the runtime's state of the next one."""

    def __init__(self, root: Path, containers: int) -> None:
        self.root = root
        self.installed = Installed(root)
        (root / "proc/sys/kernel/random").mkdir(parents=True)
        (root / "proc/sys/kernel/random/boot_id").write_text(f"{BOOT}\n")
        self.sys = write_sysfs(machine(2, 4, 4, 4, 2), root / "sys")
        self.configure(placed=True)
        context = Context(load(str(self.config))[0])
        chance = random.Random(8)
        for number in range(containers):
            kind = chance.choices(["shared", "exclusive", "mixed"], [90, 8, 2])[0]
            hook.call(self.state(number, kind, chance.choice([0, 100, 250, 500, 1000])), context)

    @property
    def config(self) -> Path:
        return self.root / "installed/etc/resctrl-hooks/config.json"

    def configure(self, *, placed: bool) -> None:
        """Apply settings, with placement or without."""
        self.installed.configure(self.installed.resctrl)
        values = json.loads(self.config.read_text())
        values |= {"procPath": str(self.root / "proc"), "cgroupPath": str(self.root / "cgroup"), "sysPath": self.sys}
        kubelet = str(self.root / "kubelet")
        values["placement"] = {"enabled": placed, "allow": {"*": ["*"]}, "kubeletPath": kubelet}
        self.config.write_text(json.dumps(values))

    def state(self, number: int, kind: str, milli: int) -> dict[str, Any]:
        """Return a container: its process, its cgroup, its bundle, and the state that its hooks are given."""
        id_, uid, pid = f"{number:064x}", f"3f0ac7f2-8a3b-4f0e-9a55-{number // PER_POD:012d}", 1000 + number
        path = f"/kubepods/burstable/pod{uid}/crio-{id_}"
        folder = add_process(self.root, pid, path)
        for name in ("cpuset.cpus", "cpuset.mems"):
            (folder / name).touch()
        resources = {"cpu": {"shares": max(milli * 1024 // 1000, 2)}, "memory": {"limit": 1 << 30}}
        bundle = add_bundle(self.root, id_, linux={"resources": resources})
        annotations = annotations_of(uid, f"web-{number // PER_POD}", f"c{number % PER_POD}")
        annotations[KIND] = kind if kind == "shared" else f"{kind}:2"
        return {
            "ociVersion": "1.2.1",
            "id": id_,
            "status": "created",
            "pid": pid,
            "bundle": bundle,
            "annotations": annotations,
        }

    def life(self, number: int, kind: str) -> dict[str, Call]:
        """Return the two hooks of one more container; `end` comes between them."""
        told = self.state(number, kind, 500 if kind == "shared" else 2000)
        paths = {stage: self.root / f"{stage}.json" for stage in ("createRuntime", "poststop")}
        paths["createRuntime"].write_text(json.dumps(told))
        paths["poststop"].write_text(json.dumps(told | {"status": "stopped", "pid": 0}))
        command = self.installed.hook_without_guard()
        return {stage: Call(command, path) for stage, path in paths.items()}

    def end(self, number: int) -> None:
        """Its process ends."""
        (self.root / "proc" / str(1000 + number) / "stat").unlink()


def executed(host: Host, number: int) -> dict[str, int]:
    """Instructions of each hook with placement, of the container of this number."""
    found = {}
    for kind in ("shared", "exclusive"):
        for turn in range(2):
            for stage, call in host.life(number, kind).items():
                if stage == "poststop":
                    host.end(number)
                if turn:
                    found[f"{stage}, {kind}"] = call.instructions()
                else:
                    call.seconds()  # the first life writes what later ones find
    return found


def rounds(host: Host, containers: int, count: int) -> dict[str, list[float]]:
    """Processor time of each subject in each round, in seconds."""
    times: dict[str, list[float]] = {}
    number = containers
    python = host.installed.hook_without_guard()[0]
    for turn in range(count + 1):
        for kind in ("shared", "exclusive"):
            for placed in (True, False):
                host.configure(placed=placed)
                calls = host.life(number, kind)
                bare = Call([python, "-I", "-S", "-c", "pass"], calls["createRuntime"].stdin)
                for stage, call in calls.items():
                    if stage == "poststop":
                        host.end(number)
                    name = f"{stage}, {kind}, {'placed' if placed else 'not placed'}"
                    found = [(BARE, bare.seconds()[1]), (name, call.seconds()[1])]
                    host.installed.read_journal()
                    for subject, took in found if turn else ():  # the first round fills the page cache
                        times.setdefault(subject, []).append(took)
    return times


def main() -> int:
    """Print the table; exit code 1 if the bar isn't met."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--containers", type=int, default=CONTAINERS, help="that are there already")
    parser.add_argument("--instructions", action="store_true", help="instructions instead of times, in valgrind")
    parser.add_argument("--profile", action="store_true", help="where the time goes, in this process")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="resctrl-hooks-bench-", dir=TMPFS) as folder:
        host = Host(Path(folder), options.containers)
        if options.profile:
            profile(host, options.containers)
            return 0
        if options.instructions:
            for name, number in executed(host, options.containers).items():
                print(f"{name:<40} {number / 1e6:6.2f} million instructions")
            return 0
        times = rounds(host, options.containers, options.count)
    medians = {name: statistics.median(took) for name, took in times.items()}
    bare = medians.pop(BARE)
    load_average = os.getloadavg()[0]
    print(f"Linux {platform.release().partition('-')[0]}, {os.cpu_count()} CPUs, load average {load_average:.1f}")
    print(f"{BARE:<40} {bare * 1e3:5.1f} ms of processor time")
    worst = 0.0
    for name, took in medians.items():
        print(f"{name:<40} {took * 1e3:5.1f} ms")
    for name, took in medians.items():
        if name.endswith(", placed"):
            costs = took - medians[name.replace(", placed", ", not placed")]
            worst = max(worst, costs)
            print(f"{name + ': costs':<40} {costs * 1e3:5.1f} ms, {costs / bare:.2f} of a bare start")
    met = worst <= max(BAR, bare)
    print(f"at most {max(BAR, bare) * 1e3:.1f} ms: {'met' if met else 'NOT MET'}")
    return int(not met)


def profile(host: Host, containers: int) -> None:
    """The parts, each often enough, in this process (its Python may be another than the hooks')."""
    context = Context(load(str(host.config))[0])
    told = parse_state(json.dumps(host.state(containers, "exclusive", 2000)).encode())
    workload = derive(told, read_bundle(told.bundle), cgroups_of(context.proc, told.pid), context.settings.cgroup_path)
    request = request_of(workload, context.settings)
    book = Book(context)
    choose = policy_of(context.settings)
    usage = book.usage()
    subjects: dict[str, Any] = {
        "topology": lambda: topology_of(context),
        "book read, with topology": lambda: Book(context),
        "usage": book.usage,
        "decision": lambda: choose(book.topology, usage, request),
        "book written": book.save,
        "dead looked for": lambda: book.drop_dead(context),
    }
    for name, subject in subjects.items():
        started = time.process_time()
        for _ in range(50):
            subject()
        print(f"{name:<40} {(time.process_time() - started) * 20:6.2f} ms")


if __name__ == "__main__":
    sys.exit(main())
