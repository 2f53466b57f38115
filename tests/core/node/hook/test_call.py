"""The hook stages on a made-up host: a pod's container enters its group, and its end cleans up."""

import json
import re
import time
from typing import Any

import pytest
from conftest import BOOT, GROUP, ID, POD_CGROUP, UID, Host, always, crio_annotations, state, stopped
from hosts.faults import Fail

from resctrl_hooks.core.node.container.oci import STATE_LIMIT
from resctrl_hooks.core.node.context import TIME_TO_TAKE_BACK
from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.core.node.hook import call
from resctrl_hooks.core.node.settings import DEFAULTS


def test_container_of_pod_joins_its_group(host: Host, pod: dict[str, Any]) -> None:
    outcome = host.call(pod)
    assert (outcome.code, outcome.stderr) == (0, "")
    assert host.tasks(GROUP) == [100, 101, 102]
    assert re.search(rf" duration_usec=\d+ stage=createRuntime container={ID} key={UID}\n", outcome.log)
    record = host.context().ledger.read_member(UID, ID)
    assert record is not None
    assert record["steps"] == [{"feature": "monitoring", "action": "join", "needs": {"class": ""}}]
    assert (record["pid"], record["start"], record["boot"], record["pod"]) == (100, 1000, BOOT, "web-0")


def test_poststop_keeps_group_of_pod(host: Host, pod: dict[str, Any]) -> None:
    host.call(pod)
    host.end_process(100)
    assert host.call(stopped(annotations={})).log.count(f"left {UID}") == 1
    assert host.groups() == [GROUP]
    assert host.records() == [f"idle/{UID}", f"pods/{UID}/pod"]


def test_restart_finds_group_of_pod(host: Host, pod: dict[str, Any]) -> None:
    host.call(pod)
    inode = (host.resctrl / GROUP).stat().st_ino
    host.end_process(100)
    host.call(stopped())
    host.process(200, f"{POD_CGROUP}/crio-x", start=2000)
    host.call(pod | {"pid": 200, "id": "b" * 64})
    assert (host.resctrl / GROUP).stat().st_ino == inode
    assert 200 in host.tasks(GROUP)
    assert f"idle/{UID}" not in host.records()


def test_last_container_releases_group(host: Host, pod: dict[str, Any]) -> None:
    host.configure(monitoring={"release": "last-container"})
    host.call(pod)
    host.end_process(100)
    host.call(stopped())
    assert (host.groups(), host.records()) == ([], [])


def test_restart_with_same_id_before_poststop_keeps_group(host: Host) -> None:
    start = state(bundle=host.bundle())
    host.process(100, "/x", start=1)
    host.call(start)
    host.end_process(100)
    host.process(200, "/x", start=2)
    assert host.call(start | {"pid": 200}).code == 0
    assert "an earlier run" in host.call(stopped()).log
    assert host.groups() == [f"mon_groups/{ID}"]
    host.end_process(200)
    host.call(stopped())
    assert (host.groups(), host.records()) == ([], [])


def test_poststop_ends_container_even_if_process_is_visible(host: Host, pod: dict[str, Any]) -> None:
    host.call(pod)
    assert host.call(stopped()).log.count(f"left {UID}") == 1
    assert host.records() == [f"idle/{UID}", f"pods/{UID}/pod"]
    host.end_cgroup(POD_CGROUP)
    host.call(stopped(id="d" * 64))
    assert host.groups() == []


def test_id_reused_by_another_pod_moves_to_its_group(host: Host, pod: dict[str, Any]) -> None:
    host.call(pod)
    host.end_process(100)
    other = "b" * 8 + UID[8:]
    host.process(200, f"/kubepods/pod{other}/x", start=5)
    host.call(pod | {"pid": 200, "annotations": crio_annotations(other)})
    assert host.tasks(f"mon_groups/{other}") == [200]
    assert host.context().ledger.key_of(ID) == other
    assert f"pods/{UID}/c-{ID}" not in host.records()


def test_repeated_late_or_unmatched_poststop_is_harmless(host: Host, pod: dict[str, Any]) -> None:
    assert host.call(stopped()) == (0, "", "")
    host.call(pod)
    host.end_process(100)
    host.call(stopped())
    assert host.call(stopped()) == (0, "", "")


def test_stage_can_be_named(host: Host, pod: dict[str, Any]) -> None:
    host.call(pod | {"status": "running"}, "createRuntime")
    assert host.groups() == [GROUP]
    host.end_process(100)
    host.end_cgroup(POD_CGROUP)
    host.call(pod, "poststop")
    assert host.groups() == []


def test_sandbox_is_not_monitored(host: Host, pod: dict[str, Any]) -> None:
    pod["annotations"]["io.kubernetes.cri-o.ContainerType"] = "sandbox"
    assert "monitoring does not apply to a pod's sandbox" in host.call(pod).log
    assert host.groups() == []


@pytest.mark.parametrize("take_over", [False, True])
def test_process_stays_in_its_runtimes_group_unless_taken_over(
    host: Host, pod: dict[str, Any], take_over: bool
) -> None:
    host.configure(monitoring={"takeOver": take_over})
    host.bundle({"linux": {"intelRdt": {"enableMonitoring": True}}})
    theirs = f"mon_groups/{pod['id']}"
    (host.resctrl / theirs).mkdir()
    outcome = host.call(pod)
    assert outcome.code == 0
    assert host.groups() == ([GROUP, theirs] if take_over else [theirs])
    assert ("enableMonitoring" in outcome.log) is not take_over


