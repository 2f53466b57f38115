"""A simulated host that uses every feature: placement, memory classes, memtierds with their supervisors."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from conftest import UID, Host

from hosts import crun
from hosts.machines import machine, write_sysfs
from hosts.memtierd import CLASS, TEMPLATE, program
from hosts.placed import CPUS, PlacedHost, id_of
from hosts.processes import wait_until
from hosts.traced_hook import TracedHook
from resctrl_hooks.core.node.features.memtierd import feature as memtierd
from resctrl_hooks.core.node.features.memtierd.processes import living
from resctrl_hooks.core.node.features.memtierd.run_dir import run_folders
from resctrl_hooks.core.node.host.files import UNFINISHED
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.placement.node.allocations import Book

POD = "5a0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c05"
MAIN, SHARER, OWNER = "main", "sharer", "owner"
HIGH = "memory.high.memtierd.nri.io"
LIMITS = {"memory.swap.max": "0", "memory.high": str(64 << 20)}
KINDS = {"exclusive": 2000, "shared": 500}
STAND_IN = '#!/bin/sh\nexec "$(dirname "$0")/sleeper" 1000\n'


class Crowd(PlacedHost):
    """A host with two placed containers of one pod, one with a memtierd, and a starting container of another pod."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        program(host.root / "memtierd", STAND_IN)
        shutil.copy("/bin/sleep", host.root / "sleeper")
        host.configure(
            sysPath=write_sysfs(machine(cores=6), host.root / "machine"),
            placement={"enabled": True, "allow": {"shop": ["*"]}, "kubeletPath": str(host.root / "kubelet")},
            runtimeRoots={"crun": str(host.root / "crun")},
            classes=[{"name": "track", "allowswap": False, "memtierdconfig": TEMPLATE}],
            memory={"allowLimits": {"shop": ["memory.high"]}},
            memtierd={
                "runDir": str(host.root / "memtierds"),
                "binary": str(host.root / "memtierd"),
                "supervisor": "process",
                "startSeconds": 0,  # no looks whose number would differ from run to run
            },
        )
        self.traced = TracedHook(host)
        for name, asked in ((SHARER, {CPUS: "shared"}), (OWNER, {CPUS: "exclusive", CLASS: "track"})):
            self.process(name)
            self.call(self.state(name, 1000, **asked))
        self.kind = "exclusive"
        self.before = self.seen()

    def folder(self, name: str) -> Path:
        return self.host.cgroup / f"kubepods/pod{POD if name == MAIN else UID}/crio-{id_of(name)}"

    def process(self, name: str) -> None:
        super().process(name)
        values = {"memory.swap.max": "max", "memory.high": "max", "memory.current": "4096"}
        for file, value in values.items():
            (self.folder(name) / file).write_text(value)

    def call(self, state: dict[str, Any]) -> None:
        outcome = self.host.call(state, alone=True)
        assert (outcome.code, outcome.stderr) == (0, "")

    def created(self) -> dict[str, Any]:
        """Return a container whose process waits for its hooks."""
        self.process(MAIN)
        asked = {CLASS: "track", HIGH: "64M", CPUS: self.kind, "io.kubernetes.pod.uid": POD}
        state = self.state(MAIN, KINDS[self.kind], **asked)
        config = Path(state["bundle"]) / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"annotations": state["annotations"]}))
        return state

    def runs(self, state: dict[str, Any]) -> None:
        """Put the container into the runtime's state folder, as the runtime does after the hooks."""
        crun.record(self.host.root / "crun", id_of(MAIN), state["pid"], state["bundle"], state["pid"])

    def ends(self) -> None:
        """End the container and its pod; the runtime has deleted it."""
        self.die(MAIN)
        self.host.end_cgroup(f"kubepods/pod{POD}")
        shutil.rmtree(self.host.root / "crun" / id_of(MAIN), ignore_errors=True)

    def ended(self) -> dict[str, Any]:
        """Return the state of a container whose poststop is still to come."""
        state = self.created()
        self.call(state)
        self.ends()
        return state | {"status": "stopped", "pid": 0}

    def end_and_reconcile(self) -> None:
        """End the container without a poststop; reconcile leaves nothing of it either."""
        self.ends()
        self.reconcile()
        assert self.seen() == self.before

    def reconcile(self) -> dict[str, Any]:
        """Run one reconcile as the timer does, in a separate process; it names the supervisors that it starts.

        A minute has passed, so that it removes what killed writers left unfinished, and a second one finds nothing.
        """
        for unfinished in Path(self.host.context().ledger.folder).glob(f"*{UNFINISHED}*"):
            os.utime(unfinished, (0, 0))
        done = subprocess.run(
            [*self.host.command("reconcile"), "--json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        report: dict[str, Any] = json.loads(done.stdout)
        assert (done.returncode, report["ok"]) == (0, True), (report, done.stderr)
        return report

    def processes(self) -> set[int]:
        """Return every process of this host: supervisors and memtierds, and any hook."""
        found = set()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if str(self.host.root).encode() in (folder / "cmdline").read_bytes():
                    found.add(int(folder.name))
            except OSError:
                continue
        return found

    def named(self) -> set[int]:
        """Return the supervisors and memtierds that the run folders of recorded containers name."""
        found: set[int] = set()
        for folder in run_folders(str(self.host.root / "memtierds")):
            opened = folder.open()
            if opened is not None:
                if self.host.context().ledger.key_of(folder.parts[-1]):
                    found.update(living(opened))
                opened.close()
        return found

    def seen(self) -> dict[str, Any]:
        """Return all leftovers of containers on this host; a file of a killed writer belongs to its pod's end."""
        wait_until(lambda: self.processes() == self.named())
        self.assert_sound()
        for lock in (self.host.state / "locks").iterdir():
            with lock.open() as opened:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert not list(self.host.state.glob("placement.*"))
        return {
            "groups": self.host.groups(),
            "records": [record for record in self.host.records() if "~" not in record],
            "book": sorted(Book(self.host.context()).entries),
            "cpus": {name: self.cpus(name) for name in (SHARER, OWNER)},
            "memtierds": {folder.parts[-1] for folder in run_folders(str(self.host.root / "memtierds"))},
            "memtierds' cgroups": sorted(path.name for path in (self.host.cgroup / "resctrl-hooks").iterdir()),
        }

    def limits(self) -> dict[str, str]:
        return {name: (self.folder(MAIN) / name).read_text() for name in LIMITS}

    def recorded(self) -> set[str]:
        """Return the features with a step in the container's record."""
        record = self.host.context().ledger.read_member(POD, id_of(MAIN))
        return {step["feature"] for step in (record or {}).get("steps", [])}

    def clean(self) -> None:
        for folder in run_folders(str(self.host.root / "memtierds")):
            memtierd.end(folder, folder.parts[-1], str(self.host.cgroup), Settings({}), systemd=False)
        for pid in self.processes():  # none, unless a test has failed
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.processes())
