"""Internal errors, deadlines, broken hosts: the container continues or is refused with one line, by the policy."""

import errno
import itertools
import json
import os
import posix
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import BOTH_POLICIES, ID, UID, Host, Outcome, always, raising, state, stopped
from hosts.faults import Fail, hanging
from hosts.kernel_values import AfterWrites, Writer, after_writes, check_refused

from resctrl_hooks.core.node import context
from resctrl_hooks.core.node.errors import HookError, LedgerError
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.features import monitoring, scheduling
from resctrl_hooks.core.node.hook import call as hook
from resctrl_hooks.core.node.hook import poststop
from resctrl_hooks.core.node.host import cgroup
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem
from resctrl_hooks.core.rdt.classes import Classes


def test_internal_error_in_poststop_is_not_a_failure(host: Host, pod: dict[str, Any], fail: Fail) -> None:
    host.configure(failurePolicy="fail")
    host.call(pod)
    host.end_process(100)
    fail(poststop, "release_container", ZeroDivisionError("a bug"))
    outcome = host.call(stopped())
    assert outcome.code == 0
    assert "internal error in resctrl-hook: ZeroDivisionError: a bug in faults.py" in outcome.stderr
    assert outcome.stderr.count("\n") == 1


@BOTH_POLICIES
@pytest.mark.parametrize("fault", [ZeroDivisionError("a bug"), MemoryError(), RecursionError(), KeyboardInterrupt()])
def test_internal_error_follows_the_policy(
    host: Host, pod: dict[str, Any], fail: Fail, fault: BaseException, policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy)
    fail(monitoring.FEATURE, "plan", fault)
    outcome = host.call(pod)
    assert outcome.code == code
    assert type(fault).__name__ in outcome.stderr
    assert outcome.stderr.count("\n") == 1


@BOTH_POLICIES
def test_full_disk_under_ledger_follows_the_policy(
    host: Host, pod: dict[str, Any], fail: Fail, policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy)
    fail(Ledger, "write_member", LedgerError("cannot use", errno=errno.ENOSPC))
    outcome = host.call(pod)
    assert (outcome.code, outcome.stderr.count("\n")) == (code, 1)
    assert host.groups() == []
    if policy == "fail":
        assert host.context().ledger.key_of(ID) == ""


@BOTH_POLICIES
def test_deadline_ends_the_hook(host: Host, pod: dict[str, Any], fail: Fail, policy: str, code: int) -> None:
    host.configure(failurePolicy=policy, deadlineSeconds=0.05)
    fail(Filesystem, "mkdir", hanging(60))
    outcome = host.call(pod)
    assert outcome.code == code
    assert "longer than the deadline of the hook" in outcome.stderr
    if policy == "ignore":
        assert (host.state / "wake").exists()
        assert f"waiting/{UID}" not in host.records()  # no RMID was refused
    else:  # the pod's own record goes with the pod if the time is too short for it
        assert host.records() in ([], [f"idle/{UID}", f"pods/{UID}/pod"])
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_hanging_hook_ends_on_starved_node(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch, fail: Fail
) -> None:
    host.configure(deadlineSeconds=0.05)
    monkeypatch.setattr(context, "LONGEST_STARVED", 0.3)
    starved = itertools.chain([0.0], itertools.repeat(1000.0))
    monkeypatch.setattr(context, "_starved", lambda: next(starved))
    fail(Filesystem, "mkdir", hanging(60))
    assert "longer than the deadline of the hook" in host.call(pod).stderr


def test_deadline_works_with_all_signals_blocked(host: Host, pod: dict[str, Any], fail: Fail) -> None:
    host.configure(deadlineSeconds=0.05)
    fail(Filesystem, "mkdir", hanging(5))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        outcome = host.call(pod)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert "longer than the deadline of the hook" in outcome.stderr


