"""The hook stages on a made-up host: containers enter their groups, their ends clean up, refusals leave nothing."""

import errno
import os
import re
import time
from copy import copy
from typing import Any

import pytest
from conftest import BOTH_POLICIES, GROUP, ID, POD_CGROUP, UID, Host, always, not_none, state, stopped, temporary_host
from hosts import node
from hosts.faults import Fail, failing
from hosts.hostile_inputs import Inputs
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node import call_metrics, context, errors, feature, lifecycle, registry
from resctrl_hooks.core.node.hook import call, create_runtime
from resctrl_hooks.core.node.ledger import CALLS
from resctrl_hooks.core.node.refusals import FILE, recent_refusals
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem, Resctrl

OTHER_POD = "b" * 8 + UID[8:]
ACTIONS = ("start", "start", "end", "poststop", "pod ends")
RUNS = st.tuples(st.sampled_from(ACTIONS), st.sampled_from("abc"), st.sampled_from((UID, OTHER_POD)))


class Model:
    """A node whose containers start and end in any order.

    ``alive`` are the processes of containers, ``known`` the pods of recorded ones, ``pods`` those with a cgroup.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.alive: dict[str, int] = {}
        self.known: dict[str, str] = {}
        self.groups: set[str] = set()
        self.pods: set[str] = set()

    def apply(self, pid: int, action: str, name: str, pod: str) -> None:
        id_ = name * 64
        if action == "start" and name not in self.alive:
            self.alive[name] = self.host.process(pid, f"/kubepods/pod{pod}/crio-{id_}", start=pid)
            notes = node.crio_annotations(pod)
            assert self.host.call(state(id=id_, pid=pid, bundle=self.host.bundle(), annotations=notes))[:2] == (0, "")
            self.pods.add(pod)
            self.groups.add(pod)
            self.known[name] = pod
            assert pid in self.host.tasks(f"mon_groups/{pod}")
        elif action == "end" and name in self.alive:
            self.host.end_process(self.alive.pop(name))
        elif action == "poststop" and name not in self.alive:
            assert self.host.call(stopped(id=id_))[:2] == (0, "")
            self.known.pop(name, None)
        elif action == "pod ends" and pod in self.pods - {self.known[one] for one in self.alive}:
            self.host.end_cgroup(f"/kubepods/pod{pod}")
            self.pods.discard(pod)

    def check(self, release: str) -> None:
        """Check that each recorded container has its record, and each pod its group until its end is noticed."""
        ledger = self.host.context().ledger
        assert {id_: ledger.key_of(id_) for id_ in ledger.containers()} == {
            name * 64: pod for name, pod in self.known.items()
        }
        keys, groups = set(ledger.keys()), {group.rpartition("/")[2] for group in self.host.groups()}
        needed = {self.known[name] for name in self.alive}
        assert needed <= groups <= self.groups
        assert release == "last-container" or self.groups & self.pods & keys <= groups
        assert not (self.groups - groups) & keys, "nothing is left of a released key"
        assert not needed & set(ledger.marked("idle")), "a pod with a living container is not idle"


@settings(max_examples=25)
@given(st.sampled_from(("pod", "last-container")), st.lists(RUNS, max_size=14))
def test_each_living_container_is_in_the_group_of_its_pod_in_any_order_of_calls(release: str, runs: Any) -> None:
    with temporary_host(monitoring={"release": release}) as host:
        host.process(1, "/")
        model = Model(host)
        for pid, action in enumerate(runs, 100):
            model.apply(pid, *action)
            model.check(release)
        for action in ACTIONS[2:]:
            for name, pod in zip("abc", (UID, OTHER_POD, UID), strict=True):
                model.apply(0, action, name, pod)
        for _ in range(2):  # a later hook of any container notices the ends of pods
            host.call(stopped(id="d" * 64))
        assert (host.groups(), host.records()) == ([], [])


@settings(max_examples=20)
@given(st.integers(0, 1 << 30), st.sampled_from((("ignore", 0), ("fail", 79))))
def test_any_input_has_an_answer_of_one_line_by_policy_and_no_effect_elsewhere(seed: int, policy: Any) -> None:
    """More of them, and as a process of its own, in tests/faults/test_bad_input.py."""
    with temporary_host(failurePolicy=policy[0]) as host:
        host.process(100, f"{POD_CGROUP}/crio-{ID}")
        (host.root / "bundles").mkdir()
        inputs = Inputs(seed, host)
        before = {path for path in host.root.rglob("*") if host.resctrl not in path.parents}
        for _ in range(3):
            data = inputs.state()
            outcome = host.call(data)
            assert outcome.code in (0, policy[1])
            assert outcome.stderr.count("\n") == bool(outcome.stderr)
            assert "Traceback" not in outcome.stderr + outcome.log
            assert "internal error" not in outcome.log
        new = {path for path in host.root.rglob("*") if host.resctrl not in path.parents} - before
        ours = (host.root / "bundles", host.root / "run", host.state)
        assert [path for path in new if path not in (*ours, host.log) and not {*ours} & {*path.parents}] == []


def test_container_of_pod_joins_its_group_and_is_recorded(host: Host, pod: dict[str, Any]) -> None:
    began = time.monotonic()
    outcome = host.call(pod)
    logs = [outcome.log, host.call(pod | {"pid": 0}).log]
    longest = (time.monotonic() - began) * 1e6
    assert (outcome.code, outcome.stderr) == (0, "")
    assert host.tasks(GROUP) == [100, 101, 102]
    assert f"createRuntime of shop/web-0/c0 (cri-o, {UID}): " in outcome.log
    assert re.search(rf" duration_usec=\d+ stage=createRuntime container={ID} key={UID}\n", outcome.log)
    record = not_none(host.context().ledger.read_member(UID, ID))
    assert record["steps"] == [{"feature": "monitoring", "action": "join", "needs": {"class": ""}}]
    assert (record["pid"], record["start"], record["pod"]) == (100, 1000, "web-0")
    lines = [line.split() for line in (host.state / "calls").read_text().splitlines()]
    assert [line[3:] for line in lines] == [["-", UID], ["bad-input", "-"]]
    assert {line[1] for line in lines} == {"createRuntime"}
    for (_, _, counted, _, _), log in zip(lines, logs, strict=True):
        assert 0 < int(counted) <= longest
        assert re.findall(r"duration_usec=(\d+)", log) == [counted]
    assert host.call(stopped()).log.count(f"left {UID}") == 1, "although its process is visible"
    assert host.records() == [f"idle/{UID}", f"pods/{UID}/pod"]
    host.call(pod | {"status": "running"}, "createRuntime")  # the stage can be named
    assert f"containers/{ID}" in host.records()
    host.end_process(100)
    host.end_cgroup(POD_CGROUP)
    host.call(pod, "poststop")
    assert (host.groups(), host.records()) == ([], [])


def test_failure_names_container_or_file_and_consequence(host: Host, pod: dict[str, Any], fail: Fail) -> None:
    for data, stage, said in (
        (b"{", "hook", "hook of an unknown container: "), (b"{", "poststop", "poststop of an unknown container: "),
        (state(pid=0), "hook", f"createRuntime of container {ID}: the container state has no"),
        (state(bundle="/" + "9" * 5000), "hook", f"createRuntime of container {ID}: "),
    ):  # fmt: skip
        outcome = host.call(data, stage)
        assert outcome.code == 0
        assert said in outcome.stderr
        left = "reconcile will clean up" if stage == "poststop" else "container started without resctrl-hooks"
        assert outcome.stderr.endswith(f"; {left}\n")
    for file in (None, "/some/file"):
        fail(call.Call, "_read", OSError(5, "Input/output error", file))
        outcome = host.call(pod)
        assert outcome.code == 0
        assert f"cannot use {file or 'stdin'}: Input/output error" in outcome.stderr


def test_outdated_settings_are_reported_and_unusable_ones_skip_the_call(host: Host, pod: dict[str, Any]) -> None:
    valid = host.config.read_text()
    host.config.write_text("{")
    for stage in ("createRuntime", "poststop", "hook"):
        outcome = host.call(pod, stage)
        assert outcome.code == 0
        assert outcome.stderr.startswith("resctrl-hook: invalid settings in ")
        assert outcome.stderr.endswith("; container skipped\n")
    assert host.groups() == []
    host.config.with_name("config.last.json").write_text(valid)
    outcome = host.call(pod)
    assert outcome.code == 0
    assert f"reason={errors.SettingsError.reason}" in outcome.log
    assert host.groups() == [GROUP]


@pytest.mark.parametrize("stage, readable, code", [
    ("createRuntime", True, 79), ("createRuntime", False, 79), ("hook", True, 79), ("hook", False, 0),
])  # fmt: skip
def test_fault_before_reading_state_refuses_unless_poststop(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch, fail: Fail, stage: str, readable: bool, code: int
) -> None:
    host.configure(failurePolicy="fail")
    alarms: list[float] = []
    monkeypatch.setattr(call, "set_deadline", alarms.append)
    monkeypatch.setattr(call, "answer", None)
    if not readable:
        fail(call, "read_beginning", OSError(5, "Input/output error"))
    assert host.call(pod, stage).code == code
    assert alarms == [context.TIME_TO_TAKE_BACK, 0]


def test_foreign_user_namespace_is_ignored_and_error_with_idle_pods_harmless(host: Host, pod: Any, fail: Fail) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(call, "in_initial_user_namespace", always(value=False))
        assert host.call(pod) == (0, "", "")
    assert (host.groups(), host.state.exists()) == ([], False)
    fail(lifecycle, "reap_some", RuntimeError("a bug"))
    host.context().ledger.prepare()
    host.context().ledger.mark("idle", "another")
    outcome = host.call(pod)
    assert (outcome.code, host.groups()) == (0, [GROUP])
    assert outcome.stderr == "resctrl-hook: groups of ended pods left to reconcile: a bug\n"


@BOTH_POLICIES
@pytest.mark.parametrize("change, words", [
    *(({"uid": uid}, "has no pod UID") for uid in ("../../../etc", "", f"{UID[:-1]}\0")),
    ({"uid": "f" * 8 + UID[8:]}, "the pod UID is forged"), ({"pid": 0}, "has no"), ({"pid": 999}, "has ended"),
    ({"bundle": ""}, "has no bundle"), ({"bundle": "/nonexistent"}, "No such file"),
    ({"class": "platinum"}, "RDT class 'platinum' does not exist"), ({"resctrl": "/nothing"}, "is not mounted at"),
    *(({"class": name}, "invalid RDT class name") for name in ("../../etc", "mon_groups", "a\nb", "\ud800")),
])  # fmt: skip
def test_impossible_request_is_refused_with_one_line_and_leaves_nothing_but_that(
    host: Host, pod: dict[str, Any], change: dict[str, Any], words: str, policy: str, code: int
) -> None:
    if "uid" in change:
        pod["annotations"]["io.kubernetes.pod.uid"] = change["uid"]
    if "class" in change:
        host.bundle({"linux": {"intelRdt": {"closID": change["class"]}}})
    host.configure(failurePolicy=policy, **({"resctrlPath": "/nothing"} if "resctrl" in change else {}))
    before = sorted(path.name for path in host.resctrl.iterdir())
    outcome = host.call({**pod, **{name: value for name, value in change.items() if name in ("pid", "bundle")}})
    assert (outcome.code, outcome.stderr.count("\n")) == (code, 1)
    assert words in outcome.stderr
    assert sorted(path.name for path in host.resctrl.iterdir()) == before
    assert host.groups() == []
    kept = {path.name for path in host.state.iterdir()} if host.state.exists() else set()
    refusals = recent_refusals(str(host.state))
    assert len(refusals) == bool(code)
    if code:
        names = {"namespace": "shop", "pod": "web-0", "container": "c0", "key": UID} if "class" in change else {}
        assert refusals[0].items() >= {"id": ID, **names}.items()
        assert words in refusals[0]["why"]
        assert call_metrics.read(host.context().ledger).stage("createRuntime").failures["refused"] == 1
        assert {CALLS, FILE} <= kept
        assert host.state.stat().st_mode & 0o777 == 0o700
        assert not any(ID in record for record in host.records())
        assert "container rejected" in outcome.stderr
    assert code or "class" in change or "resctrl" in change or not kept


def refusal(number: int) -> Any:
    """Return the kernel's error at a system call on resctrl, whatever its path."""
    return lambda _self, path, *_: OSError(number, os.strerror(number), path)


