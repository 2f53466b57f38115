"""The lease: which values come back, by whom, and what an unreadable lease, a hung owner or the kernel change of it."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, always
from hosts.faults import failing
from hosts.kernel_values import AfterWrites, Writer, check_kept, check_refused

from resctrl_hooks.core.node.host.instance import RunningError, only_instance
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.release import release_everything
from resctrl_hooks.errors import HookError
from resctrl_hooks.observe.node.guard import lease as lease_module
from resctrl_hooks.observe.node.guard.changes import restore
from resctrl_hooks.observe.node.guard.guard import Guard
from resctrl_hooks.observe.node.guard.lease import EXPERIMENT, GUARD, LOCK, NAME, Lease, LeaseEndedError
from resctrl_hooks.observe.node.guard.recovery import become_owner, restore_ended
from resctrl_hooks.observe.node.sampler.command import guard_command
from resctrl_hooks.observe.node.watch import INTERVAL, Watch
from resctrl_hooks.observe.slowdown.experiment.class_trial import Trial

from .node import FULL, Node, Schemata

CUT, DECLARED = "MB:0=90", "MB:0=100"
RESTORED = ["class bronze, domain 0: MB 90 -> 100"]


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


def lowered(node: Node, pid: int = 0) -> Guard:
    """Return a guard of this process that has lowered a class."""
    guard = node.guard(pid=pid or os.getpid())
    node.pass_time(guard, FULL, 6)
    assert node.limit("bronze") == CUT
    return guard


@pytest.fixture
def left(host: Host) -> Node:
    """A node whose guard has lowered a class, and has ended without a restoration."""
    made = Node(host)
    lowered(made, pid=999_999)
    return made


def by_reconcile(node: Node) -> None:
    assert reconcile(node.context()).number("repaired") == 1


def by_guard_restore(node: Node) -> None:
    assert restore_ended(node.context()).failed == []


def by_the_resident_process(node: Node) -> None:
    Watch(node.context()).step(0.0)


@pytest.mark.parametrize("by", [by_reconcile, by_guard_restore, by_the_resident_process])
def test_values_of_a_hung_owner_are_restored_after_its_deadline(
    node: Node, clock: Clock, by: Callable[[Node], None]
) -> None:
    guard = lowered(node)
    for passed in (0.0, 59.0):  # it works
        clock.now += passed
        with pytest.raises(RunningError, match=f"the guard is running, process {os.getpid()}"):
            by_guard_restore(node)
        assert reconcile(node.context()).number("repaired") == 0
        by_the_resident_process(node)
        assert node.limit("bronze") == CUT
    clock.now += 3.0
    by(node)
    assert node.limit("bronze").endswith(DECLARED)
    assert (node.host.state / NAME).exists(), "a late write of the owner must be found"
    writes = len(node.fs.writes)
    with pytest.raises(LeaseEndedError, match="the guard was stopped or hung for longer than its lease of 60 s"):
        node.pass_time(guard, FULL, 6)
    assert guard.end()
    assert len(node.fs.writes) == writes
    assert not (node.host.state / NAME).exists()


def test_long_interval_has_a_longer_lease(node: Node, clock: Clock) -> None:
    section = {"mode": "act", "protect": ["gold"], "throttle": {"bronze": {"floor": 20}}, "interval": 60}
    node.host.configure(rdt={"guard": section}, monitoring={"capacity": {"*": 100e9}})
    lowered(node)
    assert json.loads((node.host.state / NAME).read_text())["deadline"] == clock.now + 180


def test_owner_that_is_stopped_before_its_lease_is_written_leaves_no_limit(
    node: Node, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, real, stops = lowered(node), Lease.write, list[float]()

    def late(self: Lease) -> None:
        if not stops:
            stops.append(clock.now)
            clock.now += 62.0
            by_guard_restore(node)
        real(self)

    monkeypatch.setattr(Lease, "write", late)
    with pytest.raises(LeaseEndedError):
        node.pass_time(guard, FULL, 20)
    assert node.limit("bronze") == DECLARED
    assert guard.end()


def test_lease_of_another_owner_than_the_locks_stays(node: Node, clock: Clock) -> None:
    lowered(node, pid=999_999)
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


def test_lock_names_its_owner_in_a_column_that_the_last_version_reads(
    host: Host, capfd: pytest.CaptureFixture[str]
) -> None:
    lowered(Node(host))
    lock = become_owner(str(host.state), EXPERIMENT)
    text = (host.state / "guard.lock").read_bytes()
    assert (text[:20].strip(), text[20:]) == (str(os.getpid()).encode(), b"an experiment")
    running = f"an experiment is running, process {os.getpid()}"
    with pytest.raises(RunningError, match=running):
        become_owner(str(host.state), GUARD)
    assert guard_command(str(host.config), ["restore"]) == 1
    assert f"guard: {running}; its end restores all values" in capfd.readouterr().err
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


def test_release_restores_before_the_lease_is_removed_and_not_beside_a_running_guard(left: Node) -> None:
    lock = only_instance(f"{left.host.state}/{LOCK}")
    done = release_everything(left.context())
    os.close(lock)
    assert any(f"another instance is running, process {os.getpid()}; stop it" in line for line in done.problems)
    assert (left.limit("bronze"), (left.host.state / NAME).exists()) == (CUT, True)
    done = release_everything(left.context())
    assert (done.restored, [*done.problems]) == (RESTORED, [])
    assert (left.limit("bronze"), (left.host.state / NAME).exists()) == (DECLARED, False)


def test_lease_of_an_earlier_boot_is_removed(left: Node) -> None:
    (left.host.proc / "sys/kernel/random/boot_id").write_text("another\n")
    lease = Lease(str(left.host.state), str(left.host.proc))
    assert not lease.load()
    assert restore_ended(left.context()).done == []
    assert not (left.host.state / NAME).exists()
    assert not lease.load()
    assert left.limit("bronze") == CUT


def test_guard_without_a_boot_id_does_not_start(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(host)
    monkeypatch.setattr(lease_module, "boot_id", always(""))
    with pytest.raises(HookError, match="cannot read this boot's id"):
        node.guard()


@pytest.mark.parametrize("what", ["schemata", "read_file", "boot_id", "no boot id"])
def test_lease_stays_while_a_read_fails(left: Node, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    context, path = left.context(), left.host.state / NAME
    with monkeypatch.context() as patch, contextlib.ExitStack() as faults:
        if what == "schemata":
            left.fs.unreadable = {"bronze"}
        elif what == "no boot id":
            patch.setattr(lease_module, "boot_id", always(""))
        else:
            faults.enter_context(failing(lease_module, what, OSError(24, "Too many open files", "/x")))
        try:
            failed = restore_ended(context).failed
        except HookError as raised:
            failed = [str(raised)]
        assert failed
        assert (path.exists(), left.limit("bronze")) == (True, CUT)
    left.fs.unreadable = set()
    assert restore_ended(context).done == RESTORED
    assert not path.exists()


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b'{"pid": 1}', b'{"pid":1,"start":2,"boot":"x","declared":[],"ours":{}}']
)
def test_damaged_lease_stays_and_is_reported_each_time(left: Node, content: bytes) -> None:
    path = left.host.state / NAME
    path.write_bytes(content)
    for _ in range(2):  # else the second would take the lowered values for declared ones
        (problem,) = restore_ended(left.context()).failed
        assert f"{path} is damaged" in problem
        assert path.read_bytes() == content
    context = left.context()
    watch = Watch(context)
    for number in range(5):
        watch.step(number * INTERVAL)
    assert len([line for line in left.lines if "is damaged" in line]) == 1


def test_refused_restoration_keeps_the_lease(left: Node) -> None:
    def refuse(path: str) -> None:
        raise OSError(22, "Invalid argument", path)

    left.fs.before = refuse
    lease = Lease(str(left.host.state), str(left.host.proc))
    assert lease.load()
    assert restore(left.context().monitor.resctrl, lease).failed
    assert os.stat(lease.path).st_mode & 0o777 == 0o600


# A bandwidth is in effect only if it reads so


def guard(host: Host) -> str:
    node = Node(host)
    node.pass_time(node.guard(), FULL, 8)
    path = host.state / NAME
    return "\n".join([*node.lines, path.read_text() if path.exists() else ""])


def trial(host: Host) -> str:
    context = Node(host).context()
    context.ledger.prepare()
    lease = Lease(context.settings.state_dir, context.proc)
    lease.hold(os.getpid(), EXPERIMENT, 15.0)
    Trial(context, lease, "bronze", {"floor": 20}, [(0,)]).set(limited=True)
    return (host.state / NAME).read_text()


WRITERS = {
    "bandwidth by the guard": Writer(guard, "bronze/schemata", "MB:0=70\n", ", 70]"),
    "bandwidth by an experiment": Writer(trial, "bronze/schemata", "MB:0=70\n", "70"),
}


@pytest.fixture
def after_writes(monkeypatch: pytest.MonkeyPatch) -> AfterWrites:
    """Return a function that lets the kernel do something after each write to files with an ending."""

    def after_writes(ending: str, do: Callable[[Path], object]) -> None:
        def write(_: Any, path: str, value: bytes) -> None:
            Path(path).write_bytes(value)
            if path.endswith(f"/{ending}"):
                do(Path(path))

        monkeypatch.setattr(Schemata, "write", write)  # this fake merges schemata by itself

    return after_writes


@pytest.mark.parametrize("check", [check_kept, check_refused])
@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_value_that_the_kernel_keeps_instead_or_refuses_is_reported(
    host: Host, after_writes: AfterWrites, writer: Writer, check: Callable[[Host, AfterWrites, Writer], None]
) -> None:
    check(host, after_writes, writer)
