"""A simulated host that uses every feature: placement, memory classes, memtierds with their supervisors."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from houses import missing

from hosts import crun
from hosts.machines import machine, write_sysfs
from hosts.memtierd import CLASS, TEMPLATE, program
from hosts.node import UID, Node
from hosts.placed import CPUS, PlacedHost, id_of
from hosts.processes import wait_until
from hosts.traced_hook import TracedHook
from resctrl_hooks.core.node.features.memtierd import feature as memtierd
from resctrl_hooks.core.node.features.memtierd.processes import living
from resctrl_hooks.core.node.features.memtierd.run_dir import run_folders
from resctrl_hooks.core.node.host.files import UNFINISHED
from resctrl_hooks.core.node.settings import Settings

POD = "5a0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c05"
MAIN, SHARER, OWNER = "main", "sharer", "owner"
HIGH = "memory.high.memtierd.nri.io"
LIMITS = {"memory.swap.max": "0", "memory.high": str(64 << 20)}
KINDS = {"exclusive": 2000, "shared": 500}
STAND_IN = '#!/bin/sh\nexec "$(dirname "$0")/sleeper" 1000\n'


class Crowd(PlacedHost):
    """A node with two containers of one pod, one with a memtierd, and a starting container of another pod.

    Without the house of placement, no container is placed.
    """

    placed = "placement" not in missing()

    def __init__(self, host: Node) -> None:
        super().__init__(host)
        program(self.root / "memtierd", STAND_IN)
        shutil.copy("/bin/sleep", self.root / "sleeper")
        self.sys = write_sysfs(machine(cores=6), self.root / "machine")
        self.cgroup_files |= {"memory.swap.max": "max", "memory.high": "max", "memory.current": "4096"}
        self.use()
        self.traced = TracedHook(self)
        for name, asked in ((SHARER, {CPUS: "shared"}), (OWNER, {CPUS: "exclusive", CLASS: "track"})):
            self.begin(name)
            self.run_hook(self.told(name, 1000, **asked))
        self.kind = "exclusive"
        self.before = self.seen()

    def use(self, **config: Any) -> None:
        """Apply a configuration with these sections beside the usual ones."""
        if self.placed:
            allow = {"shop": ["*"]}
            config["placement"] = {"enabled": True, "allow": allow, "kubeletPath": str(self.root / "kubelet")}
        self.configure(
            classes=[{"name": "track", "allowswap": False, "memtierdconfig": TEMPLATE}],
            **{"memory": {"allowLimits": {"shop": ["memory.high"]}}} | config,
            memtierd={
                "runDir": str(self.root / "memtierds"),
                "binary": str(self.root / "memtierd"),
                "supervisor": "process",
                "startSeconds": 0,  # no looks whose number would differ from run to run
            },
        )

    def pod_of(self, name: str) -> str:
        return POD if name == MAIN else UID

    def run_hook(self, state: dict[str, Any]) -> None:
        outcome = self.call(state, alone=True)
        assert (outcome.code, outcome.stderr) == (0, "")

    def created(self) -> dict[str, Any]:
        """Return a container whose process waits for its hooks."""
        self.begin(MAIN)
        asked = {CLASS: "track", HIGH: "64M", CPUS: self.kind, "io.kubernetes.pod.uid": POD}
        return self.told(MAIN, KINDS[self.kind], **asked)

    def runs(self, state: dict[str, Any]) -> None:
        """Put the container into the runtime's state folder, as the runtime does after the hooks."""
        crun.record(self.crun, id_of(MAIN), state["pid"], state["bundle"], state["pid"])

    def ends(self) -> None:
        """End the container and its pod; the runtime has deleted it."""
        self.die(MAIN)
        self.end_pod(POD)
        shutil.rmtree(self.crun / id_of(MAIN), ignore_errors=True)

    def ended(self) -> dict[str, Any]:
        """Return the state of a container whose poststop is still to come."""
        state = self.created()
        self.run_hook(state)
        self.ends()
        return state | {"status": "stopped", "pid": 0}

    def end_and_reconcile(self) -> None:
        """End the container without a poststop; reconcile leaves nothing of it either."""
        self.ends()
        self.pass_alone()
        assert self.seen() == self.before

    def pass_alone(self) -> dict[str, Any]:
        """Run one reconcile as the timer does, in a separate process; it names the supervisors that it starts.

        A minute has passed, so that it removes what killed writers left unfinished, and a second one finds nothing.
        """
        for unfinished in Path(self.context().ledger.folder).glob(f"*{UNFINISHED}*"):
            os.utime(unfinished, (0, 0))
        done = subprocess.run(
            [*self.command("reconcile"), "--json"],
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
                if str(self.root).encode() in (folder / "cmdline").read_bytes():
                    found.add(int(folder.name))
            except OSError:
                continue
        return found

    def named(self) -> set[int]:
        """Return the supervisors and memtierds that the run folders of recorded containers name."""
        found: set[int] = set()
        for folder in run_folders(str(self.root / "memtierds")):
            opened = folder.open()
            if opened is not None:
                if self.context().ledger.key_of(folder.parts[-1]):
                    found.update(living(opened))
                opened.close()
        return found

    def seen(self) -> dict[str, Any]:
        """Return all leftovers of containers on this host; a file of a killed writer belongs to its pod's end."""
        wait_until(lambda: self.processes() == self.named())
        if self.placed:
            self.assert_sound()
        for lock in (self.state / "locks").iterdir():
            with lock.open() as opened:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert not list(self.state.glob("placement.*"))
        return {
            "groups": self.groups(),
            "records": [record for record in self.records() if "~" not in record],
            "cpus": {name: self.cpus(name) for name in (SHARER, OWNER)},
            "memtierds": {folder.parts[-1] for folder in run_folders(str(self.root / "memtierds"))},
            "memtierds' cgroups": sorted(path.name for path in (self.cgroup / "resctrl-hooks").iterdir()),
        }

    def limits(self) -> dict[str, str]:
        return {name: (self.folder(MAIN) / name).read_text() for name in LIMITS}

    def recorded(self) -> set[str]:
        """Return the features with a step in the container's record."""
        record = self.context().ledger.read_member(POD, id_of(MAIN))
        return {step["feature"] for step in (record or {}).get("steps", [])}

    def clean(self) -> None:
        for folder in run_folders(str(self.root / "memtierds")):
            memtierd.end(folder, folder.parts[-1], str(self.cgroup), Settings({}), systemd=False)
        for pid in self.processes():  # none, unless a test has failed
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.processes())
