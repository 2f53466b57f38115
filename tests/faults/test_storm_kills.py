"""Parallel hooks of many pods, killed at random moments, with parallel reconciles: one reconcile repairs everything."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
import time
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from conftest import Host, crio_annotations, state
from hosts import crun

from faults.test_storm_by_priority import host_on
from resctrl_hooks.lab.simulation.mount import mounted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOUSES = ("lab",)
KILLS = int(os.environ.get("STORM_KILLS", "10"))
"""How many hooks and reconciles are killed at least; `nox -s deep` kills 500."""
PODS, CONTAINERS, RECONCILES = 8, 3, 2
LONGEST = 0.4  # seconds from the start of a process to its kill; some have ended by then
PATIENT = 60
pytestmark = [pytest.mark.fuse, pytest.mark.no_cover]


class Storm:
    """A host with pods whose containers are real processes."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.random = random.Random(28)
        self.killed: Counter[str] = Counter()
        self.serial = 0
        self.processes: list[subprocess.Popen[bytes]] = []

    def containers(self) -> dict[str, dict[str, Any]]:
        """Start the processes of new pods; return each container's state by id."""
        found = {}
        for pod in range(PODS):
            self.serial += 1
            key = str(uuid.UUID(int=self.serial + (5 << 100)))
            for number in range(CONTAINERS):
                id_ = f"{self.serial:x}{number:063x}"
                self.processes.append(subprocess.Popen(["sleep", "600"]))
                annotations = crio_annotations(key)
                config = {"annotations": annotations, "linux": {"cgroupsPath": f"/x/crio-{id_}"}}
                found[id_] = state(
                    id=id_,
                    pid=self.processes[-1].pid,
                    bundle=self.host.bundle(config, f"bundle-{pod}-{number}"),
                    annotations=annotations,
                )
        return found

    def rage(self, states: list[dict[str, Any]]) -> None:
        """Call a hook for each state and some reconciles, all at once; kill most of them."""
        commands = [("hook", one) for one in states] + [("reconcile", {})] * RECONCILES
        self.random.shuffle(commands)
        running = []
        for number, (command, given) in enumerate(commands):
            path = self.host.root / f"given-{number}"
            path.write_text(json.dumps(given))
            with path.open("rb") as stdin:
                words = self.host.command(command)
                done = subprocess.Popen(
                    words, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={}
                )
            killer = threading.Timer(self.random.random() * LONGEST, done.send_signal, (signal.SIGKILL,))
            if self.random.random() < 0.8:
                killer.start()
            running.append((f"{command} {given.get('status', '')}".strip(), done, killer))
        for name, done, killer in running:
            code = done.wait(PATIENT)
            killer.cancel()
            assert code in (0, 1, -signal.SIGKILL), name  # a reconcile fails if others have the locks all the time
            self.killed[name] += code == -signal.SIGKILL

    def run_on(self, told: dict[str, Any]) -> None:
        """The runtime goes on: the container is in its state folder."""
        crun.record(self.host.root / "crun", told["id"], told["pid"], told["bundle"])

    def end(self) -> None:
        """End all containers, whose runtime has deleted them."""
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes.clear()
        for status in (self.host.root / "crun").glob("*/status"):
            status.unlink()

    def reconcile(self) -> None:
        """Reconcile in a process of its own, as the timer does, until no file that a killed writer left is young."""
        done = subprocess.run(self.host.command("reconcile"), capture_output=True, env={}, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()


@pytest.fixture
def storm(tmp_path: Path) -> Iterator[Storm]:
    with mounted(tmp_path / "resctrl", rmids=2 * PODS + 8, limbo=0.0) as resctrl:
        root = tmp_path / "host"
        host = host_on(resctrl, root, PATIENT)
        (root / "crun").mkdir()
        found = Storm(host)
        yield found
        found.end()


def test_killed_hooks_and_reconciles_of_many_pods_are_finished_by_one_reconcile(storm: Storm) -> None:
    rounds, started = 0, time.monotonic()
    while not rounds or storm.killed.total() < KILLS:
        rounds += 1
        told = storm.containers()
        storm.rage(list(told.values()))
        for one in told.values():
            storm.run_on(one)
        storm.reconcile()
        groups = {id_: f"mon_groups/{one['annotations']['io.kubernetes.pod.uid']}" for id_, one in told.items()}
        assert storm.host.groups() == sorted(set(groups.values()))
        for id_, group in groups.items():
            assert told[id_]["pid"] in storm.host.tasks(group)
        assert sorted(storm.host.context().ledger.containers()) == sorted(told)

        storm.end()
        storm.rage([{**one, "status": "stopped", "pid": 0, "annotations": {}} for one in told.values()])
        storm.reconcile()
        assert storm.host.groups() == []
        assert [record for record in storm.host.records() if "~" not in record] == []
    print(f"{storm.killed.total()} kills in {rounds} rounds, {time.monotonic() - started:.0f} s: {dict(storm.killed)}")
