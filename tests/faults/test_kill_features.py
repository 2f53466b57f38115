"""The hook killed on a host with features that have external effects: placement, memory limits, memtierd.

Every system call with an effect is a kill point, and every `LOOKS`-th of the others. strace kills the hook only: a
started supervisor continues, as on a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from conftest import Host
from hosts.crowded import KINDS, LIMITS, MAIN, POD, Crowd
from hosts.placed import id_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hosts.traced_hook import SystemCall

pytestmark = pytest.mark.no_cover
CHANGES = ("items", "threadsMoved", "containersCleaned", "repaired", "tidied")
LOOKS = 5  # of the calls that change nothing, one in so many is tried
TRIES = 8  # a hook that waits for memtierd's end looks now more and now less often, so that a call's number shifts
NAP = "--inject=clock_nanosleep:delay_exit=50000"  # long enough that one is nearly always all it takes


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    crowd = Crowd(Host(tmp_path))
    yield crowd
    crowd.clean()


def chosen(calls: list[SystemCall], every: int = LOOKS) -> list[SystemCall]:
    """Return the kill points among a run's calls: those with an effect, and of the others each so many-th."""
    looks = [call for call in calls if not call.is_effect]
    kept = set(looks[::every] if every else ())
    return [call for call in calls if call.is_effect or call in kept]


def killed_at(crowd: Crowd, point: SystemCall, state: dict[str, Any], *options: str) -> bool:
    """Run the hook until it is killed, and say whether that was where it should be."""
    done = crowd.traced.run(state, *options, point.kill())
    assert done.returncode == 0, (point, done.stderr)
    return crowd.traced.was_killed_at(point)


def until_killed(point: SystemCall, attempt: Callable[[SystemCall], bool]) -> None:
    """Try until the hook is killed where it should be; ``attempt`` says whether it was."""
    if not any(attempt(point) for _ in range(TRIES)):
        pytest.fail(f"the hook was never killed at {point}")


def assert_lives_on(crowd: Crowd, after: dict[str, Any]) -> None:
    """Check that the living container has everything that a hook which is not killed provides."""
    assert crowd.seen() == after
    assert crowd.pids[MAIN] in crowd.host.tasks(f"mon_groups/{POD}")
    assert crowd.limits() == LIMITS
    again = crowd.pass_alone()
    assert {name: again[name] for name in CHANGES if again[name]} == {}, again.get("items")


@pytest.mark.parametrize("kind", KINDS)
def test_create_runtime_killed_anywhere_is_repaired_by_one_reconcile(crowd: Crowd, kind: str) -> None:
    crowd.kind = kind
    state = crowd.created()
    assert crowd.traced.run(state).returncode == 0
    points = chosen(crowd.traced.calls())
    crowd.runs(state)
    after = crowd.seen()
    assert crowd.limits() == LIMITS
    assert id_of(MAIN) in after["memtierds"]
    assert (after["cpus"] != crowd.before["cpus"]) == (
        crowd.placed and kind == "exclusive"
    )  # containers that share have made room
    crowd.end_and_reconcile()

    def attempt(point: SystemCall) -> bool:
        state = crowd.created()
        hit = killed_at(crowd, point, state)
        crowd.runs(state)
        crowd.pass_alone()
        assert_lives_on(crowd, after)
        crowd.end_and_reconcile()
        return hit

    for point in points:
        until_killed(point, attempt)
    print(f"createRuntime, {kind}: {len(points)} kill points")


def test_container_that_dies_with_its_killed_hook_leaves_nothing(crowd: Crowd) -> None:
    assert crowd.traced.run(crowd.created()).returncode == 0
    points = chosen(crowd.traced.calls(), 0)
    crowd.end_and_reconcile()

    def attempt(point: SystemCall) -> bool:
        hit = killed_at(crowd, point, crowd.created())
        crowd.end_and_reconcile()
        return hit

    for point in points:
        until_killed(point, attempt)
    print(f"createRuntime, dead at once: {len(points)} kill points")


def test_poststop_killed_anywhere_is_repaired_by_one_reconcile(crowd: Crowd) -> None:
    assert crowd.traced.run(crowd.ended(), NAP).returncode == 0
    assert crowd.seen() == crowd.before
    points = chosen(crowd.traced.calls())

    def attempt(point: SystemCall) -> bool:
        hit = killed_at(crowd, point, crowd.ended(), NAP)
        crowd.pass_alone()
        assert crowd.seen() == crowd.before, point
        return hit

    for point in points:
        until_killed(point, attempt)
    print(f"poststop: {len(points)} kill points")