@BOTH_POLICIES
@pytest.mark.parametrize("name, number, reason, waits", [
    ("mkdir", errno.ENOSPC, "no-rmids", True), ("mkdir", errno.EBUSY, "rmids-busy", True),
    ("mkdir", errno.EACCES, "not-permitted", False), ("write", errno.EINVAL, "class-mismatch", False),
    ("write", errno.ESRCH, "task-gone", False),
])  # fmt: skip
def test_kernel_refusal_follows_policy(
    host: Host, pod: dict[str, Any], name: str, number: int, reason: str, waits: bool, policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy)
    with failing(Filesystem, name, refusal(number)):
        outcome = host.call(pod)
    assert (outcome.code, outcome.stderr.count("\n")) == (code, 1)
    assert errno.errorcode[number] in outcome.stderr
    assert f"reason={'refused' if code else reason}" in outcome.log
    if code:  # earlier steps are undone: crun calls no poststop for this container
        assert (host.groups(), host.records()) == ([], [])
        return
    assert (f"waiting/{UID}" in host.records()) is (host.state / "wake").exists() is waits
    # The record stays, so that poststop or reconcile find their way; then nothing is left.
    host.end_process(100)
    host.end_cgroup(POD_CGROUP)
    host.call(stopped())
    assert (host.groups(), host.records()) == ([], [])


