"""The hook stages on a made-up host: a pod's container lands in its group, and what its end leaves."""

from typing import Any

import pytest
from conftest import BOOT, GROUP, ID, POD_CGROUP, UID, Host, crio_annotations, state, stopped


def test_a_pods_container_lands_in_its_group(host: Host, pod: dict[str, Any]) -> None:
    outcome = host.call(pod)
    assert (outcome.code, outcome.stderr) == (0, "")
    assert host.tasks(GROUP) == [100, 101, 102]
    assert f"container={ID}" in outcome.log
    assert f"key={UID}" in outcome.log
    assert "stage=createRuntime" in outcome.log
    assert "duration_usec=" in outcome.log
    record = host.context().ledger.read_member(UID, ID)
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


def test_a_poststop_is_the_end_although_the_process_is_still_seen(host: Host, pod: dict[str, Any]) -> None:
    host.call(pod)
    assert host.call(stopped()).log.count(f"left {UID}") == 1
    assert host.records() == [f"idle/{UID}", f"pods/{UID}/pod"]
    host.end_cgroup(POD_CGROUP)
    host.call(stopped(id="d" * 64))
    assert host.groups() == []


def test_an_id_that_changes_pods(host: Host, pod: dict[str, Any]) -> None:
    host.call(pod)
    host.end_process(100)
    other = "b" * 8 + UID[8:]
    host.process(200, f"/kubepods/pod{other}/x", start=5)
    host.call(pod | {"pid": 200, "annotations": crio_annotations(other)})
    assert host.tasks(f"mon_groups/{other}") == [200]
    assert host.context().ledger.key_of(ID) == other
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


@pytest.mark.parametrize("take_over", [False, True])
def test_a_runtime_that_monitors_by_itself(host: Host, pod: dict[str, Any], take_over: bool) -> None:
    host.configure(monitoring={"takeOver": take_over})
    host.bundle({"linux": {"intelRdt": {"enableMonitoring": True}}})
    outcome = host.call(pod)
    assert outcome.code == 0
    assert host.groups() == ([GROUP] if take_over else [])
    assert ("enableMonitoring" in outcome.log) is not take_over
