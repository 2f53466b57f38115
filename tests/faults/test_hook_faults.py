"""Internal errors, deadlines, broken hosts: the container continues or is refused with one line, by the policy.

Faults of other features than monitoring: `core/node/features/test_contract`.
"""

import errno
import json
import os
import posix
import shutil
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
from hosts.kernel_values import AfterWrites, after_writes

from resctrl_hooks.core.node.errors import HookError, LedgerError
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.features import monitoring, scheduling
from resctrl_hooks.core.node.hook import call as hook
from resctrl_hooks.core.node.hook import poststop
from resctrl_hooks.core.node.host import cgroup
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem

__all__ = ("after_writes",)
BUG = ZeroDivisionError("a bug")
FAULTS: list[tuple[Any, str, BaseException, str]] = [
    *((monitoring.FEATURE, "plan", fault, type(fault).__name__) for fault in (BUG, RecursionError(), MemoryError())),
    (monitoring.FEATURE, "plan", KeyboardInterrupt(), "KeyboardInterrupt"),
    (Ledger, "write_member", LedgerError("cannot use", errno=errno.ENOSPC), "cannot use"),
]


@BOTH_POLICIES
@pytest.mark.parametrize("owner, name, fault, words", FAULTS)
def test_fault_follows_the_policy(
    host: Host, pod: dict[str, Any], fail: Fail, owner: Any, name: str, fault: BaseException, words: str, policy: str,
    code: int,
) -> None:  # fmt: skip
    host.configure(failurePolicy=policy)
    fail(owner, name, fault)
    outcome = host.call(pod)
    assert (outcome.code, outcome.stderr.count("\n"), words in outcome.stderr) == (code, 1, True)
    assert host.groups() == []
    assert policy == "ignore" or ID not in host.context().ledger.containers()


def test_internal_error_in_poststop_is_not_a_failure(host: Host, pod: dict[str, Any], fail: Fail) -> None:
    host.configure(failurePolicy="fail")
    host.call(pod)
    host.end_process(100)
    fail(poststop, "release_container", BUG)
    outcome = host.call(stopped())
    assert (outcome.code, outcome.stderr.count("\n")) == (0, 1)
    assert "internal error in resctrl-hook: ZeroDivisionError: a bug in faults.py" in outcome.stderr


@BOTH_POLICIES
def test_deadline_ends_the_hook_with_all_signals_blocked(
    host: Host, pod: dict[str, Any], fail: Fail, policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy, deadlineSeconds=0.05)
    fail(Filesystem, "mkdir", hanging(60))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        outcome = host.call(pod)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert (outcome.code, "longer than the deadline of the hook" in outcome.stderr) == (code, True)
    if policy == "ignore":
        assert (host.state / "wake").exists()
        assert f"waiting/{UID}" not in host.records()  # no RMID was refused
    else:  # the pod's own record goes with the pod if the time is too short for it
        assert host.records() in ([], [f"idle/{UID}", f"pods/{UID}/pod"])
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_lock_held_by_another_process_follows_the_policy(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = host.context()
    monkeypatch.setattr(hook, "Context", lambda settings: context)
    context.monitor.patience = 0.01
    with ThreadPoolExecutor(1) as another, another.submit(host.context().monitor.hold, UID).result():
        outcome = host.call(pod)
    assert (outcome.code, "reason=lock-timeout" in outcome.log) == (0, True)
    assert (host.state / "wake").exists()
    assert f"waiting/{UID}" not in host.records()  # no RMID was refused


def called(host: Host, told: dict[str, Any], *wrapper: str) -> Outcome:
    """Return a whole process, as a runtime starts it."""
    words, data = [*wrapper, *host.command()], json.dumps(told).encode()
    path = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, input=data, capture_output=True, env=path, cwd="/", check=False)
    assert done.stdout == b""
    return Outcome(done.returncode, done.stderr.decode(), "")


def under(mount: str) -> list[str]:
    """Return a command prefix under which something is mounted."""
    return ["unshare", "--mount", "/bin/sh", "-ec", f'{mount} && exec "$@"', "sh"]


