"""Whole hook processes that strace kills or gives an error, with memtierds, whose supervisors live on.

`test_interruptions` interrupts the code at all of its effects; here are the interpreter, the launcher and programs.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hosts.memtierd import CLASS, TEMPLATE, program
from hosts.node import Container, Node
from hosts.processes import wait_until
from hosts.traced_hook import SystemCall, TracedHook

from resctrl_hooks.core.node.features.memtierd import feature as memtierd
from resctrl_hooks.core.node.features.memtierd.processes import living
from resctrl_hooks.core.node.features.memtierd.run_dir import run_folders
from resctrl_hooks.core.node.host.files import UNFINISHED
from resctrl_hooks.core.node.settings import Settings

pytestmark = pytest.mark.no_cover
EVERY = int(os.environ.get("FAULTS_EVERY", "24"))
TRIES = 8  # a hook that waits for memtierd's end looks now more and now less often, so that a call's number shifts
NAP = "--inject=clock_nanosleep:delay_exit=50000"  # long enough that one is nearly always all it takes
CHANGES = ("items", "threadsMoved", "containersCleaned", "repaired", "tidied")
POD = "5a0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c05"
LIMITS = {"memory.swap.max": "0", "memory.high": str(64 << 20)}
STAND_IN = '#!/bin/sh\nexec "$(dirname "$0")/sleeper" 1000\n'


class Crowd(Node):
    """A node with a container that has a memtierd, and a starting one of another pod, that has limits besides."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        binary = program(root / "memtierd", STAND_IN)
        shutil.copy("/bin/sleep", root / "sleeper")
        self.cgroup_files = {"memory.swap.max": "max", "memory.high": "max", "memory.current": "4096"}
        self.run_dir = str(root / "memtierds")
        no_looks = {"supervisor": "process", "startSeconds": 0}  # their number would differ from run to run
        self.configure(
            classes=[{"name": "track", "allowswap": False, "memtierdconfig": TEMPLATE}],
            memory={"allowLimits": {"shop": ["memory.high"]}, "failurePolicy": "ignore"},
            memtierd={"runDir": self.run_dir, "binary": binary, "failurePolicy": "ignore", **no_looks},
        )
        self.traced = TracedHook(self)
        self.main = Container(f"{1:064x}", POD, {CLASS: "track", "memory.high.memtierd.nri.io": "64M"})
        self.run_hook(self.oci(self.spawn(Container(f"{2:064x}", notes={CLASS: "track"}))))
        self.before = self.seen()

    def run_hook(self, state: dict[str, Any]) -> None:
        assert self.call(state, alone=True)[:2] == (0, "")

    def created(self) -> dict[str, Any]:
        """Return a container whose process waits for its hooks."""
        return self.oci(self.spawn(self.main))

    def ends(self) -> None:
        """End the container and its pod; the runtime has deleted it."""
        self.end(self.main)
        self.end_pod(POD)
        shutil.rmtree(self.crun / self.main.id, ignore_errors=True)

    def ended(self) -> dict[str, Any]:
        """Return the state of a container whose poststop is still to come."""
        self.run_hook(self.created())
        self.ends()
        return self.oci(self.main, "stopped")

    def end_and_reconcile(self) -> None:
        """End the container without a poststop; reconcile leaves nothing of it either."""
        self.ends()
        self.pass_alone()
        assert self.seen() == self.before

    def pass_alone(self) -> dict[str, Any]:
        """Run one reconcile as the timer does, in a separate process; it names the supervisors that it starts.

        A minute has passed, so that it removes what killed writers left unfinished, and a second one finds nothing.
        """
        for unfinished in self.state.glob(f"*{UNFINISHED}*"):
            os.utime(unfinished, (0, 0))
        words = [*self.command("reconcile"), "--json"]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        report: dict[str, Any] = json.loads(done.stdout)
        assert (done.returncode, report["ok"]) == (0, True), (report, done.stderr)
        return report

    def processes(self) -> set[int]:
        """Return every process of this node: supervisors and memtierds, and any hook."""
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
        for folder in run_folders(self.run_dir):
            if (opened := folder.open()) is not None:
                if self.context().ledger.key_of(folder.parts[-1]):
                    found.update(living(opened))
                opened.close()
        return found

    def seen(self) -> dict[str, Any]:
        """Return all leftovers of containers on this node; a file of a killed writer belongs to its pod's end."""
        wait_until(lambda: self.processes() == self.named())
        for lock in (self.state / "locks").iterdir():
            with lock.open() as opened:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return {
            "groups": self.groups(),
            "records": [record for record in self.records() if "~" not in record],
            "memtierds": {folder.parts[-1] for folder in run_folders(self.run_dir)},
            "memtierds' cgroups": sorted(path.name for path in (self.cgroup / "resctrl-hooks").iterdir()),
        }


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    crowd = Crowd(tmp_path)
    yield crowd
    for folder in run_folders(crowd.run_dir):
        memtierd.end(folder, folder.parts[-1], str(crowd.cgroup), Settings({}), systemd=False)
    for pid in crowd.processes():  # none, unless a test has failed
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not crowd.processes())