def test_lock_held_by_another_process_follows_the_policy(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = host.context()
    monkeypatch.setattr(hook, "Context", lambda settings: context)
    context.monitor.patience = 0.01
    with ThreadPoolExecutor(1) as another, another.submit(host.context().monitor.hold, UID).result():
        outcome = host.call(pod)
    assert outcome.code == 0
    assert "reason=lock-timeout" in outcome.log
    assert (host.state / "wake").exists()
    assert f"waiting/{UID}" not in host.records()  # no RMID was refused


def called(host: Host, told: dict[str, Any], *wrapper: str) -> Outcome:
    """Return a whole process, as a runtime starts it."""
    done = subprocess.run(
        [*wrapper, *host.command()], input=json.dumps(told).encode(), capture_output=True,
        env={"PATH": "/usr/bin:/bin"}, cwd="/", check=False,
    )  # fmt: skip
    assert done.stdout == b""
    return Outcome(done.returncode, done.stderr.decode(), "")


def read_only(folder: Path) -> list[str]:
    """Return a command prefix under which ``folder`` is read-only."""
    made = f"mount --bind '{folder}' '{folder}' && mount -o remount,bind,ro '{folder}'"
    return ["unshare", "--mount", "/bin/sh", "-ec", f'{made} && exec "$@"', "sh"]


def state_below_a_file(host: Host) -> list[str]:
    host.state.parent.touch()
    return []


def state_read_only(host: Host) -> list[str]:
    host.context().ledger.prepare()
    return read_only(host.state)


def state_that_can_not_be_made(host: Host) -> list[str]:
    host.state.parent.mkdir()
    return read_only(host.state.parent)


def state_full(host: Host) -> list[str]:
    host.state.parent.mkdir()
    made = f"mount -t tmpfs -o nr_inodes=3 none '{host.state.parent}'"
    return ["unshare", "--mount", "/bin/sh", "-ec", f'{made} && exec "$@"', "sh"]


def resctrl_not_mounted(host: Host) -> list[str]:
    for name in ("info", "mon_groups", "mon_data"):
        (host.resctrl / name).rmdir()
    return []


def resctrl_gone(host: Host) -> list[str]:
    (host.resctrl / "tasks").unlink()
    resctrl_not_mounted(host)
    host.resctrl.rmdir()
    return []


def resctrl_read_only(host: Host) -> list[str]:
    return read_only(host.resctrl)


def no_bundle(host: Host) -> list[str]:
    (host.root / "bundle/config.json").unlink()
    return []


BROKEN: list[tuple[Callable[[Host], list[str]], str]] = [
    (state_below_a_file, "the state directory must be"),
    (state_read_only, "EROFS"),
    (state_that_can_not_be_made, "the state directory must be"),
    (state_full, "ENOSPC"),
    (resctrl_not_mounted, "resctrl is not mounted at"),
    (resctrl_gone, "resctrl is not mounted at"),
    (resctrl_read_only, "EROFS"),
    (no_bundle, "/config.json: No such file or directory"),
]


@pytest.mark.parametrize("policy, code", [("ignore", 0), ("fail", 79)])
@pytest.mark.parametrize("breaks, words", BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_broken_host_lets_containers_start(
    host: Host, pod: dict[str, Any], breaks: Callable[[Host], list[str]], words: str, policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy, log={"target": "none"})
    wrapper = breaks(host)
    outcome = called(host, pod, *wrapper)
    assert outcome.code == code
    assert outcome.stderr.count("\n") == 1
    assert words in outcome.stderr
    if policy == "fail":
        assert "container rejected" in outcome.stderr
    assert host.groups() == []
    stop = called(host, state(status="stopped", pid=0, annotations={}), *wrapper)
    assert stop.code == 0
    assert stop.stderr.count("\n") <= 1


@pytest.mark.parametrize("policy", ["ignore", "fail"])
@pytest.mark.parametrize("garbage", [b"{", b'{"format":1,"stateDir":"x"}'])
def test_damaged_settings_let_containers_start(host: Host, pod: dict[str, Any], garbage: bytes, policy: str) -> None:
    """Only the last valid settings could refuse containers; without them, none is refused."""
    host.configure(failurePolicy=policy)
    last = host.root / "config.last.json"
    last.write_bytes(host.config.read_bytes())
    host.config.write_bytes(garbage)
    outcome = called(host, pod)
    assert (outcome.code, outcome.stderr.count("\n")) == (0, 1)
    assert "the last valid settings stay active" in outcome.stderr
    assert host.groups() == [f"mon_groups/{UID}"]
    assert called(host, pod | {"annotations": {"io.kubernetes.cri-o.ContainerType": "x"}}).code == (
        79 if policy == "fail" else 0
    )
    last.unlink()
    outcome = called(host, pod)
    assert (outcome.code, outcome.stderr.count("\n")) == (0, 1)
    assert "container skipped" in outcome.stderr
    assert called(host, state(status="stopped")).code == 0


__all__ = ("after_writes",)


def classes(host: Host) -> str:
    host.add_class("bronze")
    info = host.resctrl / "info/MB"
    info.mkdir()
    for name, value in (("min_bandwidth", 10), ("bandwidth_gran", 10), ("num_closids", 8)):
        (info / name).write_text(f"{value}\n")
    for folder in (host.resctrl, host.resctrl / "bronze"):
        (folder / "schemata").write_text("MB:0=100\n")
    context = host.context()
    context.ledger.prepare()
    found = Classes(context.monitor.resctrl, {"bronze": {"MB": 40}}, context.ledger, context.proc)
    (report,) = found.apply()
    return f"{report.state} {report.problems}"


def of_cgroup(name: str) -> Callable[[Host], str]:
    """Return a writer of a cgroup's value."""

    def write(host: Host) -> str:
        (host.cgroup / name).write_text("max")
        cgroup.write_value(str(host.cgroup), name, "20480")
        return ""

    return write


WRITERS = {
    "bandwidth by rdt apply": Writer(classes, "bronze/schemata", "MB:0=70\n", "differs ['MB"),
    "memory.high": Writer(of_cgroup("memory.high"), "memory.high", "8192", "set memory.high to '8192'"),
    "memory.swap.max": Writer(of_cgroup("memory.swap.max"), "memory.swap.max", "0", "set memory.swap.max to '0'"),
    "cpu.weight": Writer(of_cgroup("cpu.weight"), "cpu.weight", "100", "set cpu.weight to '100'"),
    "io.max": Writer(of_cgroup("io.max"), "io.max", "", "set io.max to ''"),
}


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_refused_value_is_reported(host: Host, after_writes: AfterWrites, writer: Writer) -> None:
    check_refused(host, after_writes, writer)


@pytest.mark.parametrize(
    "answer, told",
    [
        (always(None), "the kernel did not schedule process"),
        (raising(OSError(errno.EPERM, "no")), "EPERM"),
        (raising(OSError(errno.EINVAL, "no")), "EINVAL"),
    ],
)
def test_process_that_the_kernel_does_not_schedule_is_reported(
    host: Host, monkeypatch: pytest.MonkeyPatch, answer: Any, told: str
) -> None:
    monkeypatch.setattr(posix, "setpriority", answer)
    container: Any = SimpleNamespace(pid=os.getpid(), threads=lambda _: [os.getpid()])
    step = Step("scheduling", "schedule", {"process": {"nice": 7}, "values": []}, "")
    context = host.context()
    context.proc = "/proc"
    with pytest.raises(HookError, match=told):
        scheduling.FEATURE.apply(step, container, None, context)  # type: ignore[arg-type]  # no lock is needed
