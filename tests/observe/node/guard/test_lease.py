"""The lease and the guard's commands: which values come back, by whom, and how the commands start, report and end."""

import contextlib
import errno
import json
import os
import posix
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGINT, SIGTERM, getsignal, signal
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Host, always, standard_streams
from hosts.faults import failing
from hosts.notify_socket import NotifySocket

from resctrl_hooks.core.node.host.instance import RunningError, only_instance
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.release import release_everything
from resctrl_hooks.core.node.restored import Restored
from resctrl_hooks.core.node.settings import load
from resctrl_hooks.errors import HookError
from resctrl_hooks.observe.node.guard import lease as lease_module
from resctrl_hooks.observe.node.guard import resident
from resctrl_hooks.observe.node.guard.guard import Guard
from resctrl_hooks.observe.node.guard.lease import EXPERIMENT, GUARD, LOCK, NAME, Lease, LeaseEndedError
from resctrl_hooks.observe.node.guard.recovery import become_owner, restore_ended
from resctrl_hooks.observe.node.sampler.command import guard_command
from resctrl_hooks.observe.node.watch import INTERVAL, Watch
from resctrl_hooks.observe.service import UNITS
from resctrl_hooks.observe.slowdown.experiment.class_trial import Trial

from .node import FULL, Node

CUT, DECLARED = "MB:0=90", "MB:0=100"
RESTORED = ["class bronze, domain 0: MB 90 -> 100"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """CLOCK_BOOTTIME, which the test moves."""
    made = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(lease_module, "boot_time", lambda: made.now)
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


def by_guard_restore(node: Node) -> None:
    assert restore_ended(node.context()).failed == []


OTHERS: dict[str, Callable[[Node], object]] = {
    "reconcile": lambda node: reconcile(node.context()),
    "guard restore": by_guard_restore,
    "resident process": lambda node: Watch(node.context()).step(0.0),
}


@pytest.mark.parametrize("by", OTHERS)
def test_values_of_a_hung_owner_are_restored(node: Node, clock: SimpleNamespace, by: str) -> None:
    guard = lowered(node)
    for passed in (0.0, 59.0):  # it works
        clock.now += passed
        with pytest.raises(RunningError, match=f"the guard is running, process {os.getpid()}"):
            by_guard_restore(node)
        assert reconcile(node.context()).number("repaired") == 0
        OTHERS["resident process"](node)
        assert node.limit("bronze") == CUT
    clock.now += 3.0
    OTHERS[by](node)
    assert node.limit("bronze").endswith(DECLARED)
    assert (node.host.state / NAME).exists(), "a late write of the owner must be found"
    writes = len(node.fs.writes)
    with pytest.raises(LeaseEndedError, match="the guard was stopped or hung for longer than its lease of 60 s"):
        node.pass_time(guard, FULL, 6)
    assert guard.end()
    assert len(node.fs.writes) == writes
    assert not (node.host.state / NAME).exists()


def test_lease_that_lasts_longer_or_is_of_another_owner_stays(node: Node, clock: SimpleNamespace) -> None:
    section = {"mode": "act", "protect": ["gold"], "throttle": {"bronze": {"floor": 20}}, "interval": 60}
    node.host.configure(rdt={"guard": section}, monitoring={"capacity": {"*": 100e9}})
    lowered(node)
    path = node.host.state / NAME
    record = json.loads(path.read_text())
    assert record["deadline"] == clock.now + 180, "as the interval is long"
    clock.now += 1e6
    without_deadline = {name: record[name] for name in ("pid", "start", "boot", "declared", "ours")}
    for lease in (record | {"pid": 999_999}, without_deadline):
        path.write_text(json.dumps(lease))
        with pytest.raises(RunningError):
            by_guard_restore(node)
        assert node.limit("bronze") == CUT


def test_owner_stopped_before_its_write_leaves_no_limit(
    node: Node, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
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


def test_nobody_becomes_the_owner_during_a_restoration(node: Node, clock: SimpleNamespace) -> None:
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


def test_lease_of_an_earlier_boot_is_removed(left: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    (left.host.proc / "sys/kernel/random/boot_id").write_text("another\n")
    lease = Lease(str(left.host.state), str(left.host.proc))
    assert not lease.load()
    assert restore_ended(left.context()).done == []
    assert not (left.host.state / NAME).exists()
    assert not lease.load()
    assert left.limit("bronze") == CUT
    monkeypatch.setattr(lease_module, "boot_id", always(""))
    with pytest.raises(HookError, match="cannot read this boot's id"):
        left.guard()


def refuse(path: str) -> None:
    raise OSError(errno.EIO, "Input/output error", path)


@pytest.mark.parametrize("what", ["schemata", "write", "read_file", "boot_id", "no boot id"])
def test_lease_stays_while_a_read_or_write_fails(left: Node, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    context, path = left.context(), left.host.state / NAME
    with monkeypatch.context() as patch, contextlib.ExitStack() as faults:
        if what == "schemata":
            left.fs.unreadable = {"bronze"}
        elif what == "write":
            left.fs.before = refuse
        elif what == "no boot id":
            patch.setattr(lease_module, "boot_id", always(""))
        else:
            faults.enter_context(failing(lease_module, what, OSError(24, "Too many open files", "/x")))
        try:
            failed = restore_ended(context).failed
        except HookError as raised:
            failed = [str(raised)]
        assert failed
        assert (path.exists(), path.stat().st_mode & 0o777, left.limit("bronze")) == (True, 0o600, CUT)
    left.fs.unreadable = set()
    left.calm()
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


def by_the_guard(node: Node) -> str:
    node.pass_time(node.guard(), FULL, 8)
    path = node.host.state / NAME
    return "\n".join([*node.lines, path.read_text() if path.exists() else ""])


def by_an_experiment(node: Node) -> str:
    context = node.context()
    context.ledger.prepare()
    lease = Lease(context.settings.state_dir, context.proc)
    lease.hold(os.getpid(), EXPERIMENT, 15.0)
    Trial(context, lease, "bronze", {"floor": 20}, [(0,)]).set(limited=True)
    return (node.host.state / NAME).read_text()


@pytest.mark.parametrize("kept", ["MB:0=70\n", ""], ids=["kept", "refused"])
@pytest.mark.parametrize("write", [by_the_guard, by_an_experiment])
def test_kept_and_refused_values_are_reported(host: Host, write: Callable[[Node], str], kept: str) -> None:
    node = Node(host)
    node.fs.after = (lambda path: Path(path).write_text(kept)) if kept else refuse
    try:
        told = write(node)
    except HookError as error:
        told = str(error)
    assert (", 70]" if kept else "EIO") in told


SECTION = {"protect": ["gold"], "throttle": {"bronze": {"floor": 20}}}


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NotifySocket]:
    monkeypatch.setitem(posix.environ, b"INVOCATION_ID", b"0")
    handlers = {number: getsignal(number) for number in (SIGTERM, SIGINT)}
    with NotifySocket(tmp_path, monkeypatch) as found:
        yield found
    for number, handler in handlers.items():
        signal(number, handler)


def run(host: Host, *words: str) -> tuple[int, str, str]:
    """Return the exit code of a command, its stderr and its log."""
    before = host.log.stat().st_size if host.log.exists() else 0
    with standard_streams(b"") as written:
        code = guard_command(str(host.config), [*words])
    return code, written(), host.log.read_text()[before:] if host.log.exists() else ""


@pytest.mark.parametrize("number", [SIGTERM, SIGINT])
def test_guard_restores_first_and_at_changed_settings_and_ends_at_a_signal(
    left: Node, systemd: NotifySocket, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    sampled: list[str] = []

    def sample(self: Guard, _: float) -> None:
        sampled.append(self.mode)
        assert left.limit("bronze").endswith("\nMB:0=100"), "an earlier guard's value would pass for the declared one"
        assert systemd.received() == [f"READY=1\nSTATUS=mode {self.mode}"]
        with pytest.raises(RunningError):
            only_instance(f"{left.host.state}/{LOCK}")
        self._lease.intend("bronze", {0: 100}, {0: 90})
        (left.root / "bronze/schemata").write_text("MB:0=90\n")
        if self.mode == "act":
            left.host.configure(rdt={"guard": {**SECTION, "mode": "observe"}})
        else:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(Guard, "sample", sample)
    left.host.configure(rdt={"guard": {**SECTION, "mode": "act"}})
    code, stderr, log = run(left.host, "run")
    assert (code, stderr, sampled, systemd.received()) == (0, "", ["act", "observe"], ["STOPPING=1"])
    assert "guard: restored class bronze, domain 0: MB 90 -> 100" in log
    assert "guard: the settings have changed; restoring all values and starting again" in log
    assert log.count("guard: mode act is experimental") == 1
    assert left.limit("bronze").endswith("\nMB:0=100"), "the end restores all values"
    os.close(only_instance(f"{left.host.state}/{LOCK}"))


def test_guard_and_restoration_fail_beside_an_owner_or_without_a_lease(left: Node, systemd: NotifySocket) -> None:
    lock = become_owner(str(left.host.state), EXPERIMENT)
    text = (left.host.state / LOCK).read_bytes()
    assert (text[:20].strip(), text[20:]) == (str(os.getpid()).encode(), b"an experiment"), "as version 0.2 reads it"
    running = f"an experiment is running, process {os.getpid()}; its end restores all values"
    for word in ("run", "restore"):
        code, _, log = run(left.host, word)
        assert (code, running in log, "stage=guard" in log) == (1, True, True)
    os.close(lock)
    with failing(lease_module, "read_file", OSError(5, "Input/output error", "/x")):
        assert run(left.host, "run")[0] == run(left.host, "restore")[0] == 1
    assert (systemd.received(), left.limit("bronze")) == ([], CUT)
    assert run(left.host, "restore")[0] == 0
    assert left.limit("bronze").endswith(DECLARED)
    assert not (left.host.state / NAME).exists()


@pytest.mark.parametrize("off", [{}, {"rdt": {"guard": {"mode": "off"}}}, {"history": {"enabled": False}}])
def test_process_without_a_part_says_how_to_enable_one(host: Host, systemd: NotifySocket, off: dict[str, Any]) -> None:
    host.configure(**off)
    nothing = "guard: rdt.guard.mode, history and slowdown are off; nothing to do"
    code, stderr, log = run(host, "run")
    assert (code, stderr, systemd.received()) == (0, "", ["READY=1"]), "systemd does not start it again"
    assert nothing in log
    posix.environ.pop(b"INVOCATION_ID")
    code, stderr, log = run(host, "run")
    assert (code, stderr.count("\n"), stderr.startswith(f"resctrl-hook: {nothing}: set `")) == (0, 1, True)
    for words in ("`history: {enabled: true}`", "`resctrl-hook config apply`", "`resctrl-hook install`"):
        assert words in stderr
    assert stderr.strip().removeprefix("resctrl-hook: ") in log
    assert "\nRestart=on-failure\n" in UNITS[0].text


def test_restore_reports_foreign_and_refused_values(left: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    (left.root / "bronze/schemata").write_text("MB:0=70\n")
    code, stderr, log = run(left.host, "restore")
    assert (code, "MB is 70, which the guard did not write; left unchanged" in stderr) == (0, True)
    assert stderr.strip().removeprefix("resctrl-hook: ") in log
    refused = Restored(GUARD)
    refused.failed.append("class bronze: Invalid argument")
    monkeypatch.setattr(resident, "restore_ended", always(refused))
    code, stderr, _ = run(left.host, "restore")
    assert (code, stderr) == (1, "resctrl-hook: guard: cannot restore class bronze: Invalid argument\n")


def test_wrong_use_failures_and_problems_of_the_settings_are_reported_on_stderr(host: Host) -> None:
    for words in ([], ["run", "run"], ["status"]):
        assert run(host, *words) == (2, "usage: guard run|restore\n", "")
    Node(host, mode="off")
    settings = load(str(host.config))[0]
    with standard_streams(b"") as written:
        assert guard_command("x", ["restore"], lambda _: (settings, "the last valid settings stay active")) == 0
    assert written() == "resctrl-hook: the last valid settings stay active\n"
    host.configure(rdt={"guard": {**SECTION, "mode": "act"}})
    shutil.rmtree(host.state)
    host.state.write_text("")
    code, stderr, log = run(host, "run")
    assert (code, str(host.state) in stderr, stderr.startswith("resctrl-hook: guard: ")) == (1, True, True)
    assert "stage=guard" in log
    host.config.write_text("{")
    code, stderr, _ = run(host, "restore")
    assert (code, stderr.startswith("resctrl-hook: guard: invalid settings in ")) == (1, True)
