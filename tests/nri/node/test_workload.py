"""A container from an event, and the cgroup of its pod: with each cgroup version, by each writer of the record."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, UID, Host, crio_annotations, state
from hosts import crun

from nri.node.conftest import (
    FAIL,
    NOTHING,
    POD,
    container,
    message,
    plugin_of,
    served,
    synchronized,
)
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.nri.node.protobuf import encode
from resctrl_hooks.nri.node.workload import cgroup_of, workload_of

pytestmark = pytest.mark.usefixtures("alarm")


@pytest.mark.parametrize(
    "parent, cgroup",
    [
        ("", "/"),
        ("/kubepods/pod1/", "/kubepods/pod1"),
        ("kubepods-burstable-pod1.slice", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice"),
        ("user.slice", "/user.slice"),
        ("/a/b.slice", "/a/b.slice"),
        ("pod", "/pod"),
    ],
)
def test_pods_cgroup_follows_from_its_parent(parent: str, cgroup: str) -> None:
    assert cgroup_of(parent) == cgroup


@pytest.mark.parametrize("pid, is_valid", [(0, True), (1, True), ((1 << 31) - 1, True), (1 << 31, False)])
def test_pid_is_a_positive_number_of_31_bits(host: Host, pid: int, is_valid: bool) -> None:
    if is_valid and pid:
        host.process(pid, f"{POD_CGROUP}/{ID}")
    if is_valid:
        assert workload_of(POD, container(pid), "containerd", host.context().settings).pid == pid
        return
    with pytest.raises(HookError, match=f"the runtime sent no valid pid: {pid}"):
        workload_of(POD, container(pid), "containerd", host.context().settings)


SENT: dict[str, Any] = {
    "cgroups_path": "/a/b",
    "resources": {
        "cpu": {"shares": {"value": 200}, "quota": {}, "cpus": "0-1"},
        "memory": {"limit": {"value": 1 << 20}},
        "unified": {"memory.high": "1"},
        "blockio_class": {"value": "slow"},
        "rdt_class": {"value": "gold"},
    },
    "scheduler": {"policy": 2, "priority": 7},
    "io_priority": {"class": 2, "priority": 3},
    "devices": [encode("LinuxDevice", {"path": "/dev/x", "type": "b", "major": 8, "minor": 1})],
}


def config_of(host: Host, pid: int = 0, **linux: Any) -> Any:
    """Return the bundle's content of a container with these fields."""
    host.process(41, f"{POD_CGROUP}/{ID}")
    return workload_of(POD, container(pid, linux=linux), "containerd", host.context().settings).bundle._config


def test_numbers_and_optional_values_have_the_names_of_a_bundle(host: Host) -> None:
    for number, name in [*enumerate(("", "OTHER", "FIFO", "RR", "BATCH", "ISO", "IDLE")), (7, "")]:
        found = config_of(host, scheduler={"policy": number})["process"]["scheduler"]["policy"]
        assert found == (f"SCHED_{name}" if name else "")
    for number, name in [*enumerate(("", "RT", "BE", "IDLE")), (4, "")]:
        found = config_of(host, io_priority={"class": number})["process"]["ioPriority"]["class"]
        assert found == (f"IOPRIO_CLASS_{name}" if name else "")
    for rdt, closid, monitored in (
        ({}, "", False),
        ({"clos_id": {"value": "gold"}}, "gold", False),
        ({"enable_monitoring": {"value": True}}, "", True),
    ):
        assert config_of(host, 41, rdt=rdt)["linux"]["intelRdt"] == {"closID": closid, "enableMonitoring": monitored}


@pytest.mark.parametrize("pid, rdt", [(0, {"closID": "gold"}), (41, None)])
def test_message_is_read_as_a_bundle(host: Host, pid: int, rdt: dict[str, str] | None) -> None:
    host.process(41, f"{POD_CGROUP}/{ID}")
    one = container(
        pid,
        linux={**SENT, "resources": encode("LinuxResources", SENT["resources"])},
        env=[b"A=1", b"B=\xff"],
        annotations={"mine": "x"},
    )
    found = workload_of({**POD, "annotations": {"of": "pod"}}, one, "containerd", host.context().settings)
    bundle = found.bundle
    linux = bundle._config["linux"]
    assert linux["cgroupsPath"] == "/a/b"
    assert linux.get("intelRdt") == rdt
    assert linux["devices"]() == [{"path": "/dev/x", "type": "b", "major": 8, "minor": 1}]
    assert bundle.resources == {
        "cpu": {"shares": 200, "quota": 0, "cpus": "0-1"},
        "memory": {"limit": 1 << 20},
        "unified": {"memory.high": "1"},
        "blockIO": {"class": "slow"},
    }
    process = bundle._config["process"]
    assert process["scheduler"] == {"policy": "SCHED_FIFO", "priority": 7}
    assert process["ioPriority"] == {"class": "IOPRIO_CLASS_BE", "priority": 3}
    assert process["env"]() == ["A=1", "B=\ufffd"]
    assert (found.namespace, found.pod, found.key, found.labels) == ("shop", "web-0", UID, {"app": "web"})


