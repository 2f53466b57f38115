"""Whole hook processes that strace kills or gives an error, with memtierds, whose supervisors live on.

`test_interruptions` interrupts the code at all of its effects; here are the interpreter, the launcher and programs.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import Host
from hosts.crowded import LIMITS, MAIN, POD, Crowd
from hosts.placed import id_of
from hosts.traced_hook import SystemCall

pytestmark = pytest.mark.no_cover
EVERY = int(os.environ.get("FAULTS_EVERY", "24"))
TRIES = 8  # a hook that waits for memtierd's end looks now more and now less often, so that a call's number shifts
NAP = "--inject=clock_nanosleep:delay_exit=50000"  # long enough that one is nearly always all it takes
CHANGES = ("items", "threadsMoved", "containersCleaned", "repaired", "tidied")


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    crowd = Crowd(Host(tmp_path))
    values = json.loads(crowd.config.read_text())
    for name in ("memory", "memtierd"):
        values[name]["failurePolicy"] = "ignore"
    crowd.config.write_text(json.dumps(values))
    yield crowd
    crowd.clean()


def lives_on(crowd: Crowd, state: dict[str, Any]) -> dict[str, Any]:
    """Let the container run and a reconcile come, and return all that is there then."""
    crowd.runs(state)
    crowd.pass_alone()
    seen = crowd.seen() | {"limits": crowd.limits()}
    assert crowd.pids[MAIN] in crowd.tasks(f"mon_groups/{POD}")
    assert seen["limits"] == LIMITS
    assert id_of(MAIN) in seen["memtierds"]
    again = crowd.pass_alone()
    assert {name: again[name] for name in CHANGES if again[name]} == {}, again.get("items")
    crowd.end_and_reconcile()
    return seen


def dies(crowd: Crowd, _: dict[str, Any]) -> dict[str, Any]:
    crowd.end_and_reconcile()
    return {}


def has_ended(crowd: Crowd, _: dict[str, Any]) -> dict[str, Any]:
    crowd.pass_alone()
    assert crowd.seen() == crowd.before
    return {}


class Stage(NamedTuple):
    """A call of the hook: its state, and what follows and returns what is seen then."""

    state: Callable[[Crowd], dict[str, Any]]
    settle: Callable[[Crowd, dict[str, Any]], dict[str, Any]]
    options: tuple[str, ...] = ()


STAGES = {
    "createRuntime": Stage(Crowd.created, lives_on),
    "createRuntime, dead at once": Stage(Crowd.created, dies),
    "poststop": Stage(Crowd.ended, has_ended, (NAP,)),
}


def attempt(crowd: Crowd, stage: Stage, point: SystemCall, option: str, wanted: dict[str, Any]) -> bool:
    """Interrupt a hook at a call; return whether it was interrupted there."""
    state = stage.state(crowd)
    done = crowd.traced.run(state, *stage.options, option)
    hit = crowd.traced.was_killed_at(point) if "signal=" in option else crowd.traced.was_refused
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), (point, done.stderr)
    assert stage.settle(crowd, state) == wanted, (point, done.stderr)
    return hit


def error_at(call: SystemCall) -> str:
    """Return strace's option for an error at a call: one that does not mean a missing file."""
    number = "ENFILE" if call.name == "openat" else "EIO"
    return f"--inject={call.name}:error={number}:when={call.number}"


@pytest.mark.parametrize(
    "name, kind, every",
    [
        ("createRuntime", "exclusive", 4 * EVERY),
        *(pytest.param(name, "exclusive", 1, marks=pytest.mark.ci) for name in STAGES),
        pytest.param("createRuntime", "shared", 1, marks=pytest.mark.ci),
    ],
)
def test_interrupted_hook_process_is_repaired_by_one_reconcile(crowd: Crowd, name: str, kind: str, every: int) -> None:
    stage = STAGES[name]
    crowd.kind = kind
    state = stage.state(crowd)
    assert crowd.traced.run(state, *stage.options).returncode == 0
    calls = crowd.traced.calls()
    wanted = stage.settle(crowd, state)
    kills = [call for call in calls if call.is_effect][::every]
    for point in kills:
        assert any(attempt(crowd, stage, point, point.kill(), wanted) for _ in range(TRIES)), point
    errors = [attempt(crowd, stage, point, error_at(point), wanted) for point in calls[:: EVERY * every]]
    assert any(errors) or every > 1
    print(f"{name}, {kind}: {len(kills)} kills, {sum(errors)} errors at {len(calls)} system calls")