def read_only(folder: Path) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    return under(f"mount --bind '{folder}' '{folder}' && mount -o remount,bind,ro '{folder}'")


def state_read_only(host: Host) -> list[str]:
    host.context().ledger.prepare()
    return read_only(host.state)


def full(folder: Path) -> list[str]:
    folder.mkdir()
    return under(f"mount -t tmpfs -o nr_inodes=3 none '{folder}'")


def not_mounted(host: Host) -> None:
    shutil.rmtree(host.resctrl)
    host.resctrl.mkdir()


BROKEN: dict[str, tuple[Callable[[Host], list[str] | None], str]] = {
    "state below a file": (lambda host: host.state.parent.touch(), "the state directory must be"),
    "state read-only": (state_read_only, "EROFS"),
    "state cannot be created": (lambda host: read_only(host.state.parent), "the state directory must be"),
    "state full": (lambda host: full(host.state.parent), "ENOSPC"),
    "resctrl not mounted": (not_mounted, "resctrl is not mounted at"),
    "resctrl gone": (lambda host: shutil.rmtree(host.resctrl), "resctrl is not mounted at"),
    "resctrl read-only": (lambda host: read_only(host.resctrl), "EROFS"),
    "no bundle": (lambda host: (host.root / "bundle/config.json").unlink(), "/config.json: No such file or directory"),
}


@BOTH_POLICIES
@pytest.mark.parametrize("name", BROKEN)
def test_broken_host_lets_containers_start(host: Host, pod: dict[str, Any], name: str, policy: str, code: int) -> None:
    host.configure(failurePolicy=policy, log={"target": "none"})
    breaks, words = BROKEN[name]
    wrapper = breaks(host) or []
    outcome = called(host, pod, *wrapper)
    assert (outcome.code, outcome.stderr.count("\n"), words in outcome.stderr) == (code, 1, True)
    assert ("container rejected" in outcome.stderr) is (policy == "fail")
    assert host.groups() == []
    stop = called(host, state(status="stopped", pid=0, annotations={}), *wrapper)
    assert stop.code == 0
    assert stop.stderr.count("\n") <= 1


@BOTH_POLICIES
@pytest.mark.parametrize("garbage", [b"{", b'{"format":1,"stateDir":"x"}'])
def test_damaged_settings_let_containers_start(
    host: Host, pod: dict[str, Any], garbage: bytes, policy: str, code: int
) -> None:
    """Only the last valid settings could refuse containers; without them, none is refused."""
    host.configure(failurePolicy=policy)
    last = host.root / "config.last.json"
    last.write_bytes(host.config.read_bytes())
    host.config.write_bytes(garbage)
    outcome = called(host, pod)
    assert (outcome.code, outcome.stderr.count("\n")) == (0, 1)
    assert "the last valid settings stay active" in outcome.stderr
    assert host.groups() == [f"mon_groups/{UID}"]
    assert called(host, pod | {"annotations": {"io.kubernetes.cri-o.ContainerType": "x"}}).code == code
    last.unlink()
    outcome = called(host, pod)
    assert (outcome.code, outcome.stderr.count("\n"), "container skipped" in outcome.stderr) == (0, 1, True)
    assert called(host, state(status="stopped")).code == 0


@pytest.mark.parametrize("name", ["memory.high", "memory.swap.max", "cpu.weight", "io.max"])
def test_value_of_a_cgroup_that_the_kernel_refuses_is_reported(
    host: Host, after_writes: AfterWrites, name: str
) -> None:
    (host.cgroup / name).write_text("max")

    def refuse(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error", str(path))

    after_writes(name, refuse)
    with pytest.raises(HookError, match="EIO"):
        cgroup.write_value(str(host.cgroup), name, "20480")


@pytest.mark.parametrize(
    "answer, told",
    [(always(None), "the kernel did not schedule process")]
    + [(raising(OSError(getattr(errno, name), "no")), name) for name in ("EPERM", "EINVAL")],
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