pytestmark = pytest.mark.usefixtures("alarm")
VERSIONS = {
    "v2": ("0::{}",),
    "v1": ("12:rdma:/", "5:memory:{}", "4:cpu,cpuacct:{}", "1:name=systemd:{}"),
    "hybrid": ("12:rdma:/", "5:memory:{}", "1:name=systemd:{}", "0::{}"),
}
"""The lines of /proc/PID/cgroup; the kubelet makes no cgroup of a pod for rdma."""
FOLDERS = {"v2": "", "v1": "memory", "hybrid": "memory"}


def process(host: Host, pid: int, version: str, path: str = "/") -> int:
    """Make a process in this cgroup of each hierarchy in which pods have cgroups."""
    host.process(pid, rdt="/")
    (host.proc / f"{pid}/cgroup").write_text("".join(f"{line}\n" for line in VERSIONS[version]).format(*[path] * 9))
    for line in VERSIONS[version]:
        hierarchy = line.split(":")[1].removeprefix("name=")
        if "{}" in line and path != "/":
            name = hierarchy or ("unified" if version == "hybrid" else "")
            (host.cgroup / name / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    return pid


def pod_record(host: Host) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((host.state / "pods" / UID / "pod").read_text())
    return found


def created(host: Host, version: str) -> None:
    plugin = plugin_of(host, **FAIL)
    assert served(plugin, "CreateContainer", message(0)) == NOTHING


def started(host: Host, version: str) -> None:
    plugin = plugin_of(host)
    assert served(plugin, "StartContainer", message(process(host, 41, version, f"{POD_CGROUP}/{ID}"))) == NOTHING


def hooked(host: Host, version: str) -> None:
    pid = process(host, 41, version, f"{POD_CGROUP}/crio-{ID}")
    assert host.call(state(pid=pid, bundle=host.bundle(), annotations=crio_annotations())).code == 0


def adopted(host: Host, version: str) -> None:
    pid = process(host, 41, version, f"{POD_CGROUP}/crio-{ID}")
    crun.record(host.root / "none", ID, pid, host.bundle({"annotations": crio_annotations(), "linux": {}}), 1000)
    reconcile(host.context(), Options())


def listed(host: Host, version: str) -> None:
    plugin = plugin_of(host)
    assert synchronized(plugin, container(process(host, 41, version, f"{POD_CGROUP}/{ID}"))) == NOTHING


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest, host: Host) -> str:
    """Return a cgroup version of the host, whose pod has cgroups."""
    found: str = request.param
    process(host, 1, found)
    process(host, 40, found, POD_CGROUP)
    return found


@pytest.mark.parametrize("record", [created, started, hooked, adopted, listed])
def test_recorded_cgroup_of_a_pod_exists_and_its_end_is_the_pods(
    host: Host, version: str, record: Callable[[Host, str], None]
) -> None:
    record(host, version)
    folder = Path(pod_record(host)["cgroup"])
    assert folder == host.cgroup / FOLDERS[version] / POD_CGROUP.lstrip("/")
    if (host.proc / "41").exists():
        host.end_process(41)
    reconcile(host.context(), Options())
    assert host.groups() == [f"mon_groups/{UID}"], "the pod lives without containers"
    shutil.rmtree(folder)
    reconcile(host.context(), Options())
    assert (host.groups(), host.records()) == ([], [])


def test_wrong_cgroup_in_the_record_of_a_running_pod_is_corrected(host: Host, version: str) -> None:
    started(host, version)
    right = pod_record(host)["cgroup"]
    for wrong in (f"{host.cgroup}/none{POD_CGROUP}", ""):
        context = host.context()
        with context.monitor.hold(UID) as locked:
            locked.record["cgroup"] = wrong
            locked.save()
        assert reconcile(context, Options()).number("repaired") == 1
        assert pod_record(host)["cgroup"] == right
    assert not reconcile(host.context(), Options()).number("repaired")
