"""How soon a container's reset limit is noticed and repaired, and what the checks cost.

    sudo python tests/bench/resize.py [--containers 250] [--resizes 30] [--load 12] [--launch PATH]

The exec watcher and reconcile are whole processes, as their units start them. The host is made of plain files on tmpfs;
inotify does not distinguish them from cgroup files. This script starts reconcile when the file of the path unit
changes. `--load` adds as many busy loops, `--launch` names another version's node half.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exec_watch import Process
from pods import add_bundle, add_process, add_to_crun, annotations_of

from resctrl_hooks.node import launch

TMPFS = "/dev/shm"
SWAP = "memory.swap.max"
LOOK = 0.002
"""Seconds between this script's looks at a file."""
IDLE = 20.0
PROBES = 25
"""Execs in a second, as 250 pods with a probe each ten seconds have."""


class Host:
    """A made-up host with so many containers, whose class allows swap; `figures` are its watcher's."""

    def __init__(self, root: Path, containers: int, code: str) -> None:
        for folder in ("resctrl/mon_groups", "proc/sys/kernel/random", "proc/self", "crun", "cgroup"):
            (root / folder).mkdir(parents=True)
        (root / "proc/sys/kernel/random/boot_id").write_text("0d5d0a52-6e2c-4a3c-8f2e-000000000001\n")
        paths = {"resctrlPath": "resctrl", "procPath": "proc", "cgroupPath": "cgroup", "stateDir": "state"}
        self.state, self.config, self._code = root / "state", root / "config.json", code
        settings: dict[str, Any] = {name: str(root / folder) for name, folder in paths.items()}
        settings |= {"format": 1, "runtimeRoots": {"crun": str(root / "crun")}, "log": {"target": "none"}}
        settings["classes"] = [{"name": "swap", "allowswap": True}]
        self.config.write_text(json.dumps(settings))
        self.folders = [self._add(root, number) for number in range(containers)]
        self.reconcile()
        for number in range(containers):
            self._join(root, number)
        self.reconcile()
        assert all((folder / SWAP).read_text().strip() == "max" for folder in self.folders)

    def _add(self, root: Path, number: int) -> Path:
        id_, uid = f"{number:064x}", f"3f0ac7f2-8a3b-4f0e-9a55-{number:012d}"
        folder = add_process(root, 100 + number, f"/kubepods/pod{uid}/crio-{id_}")
        (folder / SWAP).write_text("0\n")
        (folder / "cgroup.procs").write_text(f"{100 + number}\n")
        (root / f"proc/{100 + number}/cpu_resctrl_groups").write_text("res:/\nmon:\n")
        annotations = {**annotations_of(uid, f"web-{number}", "main"), "class.memtierd.nri.io": "swap"}
        add_to_crun(root, id_, 100 + number, add_bundle(root, id_, annotations=annotations))
        return folder

    def _join(self, root: Path, number: int) -> None:
        (root / f"proc/{100 + number}/cpu_resctrl_groups").write_text(
            f"res:/\nmon:3f0ac7f2-8a3b-4f0e-9a55-{number:012d}\n"
        )

    def command(self, word: str) -> list[str]:
        return ["/usr/bin/python3", "-I", "-S", self._code, "--config", str(self.config), word]

    def reconcile(self) -> None:
        subprocess.run(self.command("reconcile"), check=False, stdout=subprocess.DEVNULL)

    def figures(self) -> dict[str, Any]:
        with contextlib.suppress(FileNotFoundError, ValueError):
            found: dict[str, Any] = json.loads((self.state / "exec.json").read_text())
            return found
        return {}

    def woken(self) -> int:
        """Return when the path unit's file changed."""
        with contextlib.suppress(FileNotFoundError):
            return (self.state / "wake").stat().st_mtime_ns
        return 0


class PathUnit(threading.Thread):
    """Starts reconcile when the file changes, and again if it changed meanwhile, as systemd does."""

    def __init__(self, host: Host) -> None:
        super().__init__(daemon=True)
        self._host, self.over = host, threading.Event()

    def run(self) -> None:
        seen = self._host.woken()
        while not self.over.wait(LOOK):
            if (now := self._host.woken()) != seen:
                seen = now
                self._host.reconcile()


@contextlib.contextmanager
def busy(number: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def resize(host: Host, folder: Path) -> tuple[float, float]:
    """Reset a limit; return the seconds until reconcile is asked for, and until the limit is repaired."""
    before, begun, noticed = host.woken(), time.monotonic(), 0.0
    (folder / SWAP).write_text("0\n")
    while (folder / SWAP).read_text().strip() != "max":
        if not noticed and host.woken() != before:
            noticed = time.monotonic() - begun
        time.sleep(LOOK)
        assert time.monotonic() - begun < 300, "never repaired"
    return noticed, time.monotonic() - begun


def cost(process: Process, host: Host, rate: float) -> float:
    """Return the watcher's processor time in per cent while processes enter containers at this rate."""
    used, begun, count = process.seconds(), time.monotonic(), 0
    while (now := time.monotonic() - begun) < IDLE:
        while count < now * rate:
            (host.folders[count % len(host.folders)] / "cgroup.procs").write_text("1\n")
            count += 1
        time.sleep(0.01)
    return 100 * (process.seconds() - used) / (time.monotonic() - begun)


def shown(values: list[float]) -> str:
    return f"{statistics.median(values):.2f}, {max(values):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--containers", type=int, default=250)
    parser.add_argument("--resizes", type=int, default=30)
    parser.add_argument("--load", type=int, default=0)
    parser.add_argument("--launch", default=launch.__file__)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=TMPFS) as root:
        host = Host(Path(root), given.containers, given.launch)
        process = Process(host, host.command("watch"))
        unit = PathUnit(host)
        unit.start()
        time.sleep(6)
        with busy(given.load):
            found = []
            for number in range(given.resizes):
                found.append(resize(host, host.folders[number * 7 % given.containers]))
                time.sleep(1.3)  # not in step with a regular check
            load = os.getloadavg()[0]
        costs = [cost(process, host, rate) for rate in (0, PROBES)]
        unit.over.set()
        process.stop()
    noticed, repaired = [one for one, _ in found if one], [one for _, one in found]
    print(f"{given.containers} containers, {given.resizes} resizes, load {load:.1f}; seconds, median and largest:")
    print(f"noticed {shown(noticed)}; repaired {shown(repaired)}")
    print(f"processor time of the watcher: {costs[0]:.2f} %, with {PROBES} execs a second {costs[1]:.2f} %")


if __name__ == "__main__":
    main()
