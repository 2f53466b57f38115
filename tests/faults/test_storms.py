"""Many hooks at once as whole processes: in the order of the rules, during turns, and killed at random moments."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import CONTAINERDS, containerd_annotations
from hosts.node import Container, Node, pod_number, stopped
from hosts.shared_node import RULES

from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.settings import DEFAULTS
from resctrl_hooks.core.node.sharing.admission import _SHARE_OF_DEADLINE
from resctrl_hooks.lab.simulation.mount import mounted

HOUSES = ("lab",)
pytestmark = [pytest.mark.fuse, pytest.mark.no_cover]
PODS, COUNTED = 200, 40
GOLD = COUNTED // 2
"""Pods of the highest priority: all of them are counted, whenever they come; the others are a mix."""
PATIENT = 60  # the test shows that nothing gets lost, not this machine's speed
NAMESPACES = ("gold", "silver", "batch", "other")
KILLS = int(os.environ.get("STORM_KILLS", "10"))
"""How many hooks and reconciles are killed at least; `nox -s deep` kills 500."""
KILLED_PODS, CONTAINERS, RECONCILES = 8, 3, 2
LONGEST = 0.4  # seconds from the start of a process to its kill; some have ended by then
WITHOUT_PAUSE = """
import sys
from resctrl_hooks.core.node.reconcile import command
command.SHORTEST_PAUSE = 0.01
sys.exit(command.reconcile_command(sys.argv[1], ["--watch", "0.01"]))
"""


class ContainerdNode(Node):
    """A node whose containers are containerd's."""

    def bundle_of(self, container: Container) -> str:
        return f"{CONTAINERDS}/{container.id[-8:]}"

    def begin(self, number: int, pod: int, namespace: str = "shop") -> Container:
        self.containers.append(Container(f"{number:064x}", pod_number(pod)))
        self.containers[-1].notes = containerd_annotations(pod_number(pod), namespace)
        return self.spawn(self.containers[-1])

    def end_all(self) -> None:
        for container in self.containers:
            self.end(container)
        self.containers.clear()

    def counted(self, pods: dict[str, Container]) -> list[str]:
        """Return the namespaces of pods with groups."""
        keys = (Path(group).name for group in self.groups())
        return sorted(pods[key].notes["io.kubernetes.cri.sandbox-namespace"] for key in keys)


@contextmanager
def node_on(
    folder: Path, rmids: int, deadline: float = PATIENT, *, limbo: float = 0.1, **config: Any
) -> Iterator[ContainerdNode]:
    """Yield a node with a mounted resctrl and real processes, which end afterwards."""
    with mounted(folder / "resctrl", rmids=rmids, limbo=limbo) as resctrl:
        node = ContainerdNode(
            folder / "node", real_proc=True, resctrl=Path(resctrl), deadlineSeconds=deadline, **config
        )
        try:
            yield node
        finally:
            node.end_all()