@pytest.mark.parametrize("rdt_class", [None, "gold"])
def test_refusal_keeps_what_other_containers_use(host: Host, pod: Any, fail: Fail, rdt_class: str | None) -> None:
    host.configure(failurePolicy="fail")
    host.call(pod)
    host.add_class("gold")
    host.process(200, f"{POD_CGROUP}/crio-x", rdt=rdt_class)
    fail(Filesystem, "write", refusal(errno.EINVAL))
    assert host.call(pod | {"pid": 200, "id": "b" * 64}).code == 79
    assert host.groups() == [GROUP]
    assert host.context().ledger.members(UID) == [ID]
    assert (host.context().ledger.read_pod(UID) or {})["groups"].keys() == {""}


def test_exhausted_rmids_release_dead_pods_first(host: Host, pod: dict[str, Any], fail: Fail) -> None:
    host.process(300, "/x")
    host.call(state(id="d" * 64, pid=300, bundle=host.bundle()))
    host.end_process(300)
    full = OSError(errno.ENOSPC, "No space left on device")
    fail(Filesystem, "mkdir", full, when=lambda *_: len(host.groups()) == 1)
    assert host.call(pod)[:2] == (0, "")
    assert host.groups() == [GROUP]


@pytest.mark.parametrize("late, code", [(0, 79), (1, 79), (2, 79), (3, 79), (4, 0), (5, 0), (None, 0)])
@pytest.mark.parametrize("error, reason", [(errors.DeadlineError("x"), "deadline"), (ZeroDivisionError("x"), "fault")])
def test_error_that_ends_the_call_refuses_only_before_the_last_refusing_step(
    host: Host, pod: Any, monkeypatch: Any, late: int | None, code: int, error: Exception, reason: str
) -> None:
    host.configure(memory={"failurePolicy": "fail"}, blockio={"failurePolicy": "ignore"})
    host.context().ledger.prepare()
    names = ["monitoring", "memory", "blockio", "memory", "monitoring", "blockio"]
    steps = [(registry.feature_named(name), feature.Step(name, "join", {}, "")) for name in names]

    def apply_steps(steps: list[Any], *_: object) -> None:
        on_step: Any = _[-1]
        for number in range(len(steps)):
            if number == late:
                raise copy(error)
            on_step(number, None)

    monkeypatch.setattr(create_runtime, "planned", lambda *_: steps)
    monkeypatch.setattr(create_runtime, "apply_steps", apply_steps)
    assert host.call(pod).code == code
    failures = call_metrics.read(host.context().ledger).stage("createRuntime").failures
    assert failures == ({} if late is None else {reason: 1, **({"refused": 1} if code else {})})
    assert (host.context().ledger.containers() == []) == bool(code), "a refusal leaves nothing"
    assert [one["pod"] for one in recent_refusals(str(host.state))] == ["web-0"] * bool(code)


@pytest.mark.parametrize("config", [{"failurePolicy": "fail"}, {"monitoring": {"failurePolicy": "fail"}}])
def test_failed_check_of_the_last_refusing_step_refuses(host: Host, pod: Any, fail: Fail, config: Any) -> None:
    host.configure(**config)
    for error in (errors.DeadlineError("deadline of the hook exceeded"), errors.NotArrivedError("it is elsewhere")):
        fail(Resctrl, "check_arrival", error)
        assert host.call(pod).code == 79
        assert host.context().ledger.containers() == []