def test_each_call_is_counted_and_logged_with_duration(host: Host, pod: dict[str, Any]) -> None:
    began = time.monotonic()
    logs = [host.call(pod).log, host.call(pod | {"pid": 0}).log]
    longest = (time.monotonic() - began) * 1e6
    lines = [line.split() for line in (host.state / "calls").read_text().splitlines()]
    assert [(stage, reasons, key) for _, stage, _, reasons, key in lines] == [
        ("createRuntime", "-", UID),
        ("createRuntime", "bad-input", "-"),
    ]
    for (_, _, counted, _, _), log in zip(lines, logs, strict=True):
        assert 0 < int(counted) <= longest
        assert re.findall(r"duration_usec=(\d+)", log) == [counted]


@pytest.mark.parametrize(
    "data, stage, said",
    [
        (b"{", "hook", "hook of an unknown container: "),
        (b"{", "poststop", "poststop of an unknown container: "),
        (json.dumps(state(pid=0)).encode(), "hook", f"createRuntime of container {ID}: the container state has no"),
    ],
)
def test_failure_names_container_and_consequence(host: Host, data: bytes, stage: str, said: str) -> None:
    outcome = host.call(data, stage)
    assert outcome.code == 0
    assert said in outcome.stderr
    left = "reconcile will clean up" if stage == "poststop" else "container started without resctrl-hooks"
    assert outcome.stderr.endswith(f"; {left}\n")


def test_known_container_is_named_by_its_pod(host: Host, pod: dict[str, Any]) -> None:
    assert f"createRuntime of shop/web-0/c0 (cri-o, {UID}): " in host.call(pod).log


@pytest.mark.parametrize("file, named", [(None, "stdin"), ("/some/file", "/some/file")])
def test_unreadable_input_is_named(host: Host, pod: dict[str, Any], fail: Fail, file: str | None, named: str) -> None:
    fail(call.Call, "_read", OSError(5, "Input/output error", file))
    outcome = host.call(pod)
    assert outcome.code == 0
    assert f"cannot use {named}: Input/output error" in outcome.stderr


def test_outdated_settings_are_reported(host: Host, pod: dict[str, Any]) -> None:
    host.config.rename(host.config.with_name("config.last.json"))
    host.config.write_text("{")
    outcome = host.call(pod)
    assert outcome.code == 0
    assert f"reason={SettingsError.reason}" in outcome.log
    assert host.groups() == [GROUP]


def test_alarm_is_cancelled_at_the_end(host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    alarms: list[float] = []
    monkeypatch.setattr(call, "set_deadline", alarms.append)
    host.call(pod)
    host.call(b"{")
    assert alarms == [DEFAULTS["deadlineSeconds"], 0] * 2


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
    assert alarms == [TIME_TO_TAKE_BACK, 0]


@pytest.mark.parametrize("more, groups", [(0, [GROUP]), (1, [])])
def test_state_of_maximum_size_is_accepted(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch, more: int, groups: list[str]
) -> None:
    ends: list[int] = []
    monkeypatch.setattr(call, "read_to_end", ends.append)
    outcome = host.call(json.dumps(pod).encode().ljust(STATE_LIMIT + more))
    assert outcome.code == 0
    assert host.groups() == groups
    assert ends == [0] * more
    assert (f"larger than {STATE_LIMIT} bytes" in outcome.stderr) == bool(more)


def test_refusal_with_long_bundle_path_states_its_outcome(host: Host) -> None:
    """A log line is bounded: the path must leave room for the rest."""
    host.configure(failurePolicy="fail")
    outcome = host.call(state(bundle="/" + "9" * 5000))
    assert outcome.code == 79
    assert "container rejected" in outcome.stderr


def test_call_in_another_user_namespace_does_nothing(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "in_initial_user_namespace", always(value=False))
    assert host.call(pod) == (0, "", "")
    assert (host.groups(), host.state.exists()) == ([], False)


@pytest.mark.parametrize("stage", ["createRuntime", "poststop", "hook"])
def test_call_with_unusable_settings_is_skipped(host: Host, pod: dict[str, Any], stage: str) -> None:
    host.config.write_text("{")
    outcome = host.call(pod, stage)
    assert outcome.code == 0
    assert outcome.stderr.startswith("resctrl-hook: invalid settings in ")
    assert outcome.stderr.endswith("; container skipped\n")
    assert host.groups() == []


def test_failure_with_idle_pods_does_not_affect_the_container(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("resctrl_hooks.core.node.lifecycle.reap_some", broken)
    host.context().ledger.prepare()
    host.context().ledger.mark("idle", "another")
    outcome = host.call(pod)
    assert (outcome.code, host.groups()) == (0, [GROUP])
    assert outcome.stderr == "resctrl-hook: idle groups left to reconcile: a bug\n"


@pytest.mark.parametrize("uid", ["hdishd83djaidwnduwk28bcsb", "My-Pod_1.x", "f" * 64])
def test_pod_with_chosen_uid_has_its_group_until_its_container_ends(host: Host, uid: str) -> None:
    host.process(100, f"/system.slice/crio-{ID}.scope")
    given = state(bundle=host.bundle(), annotations=crio_annotations(uid))
    assert host.call(given).code == 0
    assert host.groups() == [f"mon_groups/{uid}"]
    assert host.tasks(f"mon_groups/{uid}") == [100]
    host.end_process(100)
    assert host.call(stopped(annotations=crio_annotations(uid))).code == 0
    assert (host.groups(), host.records()) == ([], [])
