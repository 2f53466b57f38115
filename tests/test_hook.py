import errno
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from conftest import BOOT, ID, POD_CGROUP, PYTHON, UID, Host, crio_annotations, state

from resctrl_hooks.node import hook, lifetimes, monitoring
from resctrl_hooks.node.errors import DeadlineError, HookError, LedgerError
from resctrl_hooks.node.held import HeldKey
from resctrl_hooks.node.ledger import Ledger
from resctrl_hooks.node.oci import STATE_LIMIT
from resctrl_hooks.node.resctrl import Filesystem

GROUP = f"mon_groups/{UID}"
BOTH_POLICIES = pytest.mark.parametrize("policy, code", [("ignore", 0), ("fail", 79)])


def stopped(**changes: Any) -> dict[str, Any]:
    return state(status="stopped", pid=0, bundle="/gone") | changes


def refuse(monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> None:
    """Makes one system call on resctrl fail."""

    def refusing(self: Filesystem, path: str, *_: object) -> None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(Filesystem, call, refusing)


def test_a_pods_container_lands_in_its_group(host: Host, pod: dict[str, Any]) -> None:
    outcome = host.call(pod)
    assert (outcome.code, outcome.stderr) == (0, "")
    assert host.tasks(GROUP) == [100, 101, 102]
    assert f"container={ID}" in outcome.log
    assert f"key={UID}" in outcome.log
    assert "stage=createRuntime" in outcome.log
    assert "duration_usec=" in outcome.log
    record = host.node().ledger.read_member(UID, ID)
    assert record is not None
    assert record["steps"] == [{"feature": "monitoring", "action": "join", "needs": {"class": ""}}]
    assert (record["pid"], record["start"], record["boot"], record["pod"]) == (100, 1000, BOOT, "web-0")


def test_poststop_leaves_the_group_to_the_pod(host: Host, pod: dict[str, Any]) -> None:
    host.call(pod)
    host.end_process(100)
    assert host.call(stopped(annotations={})).log.count(f"left {UID}") == 1
    assert host.groups() == [GROUP]
    assert host.records() == [f"idle/{UID}", f"pods/{UID}/pod"]


def test_a_restart_finds_its_pods_group(host: Host, pod: dict[str, Any]) -> None:
    host.call(pod)
    inode = (host.resctrl / GROUP).stat().st_ino
    host.end_process(100)
    host.call(stopped())
    host.process(200, f"{POD_CGROUP}/crio-x", start=2000)
    host.call(pod | {"pid": 200, "id": "b" * 64})
    assert (host.resctrl / GROUP).stat().st_ino == inode
    assert 200 in host.tasks(GROUP)
    assert f"idle/{UID}" not in host.records()


def test_release_last_container(host: Host, pod: dict[str, Any]) -> None:
    host.configure(monitoring={"release": "last-container"})
    host.call(pod)
    host.end_process(100)
    host.call(stopped())
    assert (host.groups(), host.records()) == ([], [])


def test_a_restart_with_the_same_id_before_its_poststop(host: Host) -> None:
    start = state(bundle=host.bundle())
    host.process(100, "/x", start=1)
    host.call(start)
    host.end_process(100)
    host.process(200, "/x", start=2)
    assert host.call(start | {"pid": 200}).code == 0
    assert "an earlier run's" in host.call(stopped()).log
    assert host.groups() == [f"mon_groups/{ID}"]
    host.end_process(200)
    host.call(stopped())
    assert (host.groups(), host.records()) == ([], [])


def test_an_id_that_changes_pods(host: Host, pod: dict[str, Any]) -> None:
    host.call(pod)
    host.end_process(100)
    other = "b" * 8 + UID[8:]
    host.process(200, f"/kubepods/pod{other}/x", start=5)
    host.call(pod | {"pid": 200, "annotations": crio_annotations(other)})
    assert host.tasks(f"mon_groups/{other}") == [200]
    assert host.node().ledger.key_of(ID) == other
    assert f"pods/{UID}/c-{ID}" not in host.records()


def test_poststop_twice_late_or_without_createruntime(host: Host, pod: dict[str, Any]) -> None:
    assert host.call(stopped()) == (0, "", "")
    host.call(pod)
    host.end_process(100)
    host.call(stopped())
    assert host.call(stopped()) == (0, "", "")


def test_the_stage_may_be_named(host: Host, pod: dict[str, Any]) -> None:
    host.call(pod | {"status": "running"}, "createRuntime")
    assert host.groups() == [GROUP]
    host.end_process(100)
    host.end_cgroup(POD_CGROUP)
    host.call(pod, "poststop")
    assert host.groups() == []


def test_a_sandbox_is_not_monitored(host: Host, pod: dict[str, Any]) -> None:
    pod["annotations"]["io.kubernetes.cri-o.ContainerType"] = "sandbox"
    assert "sandbox is not monitored" in host.call(pod).log
    assert host.groups() == []


# A runtime's own monitoring


@pytest.mark.parametrize("take_over", [False, True])
def test_a_runtime_that_monitors_by_itself(host: Host, pod: dict[str, Any], take_over: bool) -> None:
    host.configure(monitoring={"takeOver": take_over})
    host.bundle({"linux": {"intelRdt": {"enableMonitoring": True}}})
    outcome = host.call(pod)
    assert outcome.code == 0
    assert host.groups() == ([GROUP] if take_over else [])
    assert ("enableMonitoring" in outcome.log) is not take_over


# Spoofed and malformed


@BOTH_POLICIES
@pytest.mark.parametrize(
    "uid, words",
    [
        ("../../../etc", "names no pod UID"),
        ("", "names no pod UID"),
        ("3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c0\0", "names no pod UID"),
        ("ffffffff-8a3b-4f0e-9a55-1d9d3b7e6c01", "somebody forged a pod UID"),
    ],
)
def test_a_pod_uid_that_is_not_the_pods(
    host: Host, pod: dict[str, Any], uid: str, words: str, policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy)
    pod["annotations"]["io.kubernetes.pod.uid"] = uid
    outcome = host.call(pod)
    assert outcome.code == code
    assert words in outcome.stderr
    assert outcome.stderr.count("\n") == 1
    assert host.groups() == []
    assert not host.state.exists()


@BOTH_POLICIES
def test_a_class_that_does_not_exist_is_not_made(host: Host, pod: dict[str, Any], policy: str, code: int) -> None:
    host.configure(failurePolicy=policy)
    host.bundle({"linux": {"intelRdt": {"closID": "platinum"}}})
    outcome = host.call(pod)
    assert (outcome.code, outcome.stderr.count("\n")) == (code, 1)
    assert "there is no RDT class 'platinum'" in outcome.stderr
    assert not (host.resctrl / "platinum").exists()


@BOTH_POLICIES
@pytest.mark.parametrize("name", ["../../etc", "mon_groups", "a\nb", "\ud800"])
def test_a_class_that_can_be_none(host: Host, pod: dict[str, Any], name: str, policy: str, code: int) -> None:
    host.configure(failurePolicy=policy)
    host.bundle({"linux": {"intelRdt": {"closID": name}}})
    outcome = host.call(pod)
    assert (outcome.code, outcome.stderr.count("\n")) == (code, 1)
    assert "no RDT class can have this name" in outcome.stderr
    assert host.groups() == []


# What the kernel refuses: the call, its errno, what the operator reads, and whether the pod waits for an RMID

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
def test_what_the_kernel_refuses(
    host: Host,
    pod: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    number: int,
    reason: str,
    waits: bool,
    policy: str,
) -> None:
    (host.resctrl / "info/last_cmd_status").write_text("the kernel's own words\n")
    host.configure(failurePolicy=policy)
    refuse(monkeypatch, call, number)
    outcome = host.call(pod)
    if number != errno.ESRCH:
        assert "the kernel says: the kernel's own words" in outcome.stderr
    assert outcome.stderr.count("\n") == 1
    assert errno.errorcode[number] in outcome.stderr
    if policy == "fail":
        assert outcome.code == 79
        assert "reason=refused" in outcome.log
        # What was done before the refusal is undone: crun calls no poststop for this container.
        assert (host.groups(), host.records()) == ([], [])
        return
    assert outcome.code == 0
    assert reason in outcome.log
    assert f"errno={number}" in outcome.log
    assert (f"waiting/{UID}" in host.records()) is waits
    assert (host.state / "wake").exists() is waits
    # The record stays, so that poststop or reconcile find their way; then nothing is left.
    monkeypatch.undo()
    host.end_process(100)
    host.end_cgroup(POD_CGROUP)
    host.call(stopped())
    assert (host.groups(), host.records()) == ([], [])


def test_a_features_own_policy(host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    host.configure(failurePolicy="ignore", monitoring={"failurePolicy": "fail"})
    refuse(monkeypatch, "mkdir", errno.ENOSPC)
    assert host.call(pod).code == 79
    host.configure(failurePolicy="fail", monitoring={"failurePolicy": "ignore"})
    assert host.call(pod).code == 0


def test_a_refusal_keeps_what_the_pods_other_containers_have(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    host.configure(failurePolicy="fail")
    host.call(pod)
    host.process(200, f"{POD_CGROUP}/crio-x")
    refuse(monkeypatch, "write", errno.EINVAL)
    assert host.call(pod | {"pid": 200, "id": "b" * 64}).code == 79
    assert host.groups() == [GROUP]
    assert host.node().ledger.members(UID) == [ID]


def test_a_refusal_takes_back_a_group_that_only_the_refused_container_needed(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    host.configure(failurePolicy="fail")
    host.call(pod)
    before = host.groups()
    host.add_class("gold")
    host.process(200, f"{POD_CGROUP}/crio-x", rdt="gold")
    refuse(monkeypatch, "write", errno.EINVAL)
    assert host.call(pod | {"pid": 200, "id": "b" * 64}).code == 79
    assert host.groups() == before
    assert (host.node().ledger.read_pod(UID) or {})["groups"].keys() == {""}


def test_out_of_rmids_ends_what_is_dead_first(host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    dead = state(id="d" * 64, pid=300, bundle=host.bundle())
    host.process(300, "/x")
    host.call(dead)
    host.end_process(300)
    real = Filesystem.mkdir

    def full(self: Filesystem, path: str) -> None:
        if len(host.groups()) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, path)

    monkeypatch.setattr(Filesystem, "mkdir", full)
    outcome = host.call(pod)
    assert (outcome.code, outcome.stderr) == (0, "")
    assert host.groups() == [GROUP]


@BOTH_POLICIES
def test_resctrl_is_not_mounted(host: Host, pod: dict[str, Any], policy: str, code: int) -> None:
    host.configure(failurePolicy=policy, resctrlPath=str(host.root / "nothing"))
    outcome = host.call(pod)
    assert (outcome.code, outcome.stderr.count("\n")) == (code, 1)
    assert "there is no resctrl at" in outcome.stderr
    assert "doctor" in outcome.stderr


@BOTH_POLICIES
@pytest.mark.parametrize("change", [{"pid": 0}, {"pid": None}, {"bundle": ""}, {"bundle": "/nonexistent"}])
def test_a_state_without_what_createruntime_needs(
    host: Host, pod: dict[str, Any], change: dict[str, Any], policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy)
    outcome = host.call(pod | change)
    assert (outcome.code, outcome.stderr.count("\n")) == (code, 1)
    assert host.groups() == []
    assert not host.state.exists()


@BOTH_POLICIES
def test_the_process_has_ended(host: Host, pod: dict[str, Any], policy: str, code: int) -> None:
    host.configure(failurePolicy=policy)
    assert host.call(pod | {"pid": 999}).code == code
    assert host.groups() == []


# Poststop always exits 0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"status":"stopped"',
        b'{"id":"../x","status":"stopped"}',
        json.dumps(state(status="stopped", pid=-1)).encode(),
    ],
)
def test_a_poststop_that_can_not_be_read(host: Host, data: bytes) -> None:
    host.configure(failurePolicy="fail")
    assert host.call(data, "poststop").code == 0
    assert host.call(data).code == (0 if b"stopped" in data else 79)


def test_a_poststop_larger_than_any(host: Host) -> None:
    host.configure(failurePolicy="fail")
    large = stopped(annotations={"a": "x" * (STATE_LIMIT + 1)})
    assert host.call(large).code == 0
    assert host.call(large | {"status": "created"}).code == 79


def test_a_poststop_that_fails_before_it_is_read(host: Host, pod: dict[str, Any]) -> None:
    host.configure(failurePolicy="fail")
    boot = host.proc / "sys/kernel/random/boot_id"
    boot.unlink()
    boot.mkdir()
    assert host.call(stopped()).code == 0
    assert host.call(pod).code == 79


def test_a_fault_under_fail_is_taken_back(host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    host.configure(failurePolicy="fail")
    for module, name in ((HeldKey, "assign_pid"), (hook, "_do")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, broken)
            outcome = host.call(pod)
        assert outcome.code == 79
        assert "ZeroDivisionError: a bug" in outcome.stderr
        assert (host.groups(), host.records()) == ([], [])


def test_one_features_trouble_is_not_anothers(host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What a feature's own policy refuses, no failure of one before it lets through."""
    host.configure(classes=[{"name": "none", "allowswap": False}])
    pod["annotations"] |= {"class.memtierd.nri.io": "none"}
    limit = host.cgroup / f"{POD_CGROUP}/crio-{ID}/memory.swap.max".lstrip("/")
    limit.with_name("cgroup.controllers").write_text("memory\n")
    limit.write_text("max\n")

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error", "/proc/100/cpu_resctrl_groups")

    monkeypatch.setattr(monitoring, "plan", broken)
    outcome = host.call(pod)
    assert outcome.code == 0
    assert "cpu_resctrl_groups" in outcome.log
    assert limit.read_text().strip() == "0"


def test_a_poststop_with_a_fault_of_ours(host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    host.configure(failurePolicy="fail")
    host.call(pod)
    host.end_process(100)

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(lifetimes, "bury", broken)
    outcome = host.call(stopped())
    assert outcome.code == 0
    assert "a fault of resctrl-hook itself: ZeroDivisionError: a bug in test_hook.py" in outcome.stderr
    assert outcome.stderr.count("\n") == 1


@BOTH_POLICIES
@pytest.mark.parametrize("fault", [ZeroDivisionError("a bug"), MemoryError(), RecursionError(), KeyboardInterrupt()])
def test_a_fault_of_ours(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch, fault: BaseException, policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy)

    def broken(*_: object) -> None:
        raise fault

    monkeypatch.setattr(monitoring, "plan", broken)
    outcome = host.call(pod)
    assert outcome.code == code
    assert type(fault).__name__ in outcome.stderr
    assert outcome.stderr.count("\n") == 1


@BOTH_POLICIES
def test_a_ledger_that_fills_up(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch, policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy)

    def full(*_: object) -> None:
        raise LedgerError("can't be used", errno=errno.ENOSPC)

    monkeypatch.setattr(Ledger, "write_member", full)
    outcome = host.call(pod)
    assert (outcome.code, outcome.stderr.count("\n")) == (code, 1)
    assert host.groups() == []
    if policy == "fail":
        assert host.node().ledger.key_of(ID) == ""


def test_poststop_with_a_ledger_that_can_not_be_used(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    host.configure(failurePolicy="fail")
    host.call(pod)
    host.end_process(100)

    def broken(*_: object) -> None:
        raise LedgerError("can't be used", errno=errno.EIO)

    monkeypatch.setattr(Ledger, "read_pod", broken)
    assert host.call(stopped()).code == 0


# Time


@BOTH_POLICIES
def test_the_deadline(host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch, policy: str, code: int) -> None:
    host.configure(failurePolicy=policy, deadlineSeconds=0.05)
    monkeypatch.setattr(Filesystem, "mkdir", lambda self, path: time.sleep(60))
    outcome = host.call(pod)
    assert outcome.code == code
    assert "deadline passed" in outcome.stderr
    if policy == "ignore":
        assert f"waiting/{UID}" in host.records()
    else:  # the member is forgotten; the pod's own record goes with the pod
        assert host.records() == [f"idle/{UID}", f"pods/{UID}/pod"]
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_the_deadline_comes_with_every_signal_blocked_as_crun_leaves_them(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    host.configure(deadlineSeconds=0.05)
    monkeypatch.setattr(Filesystem, "mkdir", lambda self, path: time.sleep(5))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        outcome = host.call(pod)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert "deadline passed" in outcome.stderr


def test_a_lock_that_somebody_else_holds(host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    node = host.node()
    monkeypatch.setattr(hook, "Node", lambda settings: node)
    node.monitor.patience = 0.01
    with host.node().monitor.hold(UID):
        outcome = host.call(pod)
    assert outcome.code == 0
    assert "reason=lock-timeout" in outcome.log
    assert f"waiting/{UID}" in host.records()


@BOTH_POLICIES
def test_what_others_left_behind_refuses_nobody(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch, policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy)
    host.call(pod)
    host.node().ledger.mark("idle", "somebody")

    def endless(*_: object) -> None:
        raise DeadlineError("the hook's deadline passed")

    monkeypatch.setattr(lifetimes, "reap", endless)
    outcome = host.call(pod | {"id": "b" * 64})
    assert outcome.code == 0
    assert "idle groups are left to reconcile" in outcome.stderr
    assert len(host.node().ledger.members(UID)) == 2


def test_one_feature_that_can_not_plan_does_not_stop_the_others(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        @staticmethod
        def plan(*_: object) -> None:
            raise HookError("can't plan")

        @staticmethod
        def failure_policy(*_: object) -> str:
            return "ignore"

    monkeypatch.setattr(hook, "features_in_use", lambda settings: [("broken", Broken), ("monitoring", monitoring)])
    outcome = host.call(pod)
    assert outcome.code == 0
    assert "broken of shop/web-0/c0" in outcome.stderr
    assert host.groups() == [GROUP]


# Whose call it is


@BOTH_POLICIES
@pytest.mark.parametrize("config", ["good", "missing", "/etc/shadow/x"])
def test_rootless_podman_does_not_notice_us(
    host: Host, pod: dict[str, Any], policy: str, code: int, config: str
) -> None:
    host.configure(failurePolicy=policy)
    command = host.command() if config == "good" else [*host.command()[:-2], config, "hook"]
    done = subprocess.run(
        ["unshare", "-U", "-r", *command], input=json.dumps(pod).encode(), capture_output=True, env={}, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not host.state.exists()
    assert host.groups() == []


def test_a_closed_stdin_and_stderr(host: Host, pod: dict[str, Any]) -> None:
    command = " ".join(f"'{part}'" for part in host.command())
    for redirection in ("<&-", "<&- 2>&-", "<&- 2>&- >&-"):
        done = subprocess.run(
            ["/bin/sh", "-c", f"{command} {redirection}"], env={}, check=False, stderr=subprocess.DEVNULL
        )
        assert done.returncode == 0
    path = host.root / "state.json"
    path.write_text(json.dumps(pod))
    done = subprocess.run(["/bin/sh", "-c", f"{command} <'{path}' 2>&- >&-"], env={}, check=False)
    assert done.returncode == 0
    assert host.groups() == [GROUP]


def test_an_interrupt_is_no_traceback(host: Host) -> None:
    with subprocess.Popen(host.command(), stdin=subprocess.PIPE, stderr=subprocess.PIPE, env={}) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"{")
        process.stdin.flush()
        _until_it_reads(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr.read().count(b"\n") == 1


def test_a_killed_hook_leaves_what_poststop_needs(host: Host, pod: dict[str, Any]) -> None:
    """Killed at any of its system calls on resctrl, it has recorded before what it was about to do."""
    script = (
        "import sys, os, signal; sys.path.insert(0, sys.argv.pop(1))\n"
        "from resctrl_hooks.node import main, resctrl\n"
        "setattr(resctrl.Filesystem, sys.argv.pop(1), lambda *_: os.kill(os.getpid(), signal.SIGKILL))\n"
        "main.start()\n"
    )
    root = str(hook.__file__).removesuffix("/resctrl_hooks/node/hook.py")
    for call in ("mkdir", "write"):
        command = [*PYTHON[:1], "-I", "-c", script, root, call, "--config", str(host.config), "hook"]
        done = subprocess.run(command, input=json.dumps(pod).encode(), check=False)
        assert done.returncode == -signal.SIGKILL
        assert host.node().ledger.key_of(ID) == UID
        assert f"pods/{UID}/c-{ID}" in host.records()
    host.end_process(100)
    host.end_cgroup(POD_CGROUP)
    host.call(stopped())
    assert (host.groups(), host.records()) == ([], [])


def _until_it_reads(pid: int) -> None:
    """Waits until a process sleeps in a read of its standard input."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with open(f"/proc/{pid}/syscall") as file:
            if file.read().split()[:2] == ["0", "0x0"]:
                return
        time.sleep(0.005)
    raise AssertionError("it never read")


def test_a_held_key_is_free_again_whatever_happens(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(HeldKey, "add_member", broken)
    host.call(pod)
    with host.node().monitor.hold(UID):
        assert sys.exc_info() == (None, None, None)


@pytest.mark.parametrize("case", ["too large", "no settings", "user namespace"])
def test_the_state_is_read_to_its_end_whatever_becomes_of_it(host: Host, case: str) -> None:
    # crun dies of SIGPIPE where a hook ends without that, and the container with it.
    if case == "no settings":
        host.config.write_text("{")
    words = [*(("unshare", "--user", "--map-root-user") if case == "user namespace" else ()), *host.command()]
    size = STATE_LIMIT + 300_000 if case == "too large" else 300_000
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env={}, cwd="/") as hook:
        assert hook.stdin
        assert hook.stderr
        hook.stdin.write(b'{"id": "' + b"x" * size)  # BrokenPipeError where crun would be killed
        hook.stdin.close()
        said = hook.stderr.read().decode()
    assert hook.returncode == 0
    assert {"too large": "larger than", "no settings": "settings", "user namespace": ""}[case] in said
    assert (said == "") == (case == "user namespace")
