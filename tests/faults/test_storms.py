"""Many hooks at once as whole processes: in the order of the rules, during turns, and killed at random moments."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import CONTAINERDS, Host, containerd_annotations, crio_annotations, state
from hosts import crun

from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.settings import DEFAULTS
from resctrl_hooks.core.node.sharing.admission import _SHARE_OF_DEADLINE
from resctrl_hooks.lab.simulation.mount import mounted

HOUSES = ("lab",)
pytestmark = [pytest.mark.fuse, pytest.mark.no_cover]


PODS = 200
PATIENT = 60  # the test shows that nothing gets lost, not this machine's speed
COUNTED = 40
NAMESPACES = ("gold", "silver", "batch", "other")
RULES = [
    {"namespaces": ["gold"], "value": 100},
    {"namespaces": ["silver"], "value": 50},
    {"namespaces": ["batch"], "value": -10},
]
GOLD = COUNTED // 2
"""Pods of the highest priority: all of them are counted, whenever they come; the others are a mix."""


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    running = [subprocess.Popen(["sleep", "600"]) for _ in range(PODS)]
    yield running
    for process in running:
        process.kill()
        process.wait()


def host_on(resctrl: str, folder: Path, deadline: float, **config: Any) -> Host:
    """Return a host on a mounted resctrl, whose runtime is crun."""
    return Host(
        folder,
        real_proc=True,
        resctrl=Path(resctrl),
        deadlineSeconds=deadline,
        **config,
    )


def outcomes_of(host: Host, states: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Start a hook for each state before waiting for any; return each one's stderr and exit code."""
    running = []
    for number, told in enumerate(states):
        path = host.root / f"state-{number}.json"
        path.write_text(json.dumps(told))
        with path.open("rb") as file:
            running.append(subprocess.Popen(host.command(), stdin=file, stderr=subprocess.PIPE, env={}, cwd="/"))
    return [(process.communicate()[1].decode(), process.returncode) for process in running]


def pods_of(host: Host, sleepers: list[subprocess.Popen[bytes]]) -> dict[str, tuple[str, dict[str, Any]]]:
    """By key the namespace and the state for the hook; the pods that matter come spread over all the others."""
    found = {}
    for number, process in enumerate(sleepers):
        key = str(uuid.UUID(int=number + (9 << 100)))
        gold = number % (PODS // GOLD) == PODS // GOLD - 1
        namespace = "gold" if gold else NAMESPACES[1 + number % 3]
        annotations = containerd_annotations(key, namespace)
        bundle = host.bundle({"annotations": annotations, "linux": {}}, f"{CONTAINERDS}/{number}")
        told = state(id=f"{number:064x}", pid=process.pid, bundle=bundle, annotations=annotations)
        crun.record(host.root / "crun", told["id"], process.pid, bundle)
        found[key] = (namespace, told)
    return found


@pytest.mark.ci
@pytest.mark.parametrize("deadline", [PATIENT, DEFAULTS["deadlineSeconds"]], ids=["patient", "default deadline"])
def test_two_hundred_parallel_hooks_end_as_the_rules_require(
    tmp_path: Path, sleepers: list[subprocess.Popen[bytes]], deadline: float
) -> None:
    with mounted(tmp_path / "resctrl", rmids=COUNTED + 1, limbo=0.1) as resctrl:
        host = host_on(resctrl, tmp_path, deadline, monitoring={"priority": RULES})
        pods = pods_of(host, sleepers)
        started = time.monotonic()
        outcomes = outcomes_of(host, [told for _, told in pods.values()])
        had_time = time.monotonic() - started < deadline * _SHARE_OF_DEADLINE
        assert {code for _, code in outcomes} == {0}
        after_hooks = sorted(pods[Path(group).name][0] for group in host.groups())
        late = sum("deadline of the hook" in said or "was held for" in said for said, _ in outcomes)
        print(f"{late} hooks of {PODS} ran out of time and left their pods to reconcile")
        print({name: after_hooks.count(name) for name in NAMESPACES}, "after the hooks")

        order = ["gold"] * GOLD + ["silver"] * (COUNTED - GOLD)
        assert not had_time or after_hooks == order, "the hooks alone give the order, if they have the time"

        report = reconcile(host.context())
        assert not report.events["failed"], report.events["failed"]
        counted = sorted(pods[Path(group).name][0] for group in host.groups())
        assert counted == order
        for key, (_, told) in pods.items():
            if f"mon_groups/{key}" in host.groups():
                assert told["pid"] in host.tasks(f"mon_groups/{key}")
            else:
                assert key in host.context().ledger.marked("waiting")
        assert not reconcile(host.context()).events["adopted"]


WITHOUT_PAUSE = """
import sys
from resctrl_hooks.core.node.reconcile import command
from collections.abc import Iterator
command.SHORTEST_PAUSE = 0.01
sys.exit(command.reconcile_command(sys.argv[1], ["--watch", "0.01"]))
"""


@pytest.mark.ci
def test_hooks_run_during_turns(tmp_path: Path, sleepers: list[subprocess.Popen[bytes]]) -> None:
    """Two reconciles pass without a pause, each pass a round of turns, while all hooks come at once."""
    with mounted(tmp_path / "resctrl", rmids=COUNTED + 1, limbo=0.1) as resctrl:
        monitoring = {"priority": RULES, "share": {"interval": 0.001, "atLeast": 0}}
        host = host_on(resctrl, tmp_path, PATIENT, monitoring=monitoring)
        pods = pods_of(host, sleepers[:100])
        watching = [sys.executable, "-c", WITHOUT_PAUSE, str(host.config)]
        passing = [subprocess.Popen(watching, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(2)]
        try:
            outcomes = outcomes_of(host, [told for _, told in pods.values()])
        finally:
            for process in passing:
                process.terminate()
                process.wait()
        assert {code for _, code in outcomes} == {0}
        turns = host.log.read_text().count("RMID handover from")
        print(f"{turns} RMIDs were handed on meanwhile")

        ledger = host.context().ledger
        for _ in range(2):  # complete the work of the two killed ones
            report = reconcile(host.context())
            assert not report.events["failed"], report.events["failed"]
        groups = {Path(group).name for group in host.groups()}
        assert groups == {entry.split(".", 2)[2] for entry in ledger.marked("rmids")}
        assert groups | set(ledger.marked("waiting")) == set(pods)
        for key, (_, told) in pods.items():
            places = [group for group in host.groups() if told["pid"] in host.tasks(group)]
            assert places == ([f"mon_groups/{key}"] if key in groups else [])


KILLS = int(os.environ.get("STORM_KILLS", "10"))
"""How many hooks and reconciles are killed at least; `nox -s deep` kills 500."""
KILLED_PODS, CONTAINERS, RECONCILES = 8, 3, 2
LONGEST = 0.4  # seconds from the start of a process to its kill; some have ended by then


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
        for pod in range(KILLED_PODS):
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
    with mounted(tmp_path / "resctrl", rmids=2 * KILLED_PODS + 8, limbo=0.0) as resctrl:
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
