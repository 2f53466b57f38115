"""Forbidden requests and kernel refusals: the answer of either policy, and the remaining state."""

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest
from conftest import BOTH_POLICIES, GROUP, ID, POD_CGROUP, UID, Host, state, stopped
from hosts.faults import Fail, failing

from resctrl_hooks.core.node.ledger import CALLS
from resctrl_hooks.core.node.refusals import FILE
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem


def refusal(number: int) -> Callable[..., OSError]:
    """Return the kernel's error at a system call on resctrl, whatever its path."""
    return lambda _self, path, *_: OSError(number, os.strerror(number), path)


def assert_only_refusal_is_kept(host: Host, code: int) -> None:
    """Check that nothing is left of a container, except that it was refused."""
    assert host.groups() == []
    kept = {path.name for path in host.state.iterdir()} if host.state.exists() else set()
    assert kept == ({CALLS, FILE} if code else set())


@BOTH_POLICIES
@pytest.mark.parametrize(
    "uid, words",
    [
        ("../../../etc", "has no pod UID"),
        ("", "has no pod UID"),
        ("3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c0\0", "has no pod UID"),
        ("ffffffff-8a3b-4f0e-9a55-1d9d3b7e6c01", "the pod UID is forged"),
    ],
)
def test_foreign_pod_uid_is_refused(
    host: Host, pod: dict[str, Any], uid: str, words: str, policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy)
    pod["annotations"]["io.kubernetes.pod.uid"] = uid
    outcome = host.call(pod)
    assert outcome.code == code
    assert words in outcome.stderr
    assert outcome.stderr.count("\n") == 1
    assert_only_refusal_is_kept(host, code)


@BOTH_POLICIES
@pytest.mark.parametrize(
    "name, words",
    [
        ("platinum", "RDT class 'platinum' does not exist"),
        *((name, "invalid RDT class name") for name in ("../../etc", "mon_groups", "a\nb", "\ud800")),
    ],
)
def test_missing_or_invalid_class_is_refused_and_not_created(
    host: Host, pod: dict[str, Any], name: str, words: str, policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy)
    host.bundle({"linux": {"intelRdt": {"closID": name}}})
    outcome = host.call(pod)
    assert (outcome.code, outcome.stderr.count("\n")) == (code, 1)
    assert words in outcome.stderr
    assert host.groups() == []
    assert not (host.resctrl / "platinum").exists()


# The call, its errno, the message, and whether the pod waits for an RMID
REFUSALS = [
    ("mkdir", errno.ENOSPC, "reason=no-rmids", True),
    ("mkdir", errno.EBUSY, "reason=rmids-busy", True),
    ("mkdir", errno.EACCES, "reason=not-permitted", False),
    ("mkdir", errno.EPERM, "reason=not-permitted", False),
    ("mkdir", errno.EROFS, "reason=read-only", False),
    ("mkdir", errno.ENODEV, "reason=not-mounted", False),
    ("mkdir", errno.EIO, "reason=resctrl", False),
    ("write", errno.EINVAL, "reason=class-mismatch", False),
    ("write", errno.ESRCH, "reason=task-gone", False),
    ("write", errno.EACCES, "reason=not-permitted", False),
    ("write", errno.EROFS, "reason=read-only", False),
]


@pytest.mark.parametrize("policy", ["ignore", "fail"])
@pytest.mark.parametrize("call, number, reason, waits", REFUSALS)
def test_kernel_refusal_follows_policy(
    host: Host,
    pod: dict[str, Any],
    call: str,
    number: int,
    reason: str,
    waits: bool,
    policy: str,
) -> None:
    (host.resctrl / "info/last_cmd_status").write_text("the kernel's own words\n")
    host.configure(failurePolicy=policy)
    with failing(Filesystem, call, refusal(number)):
        outcome = host.call(pod)
    lines = outcome.log.splitlines()
    assert all("stage=createRuntime" in line for line in lines)
    assert "duration_usec=" in lines[-1]
    if number != errno.ESRCH:
        assert "kernel: the kernel's own words" in outcome.stderr
    assert outcome.stderr.count("\n") == 1
    assert errno.errorcode[number] in outcome.stderr
    if policy == "fail":
        assert outcome.code == 79
        assert "reason=refused" in outcome.log
        # Earlier steps are undone: crun calls no poststop for this container.
        assert (host.groups(), host.records()) == ([], [])
        return
    assert outcome.code == 0
    assert reason in outcome.log
    assert f"errno={number}" in outcome.log
    assert (f"waiting/{UID}" in host.records()) is waits
    assert (host.state / "wake").exists() is waits
    # The record stays, so that poststop or reconcile find their way; then nothing is left.
    host.end_process(100)
    host.end_cgroup(POD_CGROUP)
    host.call(stopped())
    assert (host.groups(), host.records()) == ([], [])


