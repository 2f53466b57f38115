"""Unreadable states, internal errors, deadlines: the container continues or is refused, by the policy."""

import errno
import itertools
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import BOTH_POLICIES, ID, POD_CGROUP, UID, Host, stopped
from hosts.faults import Fail, failing, hanging

from resctrl_hooks.core.node import context
from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.features import monitoring
from resctrl_hooks.core.node.hook import call as hook
from resctrl_hooks.core.node.hook import create_runtime as creation
from resctrl_hooks.core.node.hook import poststop
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem, Resctrl
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey


def test_fault_under_fail_undoes_the_steps(host: Host, pod: dict[str, Any]) -> None:
    host.configure(failurePolicy="fail")
    for module, name in ((LockedKey, "assign_pid"), (Resctrl, "check_arrival"), (creation, "apply_steps")):
        with failing(module, name, ZeroDivisionError("a bug")):
            outcome = host.call(pod)
        assert outcome.code == 79
        assert "ZeroDivisionError: a bug" in outcome.stderr
        assert (host.groups(), host.records()) == ([], [])


def test_failing_feature_does_not_affect_others(host: Host, pod: dict[str, Any], fail: Fail) -> None:
    """A failure before it must not bypass the refusal by a feature's own policy."""
    host.configure(classes=[{"name": "none", "allowswap": False}])
    pod["annotations"] |= {"class.memtierd.nri.io": "none"}
    limit = host.cgroup / f"{POD_CGROUP}/crio-{ID}/memory.swap.max".lstrip("/")
    limit.with_name("cgroup.controllers").write_text("memory\n")
    limit.write_text("max\n")
    fail(monitoring.FEATURE, "plan", OSError(errno.EIO, "Input/output error", "/proc/100/cpu_resctrl_groups"))
    outcome = host.call(pod)
    assert outcome.code == 0
    assert "cpu_resctrl_groups" in outcome.log
    assert limit.read_text().strip() == "0"


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


def test_run_queue_wait_is_read_from_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    before = context._starved()
    assert 0 <= before <= context._starved()
    assert Path(context._SCHEDSTAT).read_text(encoding="ascii").split()[1].isdecimal()
    monkeypatch.setattr(context, "read_kernel_file", lambda _: b"1000000000 2500000000 3\n")
    assert context._starved() == 2.5


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


def test_record_of_another_version_refuses_no_other_container(host: Host, pod: dict[str, Any]) -> None:
    host.configure(failurePolicy="fail")
    with host.context().monitor.hold("somebody") as locked:
        locked.ensure_group()
        step = {"feature": "memtierd", "action": "start", "needs": {"of": "another version"}}
        locked.add_member("gone", {"steps": [step], "boot": "earlier"})
    host.context().ledger.mark("idle", "somebody")
    assert host.call(pod).code == 0
    assert host.groups() == [f"mon_groups/{UID}"]
