"""The lease's deadline: an owner that is stopped or hangs keeps no limit, and changes nothing after it."""

import json
import os
from collections.abc import Callable, Iterator

import pytest
from conftest import Host

from resctrl_hooks.core.node.host.instance import RunningError
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.observe.node.guard import lease as lease_module
from resctrl_hooks.observe.node.guard.guard import Guard
from resctrl_hooks.observe.node.guard.lease import EXPERIMENT, GUARD, NAME, Lease, LeaseEndedError
from resctrl_hooks.observe.node.guard.recovery import become_owner, restore_ended
from resctrl_hooks.observe.node.guard.watch import INTERVAL, Watch
from resctrl_hooks.observe.node.sampler.command import guard_command

from .node import FULL, Node

CUT, DECLARED = "MB:0=90", "MB:0=100"


class Clock:
    """CLOCK_BOOTTIME, which the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the seconds since boot."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(lease_module, "boot_time", made)
    return made


@pytest.fixture
def node(host: Host) -> Iterator[Node]:
    """A node whose guard, this process, holds the lock."""
    made = Node(host)
    host.state.mkdir(parents=True)
    lock = become_owner(str(host.state), GUARD)
    yield made
    os.close(lock)


def lowered(node: Node) -> Guard:
    """Return a guard of this process that has lowered a class."""
    guard = node.guard(pid=os.getpid())
    node.pass_time(guard, FULL, 6)
    assert node.limit("bronze") == CUT
    return guard


def by_reconcile(node: Node) -> None:
    assert reconcile(node.context()).number("repaired") == 1


def by_guard_restore(node: Node) -> None:
    context = node.context()
    assert restore_ended(context).failed == []


def by_the_resident_process(node: Node) -> None:
    Watch(node.context()).step(0.0)


RESTORERS = (by_reconcile, by_guard_restore, by_the_resident_process)


@pytest.mark.parametrize("restore", RESTORERS)
def test_values_of_a_hung_owner_are_restored_after_its_deadline(
    node: Node, clock: Clock, restore: Callable[[Node], None]
) -> None:
    guard = lowered(node)
    clock.now += 62.0
    restore(node)
    assert node.limit("bronze").endswith(DECLARED)
    assert (node.host.state / NAME).exists(), "a late write of the owner must be found"
    writes = len(node.fs.writes)
    with pytest.raises(LeaseEndedError, match="the guard was stopped or hung for longer than its lease of 60 s"):
        node.pass_time(guard, FULL, 6)
    assert guard.end()
    assert len(node.fs.writes) == writes
    assert not (node.host.state / NAME).exists()


@pytest.mark.parametrize("passed", [0.0, 59.0])
def test_values_of_a_working_owner_stay_until_its_deadline(node: Node, clock: Clock, passed: float) -> None:
    lowered(node)
    clock.now += passed
    with pytest.raises(RunningError, match=f"the guard is running, process {os.getpid()}"):
        by_guard_restore(node)
    assert reconcile(node.context()).number("repaired") == 0
    by_the_resident_process(node)
    assert node.limit("bronze") == CUT


def test_working_owner_extends_its_lease_for_ever(node: Node, clock: Clock) -> None:
    guard = lowered(node)
    for _ in range(50):
        clock.now += 20.0
        node.pass_time(guard, {"gold": 20.0, "silver": 20.0, "bronze": 40.0}, 1)
        with pytest.raises(RunningError):
            by_guard_restore(node)
    assert node.limit("bronze") == CUT


def test_long_interval_has_a_longer_lease(node: Node, clock: Clock) -> None:
    section = {"mode": "act", "protect": ["gold"], "throttle": {"bronze": {"floor": 20}}, "interval": 60}
    node.host.configure(rdt={"guard": section}, monitoring={"capacity": {"*": 100e9}})
    lowered(node)
    assert json.loads((node.host.state / NAME).read_text())["deadline"] == clock.now + 180


@pytest.mark.parametrize("when", ["before the lease", "before the write", "after the write"])
def test_owner_that_is_stopped_during_a_change_leaves_no_limit(
    node: Node, clock: Clock, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    guard = lowered(node)
    stops: list[float] = []

    def stop(*_: object) -> None:
        if not stops:
            stops.append(clock.now)
            clock.now += 62.0
            by_guard_restore(node)

    if when == "before the lease":
        write = Lease.write

        def late(self: Lease) -> None:
            stop()
            write(self)

        monkeypatch.setattr(Lease, "write", late)
    else:
        setattr(node.fs, when.partition(" ")[0], lambda path: stop() if not stops else None)
    with pytest.raises(LeaseEndedError):
        node.pass_time(guard, FULL, 20)
    assert stops
    assert node.limit("bronze") == DECLARED
    assert guard.end()


def test_value_of_another_program_stays_when_a_lease_ends(node: Node, clock: Clock) -> None:
    lowered(node)
    (node.root / "bronze/schemata").write_text("MB:0=70\n")
    clock.now += 62.0
    by_guard_restore(node)
    assert node.limit("bronze") == "MB:0=70"


def test_lease_of_another_owner_than_the_locks_stays(node: Node, clock: Clock) -> None:
    node.pass_time(node.guard(pid=999_999), FULL, 6)
    clock.now += 1000.0
    with pytest.raises(RunningError):
        by_guard_restore(node)
    assert node.limit("bronze") == CUT


def test_lease_without_a_deadline_lasts_as_long_as_its_owner(node: Node, clock: Clock) -> None:
    lowered(node)
    path = node.host.state / NAME
    record = json.loads(path.read_text())
    path.write_text(json.dumps({name: record[name] for name in ("pid", "start", "boot", "declared", "ours")}))
    clock.now += 1e6
    with pytest.raises(RunningError):
        by_guard_restore(node)
    assert node.limit("bronze") == CUT


def test_lock_names_its_owner_in_a_column_that_the_last_version_reads(host: Host) -> None:
    host.state.mkdir(parents=True)
    lock = become_owner(str(host.state), EXPERIMENT)
    text = (host.state / "guard.lock").read_bytes()
    assert (text[:20].strip(), text[20:]) == (str(os.getpid()).encode(), b"an experiment")
    with pytest.raises(RunningError, match=f"an experiment is running, process {os.getpid()}"):
        become_owner(str(host.state), GUARD)
    os.close(lock)


def test_nobody_becomes_the_owner_during_a_restoration(node: Node, clock: Clock) -> None:
    lowered(node)
    clock.now += 62.0
    tried: list[str] = []

    def other(_: str) -> None:
        with pytest.raises(RunningError) as caught:
            by_guard_restore(node)
        tried.append(str(caught.value))

    node.fs.before = other
    by_guard_restore(node)
    assert tried == [f"a restoration of MB values is running, process {os.getpid()}"]


def test_guard_restore_names_an_experiment_that_works(host: Host, capfd: pytest.CaptureFixture[str]) -> None:
    node = Node(host)
    lowered(node)
    lock = become_owner(str(host.state), EXPERIMENT)
    assert guard_command(str(host.config), ["restore"]) == 1
    os.close(lock)
    expected = f"guard: an experiment is running, process {os.getpid()}; its end restores all values"
    assert expected in capfd.readouterr().err


def test_resident_process_reports_a_damaged_lease_once(host: Host) -> None:
    node = Node(host)
    host.state.mkdir(parents=True)
    (host.state / NAME).write_text("{")
    context = node.context()
    watch = Watch(context)
    for number in range(5):
        watch.step(number * INTERVAL)
    assert len([line for line in node.lines if "is damaged" in line]) == 1