def test_feature_policy_overrides_general_one(host: Host, pod: dict[str, Any], fail: Fail) -> None:
    host.configure(failurePolicy="ignore", monitoring={"failurePolicy": "fail"})
    fail(Filesystem, "mkdir", refusal(errno.ENOSPC))
    assert host.call(pod).code == 79
    host.configure(failurePolicy="fail", monitoring={"failurePolicy": "ignore"})
    assert host.call(pod).code == 0


def test_refusal_keeps_resources_of_other_containers(host: Host, pod: dict[str, Any], fail: Fail) -> None:
    host.configure(failurePolicy="fail")
    host.call(pod)
    host.process(200, f"{POD_CGROUP}/crio-x")
    fail(Filesystem, "write", refusal(errno.EINVAL))
    assert host.call(pod | {"pid": 200, "id": "b" * 64}).code == 79
    assert host.groups() == [GROUP]
    assert host.context().ledger.members(UID) == [ID]


def test_refusal_removes_group_used_by_refused_container_only(host: Host, pod: dict[str, Any], fail: Fail) -> None:
    host.configure(failurePolicy="fail")
    host.call(pod)
    before = host.groups()
    host.add_class("gold")
    host.process(200, f"{POD_CGROUP}/crio-x", rdt="gold")
    fail(Filesystem, "write", refusal(errno.EINVAL))
    assert host.call(pod | {"pid": 200, "id": "b" * 64}).code == 79
    assert host.groups() == before
    assert (host.context().ledger.read_pod(UID) or {})["groups"].keys() == {""}


def test_exhausted_rmids_release_dead_pods_first(host: Host, pod: dict[str, Any], fail: Fail) -> None:
    dead = state(id="d" * 64, pid=300, bundle=host.bundle())
    host.process(300, "/x")
    host.call(dead)
    host.end_process(300)
    full = OSError(errno.ENOSPC, "No space left on device")
    fail(Filesystem, "mkdir", full, when=lambda *_: len(host.groups()) == 1)
    outcome = host.call(pod)
    assert (outcome.code, outcome.stderr) == (0, "")
    assert host.groups() == [GROUP]


@BOTH_POLICIES
def test_unmounted_resctrl_follows_policy(host: Host, pod: dict[str, Any], policy: str, code: int) -> None:
    host.configure(failurePolicy=policy, resctrlPath=str(host.root / "nothing"))
    outcome = host.call(pod)
    assert (outcome.code, outcome.stderr.count("\n")) == (code, 1)
    assert "resctrl is not mounted at" in outcome.stderr
    assert "doctor" in outcome.stderr


@BOTH_POLICIES
@pytest.mark.parametrize("change", [{"pid": 0}, {"pid": None}, {"bundle": ""}, {"bundle": "/nonexistent"}])
def test_incomplete_state_is_refused(
    host: Host, pod: dict[str, Any], change: dict[str, Any], policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy)
    outcome = host.call(pod | change)
    assert (outcome.code, outcome.stderr.count("\n")) == (code, 1)
    assert_only_refusal_is_kept(host, code)


@BOTH_POLICIES
def test_ended_process_is_refused(host: Host, pod: dict[str, Any], policy: str, code: int) -> None:
    host.configure(failurePolicy=policy)
    assert host.call(pod | {"pid": 999}).code == code
    assert host.groups() == []
