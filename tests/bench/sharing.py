"""What it costs to share RMIDs by rules: a hook on a full node, and a turn in which a hundred pods hand theirs on.

    python tests/bench/sharing.py [--pods 100] [--count 10]

resctrl is a simulation in FUSE, so each call on it takes longer than in a kernel; system calls are counted by strace,
those of the interpreter's own start taken off. For comparison, a bare loop reads the same files.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from host import TMPFS, Host
from pods import add_bundle, add_to_crun, annotations_of
from reconcile import with_posix

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.host.procfs import start_time
from resctrl_hooks.core.node.settings import load
from resctrl_hooks.core.node.sharing.admission import ensure_by_rules
from resctrl_hooks.lab.simulation.mount import mounted

RULES = {"priority": [{"namespaces": ["low"], "value": -10}, {"namespaces": ["*"], "value": 10}]}
CALL = re.compile(r"^(?:\d+ +)?(?!exit)(\w+)\(", re.MULTILINE)
READ = re.compile(r'^(?:\d+ +)?openat\(AT_FDCWD, "(/[^"]*)", O_RDONLY(?!.*O_DIRECTORY).*= \d+$', re.MULTILINE)


class Node:
    """A host with a simulated resctrl and pods of one sleeping process each, in the runtime's folder too."""

    def __init__(self, root: Path, resctrl: Path) -> None:
        self.host = Host(root)
        self.root = root
        self.resctrl = resctrl
        self.sleepers: list[subprocess.Popen[bytes]] = []
        (root / "crun").mkdir()
        (root / "cgroup").mkdir()
        self.configure()

    def configure(self, **monitoring: object) -> None:
        """Apply rules."""
        roots, cgroups = {"crun": str(self.root / "crun")}, str(self.root / "cgroup")
        self.host.configure(self.resctrl, runtimeRoots=roots, cgroupPath=cgroups, monitoring=monitoring)

    def add(self, number: int) -> None:
        """Make a pod of low priority, that gets an RMID if there is one."""
        process = subprocess.Popen(["sleep", "3600"])
        self.sleepers.append(process)
        id_, uid = f"{number:064x}", f"3f0ac7f2-8a3b-4f0e-9a55-{number:012d}"
        (self.root / f"cgroup/kubepods/pod{uid}").mkdir(parents=True)
        bundle = add_bundle(self.root, id_, annotations=annotations_of(uid, f"web-{number}", "main", "low"))
        add_to_crun(self.root, id_, process.pid, bundle, start_time("/proc", process.pid))
        context = Context(load(str(self.host.installed / "etc/resctrl-hooks/config.yaml"))[0])
        if len(list((self.resctrl / "mon_groups").iterdir())) < self.rmids:
            with context.monitor.hold(uid) as locked:
                locked.record["cgroup"] = str(self.root / f"cgroup/kubepods/pod{uid}")
                locked.record["claim"] = {"priority": -10, "since": 0.0, "rules": 0, "entry": ""}
                ensure_by_rules(locked, "", context)
                locked.assign_pid(process.pid)

    @property
    def rmids(self) -> int:
        """How many pods can have one."""
        return int((self.resctrl / "info/L3_MON/num_rmids").read_text()) - 1

    def end(self) -> None:
        """End all processes."""
        for process in self.sleepers:
            process.kill()
            process.wait()

    def reconcile(self) -> list[str]:
        """Return the command line of a pass."""
        hook = self.host.hook_without_guard()
        return [*hook[: hook.index("--config") + 2], "reconcile", "--json", "--waiting-ok"]


def traced(command: list[str], stdin: Path, folder: Path) -> tuple[int, list[str]]:
    """Return how many system calls a command has, and which files it reads, each as often as it does."""
    with stdin.open("rb") as source:
        trace = ["strace", "-f", "-qq", "-o", str(folder / "trace"), *command]
        subprocess.run(trace, stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    text = (folder / "trace").read_text()
    return len(CALL.findall(text)), READ.findall(text)


def seconds(command: list[str], stdin: Path) -> float:
    """Return a command's duration, including its start."""
    with stdin.open("rb") as source:
        began = time.perf_counter()
        subprocess.run(command, stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        return time.perf_counter() - began


def hooks(node: Node, count: int) -> None:
    """The table of hooks: with an RMID free, and with none, without and with rules."""
    bare = [node.host.hook_without_guard()[0], "-I", "-S", "-c", "pass"]
    nothing, _ = traced(bare, Path("/dev/null"), node.root)
    print("a hook                                        system calls   ms   of a bare interpreter")
    floor = statistics.median(seconds(bare, Path("/dev/null")) for _ in range(count))
    for full in (False, True):
        for name, rules in (("no rules", {}), ("rules", RULES)):
            node.configure(**rules)
            times, calls = [], []
            for turn in range(count + 1):
                if full and turn == 0:
                    (node.root / "state/searched").unlink(missing_ok=True)
                with node.host.container() as states:
                    command = node.host.hook_without_guard()
                    if turn in (0, count):
                        calls.append(traced(command, states["creating"], node.root)[0] - nothing)
                    else:
                        times.append(seconds(command, states["creating"]))
                    node.host.end(states)
                    subprocess.run(command, stdin=states["stopped"].open("rb"), check=True)
                subprocess.run(node.reconcile(), check=True, stdout=subprocess.DEVNULL)
                time.sleep(0.1)
            took = statistics.median(times)
            what = f"{'no RMID free' if full else 'an RMID free'}, {name}"
            print(f"{what:45s} {calls[0]:5d}, {calls[1]:4d} {took * 1e3:6.1f} {took / floor:10.2f}")
        if not full:
            node.add(len(node.sleepers))


def turns(node: Node, count: int) -> None:
    """Print the table of passes: one without a turn, one in which all RMIDs are handed over."""
    print("\na pass of reconcile                           system calls   ms   of reading the same files")
    for name, interval in (("no turn ends", 3600.0), ("all RMIDs are handed over", 0.001)):
        node.configure(share={"interval": interval, "atLeast": 0.0})
        for _ in range(2):  # the first reads the rules
            subprocess.run(node.reconcile(), check=True, stdout=subprocess.DEVNULL)
        calls, files = traced(node.reconcile(), Path("/dev/null"), node.root)
        times, least = [], []
        for _ in range(count):
            began = time.perf_counter()
            done = subprocess.run(node.reconcile(), check=True, capture_output=True, text=True)
            times.append(time.perf_counter() - began)
            report = json.loads(done.stdout)
            expected = 0 if interval > 1 else node.rmids
            turns = [item for item in report["items"] if item["event"] == "handover"]
            assert len(turns) == expected, report
            began = time.perf_counter()
            with_posix(files)
            least.append(time.perf_counter() - began)
        took = statistics.median(times)
        print(f"{name:45s} {calls:11d} {took * 1e3:6.0f} {took / statistics.median(least):10.1f}")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--count", type=int, default=10)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=TMPFS) as folder,
        mounted(Path(folder) / "resctrl", rmids=options.pods + 1, limbo=0.0) as resctrl,
    ):
        (Path(folder) / "host").mkdir()
        node = Node(Path(folder) / "host", Path(resctrl))
        try:
            for number in range(options.pods - 1):
                node.add(number)
            hooks(node, options.count)
            while len(node.sleepers) < 2 * options.pods:
                node.add(len(node.sleepers))
            turns(node, options.count)
        finally:
            node.end()


if __name__ == "__main__":
    main()
