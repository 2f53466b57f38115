"""The guard's commands: how they start, report, and end."""

import os
import posix
import shutil
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT, SIGTERM, getsignal, signal
from typing import Any

import pytest
from conftest import Host, always, standard_streams
from hosts.faults import failing
from hosts.notify_socket import NotifySocket

from resctrl_hooks.core.node.host.instance import RunningError, only_instance
from resctrl_hooks.core.node.restored import Restored
from resctrl_hooks.core.node.settings import load
from resctrl_hooks.observe.node.guard import lease, resident
from resctrl_hooks.observe.node.guard.guard import Guard
from resctrl_hooks.observe.node.guard.lease import LOCK, NAME
from resctrl_hooks.observe.node.sampler.command import guard_command
from resctrl_hooks.observe.service import UNITS

from .node import FULL, Node

STATUS = {"act": "READY=1\nSTATUS=mode act", "observe": "READY=1\nSTATUS=mode observe"}
GUARD = {"protect": ["gold"], "throttle": {"bronze": {"floor": 20}}}


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


@pytest.fixture
def left(host: Host) -> Node:
    """A node whose guard has lowered a class, and has ended without a restoration."""
    made = Node(host)
    made.pass_time(made.guard(pid=999_999), FULL, 6)
    assert made.limit("bronze") == "MB:0=90"
    return made


@pytest.mark.parametrize("mode, number", [("act", SIGTERM), ("observe", SIGINT)])
def test_guard_runs_until_a_signal(
    left: Node, systemd: NotifySocket, monkeypatch: pytest.MonkeyPatch, mode: str, number: int
) -> None:
    left.host.configure(rdt={"guard": {"mode": mode, "protect": ["gold"], "throttle": {"bronze": {}}}})
    ended: list[bool] = []

    def sample(_: Guard, __: float) -> None:
        assert left.limit("bronze").endswith("\nMB:0=100"), "an earlier guard's value would pass for the declared one"
        assert systemd.received() == [STATUS[mode]]
        with pytest.raises(RunningError):
            only_instance(f"{left.host.state}/{LOCK}")
        os.kill(os.getpid(), number)

    def end(_: Guard) -> bool:
        ended.append(True)
        return True

    monkeypatch.setattr(Guard, "sample", sample)
    monkeypatch.setattr(Guard, "end", end)
    code, stderr, log = run(left.host, "run")
    assert (code, stderr, systemd.received(), ended) == (0, "", ["STOPPING=1"], [True])
    assert "guard: restored class bronze, domain 0: MB 90 -> 100" in log
    assert ("guard: mode act is experimental" in log) is (mode == "act")
    os.close(only_instance(f"{left.host.state}/{LOCK}"))


def test_changed_settings_restore_all_values_and_start_again(
    host: Host, systemd: NotifySocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, sampled = Node(host), list[str]()

    def sample(self: Guard, _: float) -> None:
        sampled.append(self.mode)
        if sampled == ["act"]:
            self._lease.intend("bronze", {0: 100}, {0: 90})
            (node.root / "bronze/schemata").write_text("MB:0=90\n")
            host.configure(rdt={"guard": {**GUARD, "mode": "observe"}})
        else:
            assert node.limit("bronze").endswith("MB:0=100")
            os.kill(os.getpid(), SIGTERM)

    monkeypatch.setattr(Guard, "sample", sample)
    code, stderr, log = run(host, "run")
    assert (code, stderr, sampled) == (0, "", ["act", "observe"])
    assert systemd.received() == [STATUS["act"], STATUS["observe"], "STOPPING=1"]
    assert "guard: the settings have changed; restoring all values and starting again" in log


def test_second_guard_and_a_restoration_beside_a_running_one_fail(left: Node, systemd: NotifySocket) -> None:
    lock = only_instance(f"{left.host.state}/{LOCK}")
    running = f"another instance is running, process {os.getpid()}; its end restores all values"
    code, _, log = run(left.host, "run")
    assert (code, systemd.received(), f"guard: {running} stage=guard" in log) == (1, [], True)
    code, _, log = run(left.host, "restore")
    assert (code, left.limit("bronze"), running in log) == (1, "MB:0=90", True)
    os.close(lock)
    assert run(left.host, "restore")[0] == 0
    assert left.limit("bronze").endswith("MB:0=100")
    assert not (left.host.state / NAME).exists()


def test_unreadable_lease_keeps_the_guard_from_starting(left: Node, systemd: NotifySocket) -> None:
    with failing(lease, "read_file", OSError(5, "Input/output error", "/x")):
        assert run(left.host, "run")[0] == run(left.host, "restore")[0] == 1
    assert (systemd.received(), left.limit("bronze")) == ([], "MB:0=90")


@pytest.mark.parametrize("off", [{}, {"rdt": {"guard": {"mode": "off"}}}, {"history": {"enabled": False}}])
def test_process_without_a_part_says_how_to_enable_one_and_does_not_fail(
    host: Host, systemd: NotifySocket, off: dict[str, Any]
) -> None:
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


def test_restore_leaves_a_foreign_value_and_reports_it(left: Node) -> None:
    (left.root / "bronze/schemata").write_text("MB:0=70\n")
    code, stderr, log = run(left.host, "restore")
    assert (code, "MB is 70, which the guard did not write; left unchanged" in stderr) == (0, True)
    assert stderr.strip().removeprefix("resctrl-hook: ") in log


def test_refused_restore_is_a_failure(left: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Restored(lease.GUARD)
    refused.failed.append("class bronze: Invalid argument")
    monkeypatch.setattr(resident, "restore_ended", always(refused))
    code, stderr, _ = run(left.host, "restore")
    assert (code, stderr) == (1, "resctrl-hook: guard: cannot restore class bronze: Invalid argument\n")


@pytest.mark.parametrize("words", [[], ["run", "run"], ["status"]])
def test_other_arguments_are_wrong_use(host: Host, words: list[str]) -> None:
    assert run(host, *words) == (2, "usage: guard run|restore\n", "")


def test_failures_and_problems_of_the_settings_are_reported_on_stderr(host: Host) -> None:
    Node(host, mode="off")
    settings = load(str(host.config))[0]
    with standard_streams(b"") as written:
        assert guard_command("x", ["restore"], lambda _: (settings, "the last valid settings stay active")) == 0
    assert written() == "resctrl-hook: the last valid settings stay active\n"
    host.configure(rdt={"guard": {**GUARD, "mode": "act"}})
    shutil.rmtree(host.state)
    host.state.write_text("")
    code, stderr, log = run(host, "run")
    assert (code, str(host.state) in stderr, stderr.startswith("resctrl-hook: guard: ")) == (1, True, True)
    assert "stage=guard" in log
    host.config.write_text("{")
    code, stderr, _ = run(host, "restore")
    assert (code, stderr.startswith("resctrl-hook: guard: invalid settings in ")) == (1, True)