def called(node: ContainerdNode, command: str, told: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start a command, such as the hook, whose standard input is a state."""
    path = node.root / "told"
    path.unlink(missing_ok=True)
    path.write_text(json.dumps(told))
    with path.open("rb") as stdin:
        words, pipe = node.command(command), subprocess.PIPE
        return subprocess.Popen(words, stdin=stdin, stdout=subprocess.DEVNULL, stderr=pipe, env={}, cwd="/")


def pods_of(node: ContainerdNode, count: int) -> dict[str, Container]:
    """Start pods, by key; the ones that matter come spread over all the others."""
    found = {}
    for number in range(count):
        gold = number % (PODS // GOLD) == PODS // GOLD - 1
        container = node.begin(number, number, "gold" if gold else NAMESPACES[1 + number % 3])
        found[container.key] = node.appear(container)
    return found


def outcomes_of(node: ContainerdNode, pods: dict[str, Container]) -> list[str]:
    """Start a hook for each pod before waiting for any, which all succeed; return each one's stderr."""
    running = [called(node, "hook", node.oci(pod)) for pod in pods.values()]
    said = [process.communicate()[1].decode() for process in running]
    assert {process.returncode for process in running} == {0}
    return said


@pytest.mark.ci
@pytest.mark.parametrize("deadline", [PATIENT, DEFAULTS["deadlineSeconds"]], ids=["patient", "default deadline"])
def test_two_hundred_parallel_hooks_end_as_the_rules_require(tmp_path: Path, deadline: float) -> None:
    with node_on(tmp_path, COUNTED + 1, deadline, monitoring={"priority": RULES}) as node:
        pods = pods_of(node, PODS)
        started = time.monotonic()
        outcomes = outcomes_of(node, pods)
        had_time = time.monotonic() - started < deadline * _SHARE_OF_DEADLINE
        after_hooks = node.counted(pods)
        late = sum("deadline of the hook" in said or "was held for" in said for said in outcomes)
        print(f"{late} hooks of {PODS} ran out of time and left their pods to reconcile")
        print({name: after_hooks.count(name) for name in NAMESPACES}, "after the hooks")

        order = ["gold"] * GOLD + ["silver"] * (COUNTED - GOLD)
        assert not had_time or after_hooks == order, "the hooks alone give the order, if they have the time"

        report = reconcile(node.context())
        assert not report.events["failed"], report.events["failed"]
        assert node.counted(pods) == order
        for key, pod in pods.items():
            if f"mon_groups/{key}" in node.groups():
                assert pod.pid in node.tasks(f"mon_groups/{key}")
            else:
                assert key in node.marked()
        assert not reconcile(node.context()).events["adopted"]


@pytest.mark.ci
def test_hooks_run_during_turns(tmp_path: Path) -> None:
    """Two reconciles pass without a pause, each pass a round of turns, while all hooks come at once."""
    monitoring = {"priority": RULES, "share": {"interval": 0.001, "atLeast": 0}}
    with node_on(tmp_path, COUNTED + 1, monitoring=monitoring) as node:
        pods = pods_of(node, 100)
        watching = [sys.executable, "-c", WITHOUT_PAUSE, str(node.config)]
        passing = [subprocess.Popen(watching, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(2)]
        try:
            outcomes_of(node, pods)
        finally:
            for process in passing:
                process.terminate()
                process.wait()
        print(f"{node.log.read_text().count('RMID handover from')} RMIDs were handed on meanwhile")

        for _ in range(2):  # complete the work of the two killed ones
            report = reconcile(node.context())
            assert not report.events["failed"], report.events["failed"]
        groups = {Path(group).name for group in node.groups()}
        assert groups == {entry.split(".", 2)[2] for entry in node.marked("rmids")}
        assert groups | set(node.marked()) == set(pods)
        for key, pod in pods.items():
            places = [group for group in node.groups() if pod.pid in node.tasks(group)]
            assert places == ([f"mon_groups/{key}"] if key in groups else [])


def rage(node: ContainerdNode, states: list[dict[str, Any]], draw: random.Random) -> Counter[str]:
    """Call a hook for each state and some reconciles, all at once; kill most of them, and return how many of each."""
    commands = [("hook", one) for one in states] + [("reconcile", {})] * RECONCILES
    draw.shuffle(commands)
    running, killed = [], Counter[str]()
    for command, told in commands:
        done = called(node, command, told)
        killer = threading.Timer(draw.random() * LONGEST, done.send_signal, (signal.SIGKILL,))
        if draw.random() < 0.8:
            killer.start()
        running.append((f"{command} {told.get('status', '')}".strip(), done, killer))
    for name, done, killer in running:
        done.communicate(timeout=PATIENT)
        killer.cancel()
        # A reconcile fails if others have the locks all the time.
        assert done.returncode in (0, 1, -signal.SIGKILL), name
        killed[name] += done.returncode == -signal.SIGKILL
    return killed


def reconcile_alone(node: ContainerdNode) -> None:
    """Reconcile in a process of its own, as the timer does."""
    done = subprocess.run(node.command("reconcile"), capture_output=True, env={}, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def test_killed_hooks_and_reconciles_of_many_pods_are_finished_by_one_reconcile(tmp_path: Path) -> None:
    draw, killed, made, started = random.Random(28), Counter[str](), 0, time.monotonic()
    with node_on(tmp_path, 2 * KILLED_PODS + 8, limbo=0.0) as node:
        while not made or killed.total() < KILLS:
            for number in range(made, made + KILLED_PODS * CONTAINERS):
                node.begin(number, number // CONTAINERS)
            made += KILLED_PODS * CONTAINERS
            killed += rage(node, [node.oci(one) for one in node.containers], draw)
            for one in node.containers:
                node.appear(one)
            reconcile_alone(node)
            assert node.groups() == sorted({f"mon_groups/{one.key}" for one in node.containers})
            for one in node.containers:
                assert one.pid in node.tasks(f"mon_groups/{one.key}")
            ids = [one.id for one in node.containers]
            assert sorted(node.context().ledger.containers()) == ids

            node.end_all()
            for id_ in ids:
                (node.crun / id_ / "status").unlink()
            killed += rage(node, [stopped(id=id_) for id_ in ids], draw)
            reconcile_alone(node)
            assert node.groups() == []
            assert [record for record in node.records() if "~" not in record] == []
    rounds = made // KILLED_PODS // CONTAINERS
    print(f"{killed.total()} kills in {rounds} rounds, {time.monotonic() - started:.0f} s: {dict(killed)}")