def lives_on(crowd: Crowd) -> dict[str, Any]:
    """Let the container run and a reconcile come, and return all that is there then."""
    crowd.appear(crowd.main)
    crowd.pass_alone()
    seen = crowd.seen()
    assert crowd.main.pid in crowd.tasks(f"mon_groups/{POD}")
    assert {name: (crowd.cgroup / crowd.main.cgroup[1:] / name).read_text() for name in LIMITS} == LIMITS
    assert crowd.main.id in seen["memtierds"]
    again = crowd.pass_alone()
    assert {name: again[name] for name in CHANGES if again[name]} == {}, again.get("items")
    crowd.end_and_reconcile()
    return seen


def dies(crowd: Crowd) -> dict[str, Any]:
    crowd.end_and_reconcile()
    return {}


def has_ended(crowd: Crowd) -> dict[str, Any]:
    crowd.pass_alone()
    assert crowd.seen() == crowd.before
    return {}


class Stage(NamedTuple):
    """A call of the hook: its state, and what follows and returns what is seen then."""

    state: Callable[[Crowd], dict[str, Any]]
    settle: Callable[[Crowd], dict[str, Any]]
    options: tuple[str, ...] = ()


STAGES = {
    "createRuntime": Stage(Crowd.created, lives_on),
    "createRuntime, dead at once": Stage(Crowd.created, dies),
    "poststop": Stage(Crowd.ended, has_ended, (NAP,)),
}


def attempt(crowd: Crowd, stage: Stage, point: SystemCall, option: str, wanted: dict[str, Any]) -> bool:
    """Interrupt a hook at a call; return whether it was interrupted there."""
    done = crowd.traced.run(stage.state(crowd), *stage.options, option)
    hit = crowd.traced.was_killed_at(point) if "signal=" in option else crowd.traced.was_refused
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), (point, done.stderr)
    assert stage.settle(crowd) == wanted, (point, done.stderr)
    return hit


def error_at(call: SystemCall) -> str:
    """Return strace's option for an error at a call: one that does not mean a missing file."""
    number = "ENFILE" if call.name == "openat" else "EIO"
    return f"--inject={call.name}:error={number}:when={call.number}"


@pytest.mark.parametrize(
    "name, every", [("createRuntime", 4 * EVERY), *(pytest.param(name, 1, marks=pytest.mark.ci) for name in STAGES)]
)
def test_interrupted_hook_process_is_repaired_by_one_reconcile(crowd: Crowd, name: str, every: int) -> None:
    stage = STAGES[name]
    assert crowd.traced.run(stage.state(crowd), *stage.options).returncode == 0
    calls = crowd.traced.calls()
    wanted = stage.settle(crowd)
    kills = [call for call in calls if call.is_effect][::every]
    for point in kills:
        assert any(attempt(crowd, stage, point, point.kill(), wanted) for _ in range(TRIES)), point
    errors = [attempt(crowd, stage, point, error_at(point), wanted) for point in calls[:: EVERY * every]]
    assert any(errors) or every > 1
    print(f"{name}: {len(kills)} kills, {sum(errors)} errors at {len(calls)} system calls")
