"""A container from an event, and the cgroup of its pod: with each cgroup version, by each writer of the record."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, UID, Host, crio_annotations, state
from golden import Golden
from hosts import crun
from hosts.machines import machine, write_sysfs

from nri.node.conftest import FAIL, NOTHING, POD, QUICK, SCHEDULING, container, message, plugin_of, served, synchronized
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host.cpulist import format_list, parse_list
from resctrl_hooks.core.node.host.topology_sysfs import read_topology
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.nri.node.adjustments import AdjustmentError, check_owner, respecting
from resctrl_hooks.nri.node.memory_policy import MemoryPolicyError, memory_policy, nodes_of
from resctrl_hooks.nri.node.protobuf import decode, encode
from resctrl_hooks.nri.node.workload import cgroup_of, workload_of

PARENTS = {
    "": "/",
    "/kubepods/pod1/": "/kubepods/pod1",
    "user.slice": "/user.slice",
    "/a/b.slice": "/a/b.slice",
    "pod": "/pod",
    "kubepods-burstable-pod1.slice": "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice",
}


def test_pods_cgroup_follows_from_its_parent() -> None:
    assert {parent: cgroup_of(parent) for parent in PARENTS} == PARENTS


RESOURCES = {
    "cpu": {"shares": {"value": 200}, "quota": {}, "cpus": "0-1"},
    "memory": {"limit": {"value": 1 << 20}},
    "unified": {"memory.high": "1"},
    "blockio_class": {"value": "slow"},
    "rdt_class": {"value": "gold"},
}
SENT = {
    "cgroups_path": "/a/b",
    "resources": encode("LinuxResources", RESOURCES),
    "scheduler": {"policy": 2, "priority": 7},
    "io_priority": {"class": 2, "priority": 3},
    "devices": [encode("LinuxDevice", {"path": "/dev/x", "type": "b", "major": 8, "minor": 1})],
}
MESSAGES: list[tuple[int, dict[str, Any]]] = [
    *((pid, SENT) for pid in (0, 41)),
    *((0, {"scheduler": {"policy": number}}) for number in range(8)),
    *((0, {"io_priority": {"class": number}}) for number in range(5)),
    *((41, {"rdt": rdt}) for rdt in ({}, {"clos_id": {"value": "gold"}}, {"enable_monitoring": {"value": True}})),
]
"""Processes and fields: their numbers, and optional values, have names in a bundle."""


def test_message_is_read_as_a_bundle(host: Host, golden: Golden) -> None:
    host.process(41, f"{POD_CGROUP}/{ID}")
    lines = []
    for pid, linux in MESSAGES:
        one = container(pid, linux=linux, env=[b"A=1", b"B=\xff"], annotations={"mine": "x"})
        found = workload_of({**POD, "annotations": {"of": "pod"}}, one, "containerd", host.context().settings)
        assert (found.namespace, found.pod, found.key, found.labels) == ("shop", "web-0", UID, {"app": "web"})
        config = {**found.bundle._config, "resources": found.bundle.resources}
        lines.append(json.dumps(config, default=lambda lazy: lazy()))
    golden("\n".join(lines))
    for pid in (1, (1 << 31) - 1):
        host.process(pid, f"{POD_CGROUP}/{ID}")
        assert workload_of(POD, container(pid), "containerd", host.context().settings).pid == pid
    with pytest.raises(HookError, match=f"the runtime sent no valid pid: {1 << 31}"):
        workload_of(POD, container(1 << 31), "containerd", host.context().settings)


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


def record(host: Host, version: str, how: str) -> None:
    """Let the pod be recorded by an event of the plugin, by a hook, or by reconcile."""
    if how == "CreateContainer":
        assert served(plugin_of(host, **FAIL), how, message(0)) == NOTHING
        return
    by_plugin = how in ("StartContainer", "Synchronize")
    pid = process(host, 41, version, f"{POD_CGROUP}/{'' if by_plugin else 'crio-'}{ID}")
    if how == "StartContainer":
        assert served(plugin_of(host), how, message(pid)) == NOTHING
    elif how == "Synchronize":
        assert synchronized(plugin_of(host), container(pid)) == NOTHING
    elif how == "hook":
        assert host.call(state(pid=pid, bundle=host.bundle(), annotations=crio_annotations())).code == 0
    else:
        crun.record(host.crun, ID, pid, host.bundle({"annotations": crio_annotations(), "linux": {}}), 1000)
        reconcile(host.context(), Options())


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest, host: Host) -> str:
    found: str = request.param
    process(host, 1, found)
    process(host, 40, found, POD_CGROUP)
    return found


@pytest.mark.parametrize("how", ["CreateContainer", "StartContainer", "Synchronize", "hook", "reconcile"])
def test_recorded_cgroup_of_a_pod_exists_and_its_end_is_the_pods(host: Host, version: str, how: str) -> None:
    record(host, version, how)
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
    record(host, version, "StartContainer")
    right = pod_record(host)["cgroup"]
    for wrong in (f"{host.cgroup}/none{POD_CGROUP}", ""):
        context = host.context()
        with context.monitor.hold(UID) as locked:
            locked.record["cgroup"] = wrong
            locked.save()
        assert reconcile(context, Options()).number("repaired") == 1
        assert pod_record(host)["cgroup"] == right
    assert not reconcile(host.context(), Options()).number("repaired")


# Adjustments of a container before its creation, their permissions, and values that it has already


def test_path_writable_by_others_is_not_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    above, lstat = {str(path) for path in tmp_path.parents}, os.lstat
    # The tests' files are in a folder writable by all, which is not the subject here.
    monkeypatch.setattr("posix.lstat", lambda path: lstat("/" if path in above else path))
    for name, mode, owner in (("ours", 0o755, 0), ("open", 0o1777, 0), ("group", 0o775, 0), ("theirs", 0o755, 1000)):
        (tmp_path / name / "x").mkdir(parents=True)
        (tmp_path / name).chmod(mode)
        os.chown(tmp_path / name, owner, owner)
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    for good in ("/usr/bin", "/etc/passwd", str(tmp_path / "ours/x")):
        check_owner(good)
    check_owner("/dev/null", device=True)
    alone = "is writable by users other than root"
    for bad, why in (("open", alone), ("group", alone), ("theirs", alone), ("link", "is a link"), ("none", "No such")):
        with pytest.raises(AdjustmentError, match=f"/{bad}.* {why}"):
            check_owner(str(tmp_path / bad / "x"))
    for bad, why in (("/dev/null", alone), ("/proc/self", "is a link")):
        with pytest.raises(AdjustmentError, match=f"{bad} {why}"):
            check_owner(bad)


A, B = ({"resources": {"unified": {"a": value}}} for value in "12")
RESPECTED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"scheduler": {"policy": 2}}, {}),
    *(({"scheduler": {"policy": 2}}, {"scheduler": theirs}) for theirs in ({"policy": 2}, {})),
    ({"io_priority": {"class": 2}}, {"io_priority": {"class": 3}}),
    ({"resources": {"rdt_class": {"value": "a"}}}, {"resources": {"rdt_class": {"value": "b"}}}),
    (
        {"resources": {"blockio_class": {"value": "a"}, "cpu": {"cpus": "1", "mems": "0"}}},
        {"resources": {"blockio_class": {"value": "a"}, "cpu": {"cpus": "2", "mems": ""}}},
    ),
    ({"resources": {"unified": {"a": "1", "b": "2"}}, "devices": [1]}, A),
    *((A, theirs) for theirs in (A, B)),
]
"""Our changes of a container, and the values that it has."""


def test_values_that_a_container_has_are_left(golden: Golden) -> None:
    lines = []
    for ours, theirs in RESPECTED:
        has = {"linux": decode("LinuxContainer", encode("LinuxContainer", theirs))}
        lines.append(f"{ours} of {theirs}: {respecting({'linux': ours, 'env': [1]}, has)}")
    golden("\n".join(lines))


def test_scheduling_class_has_nris_numbers(host: Host, golden: Golden) -> None:
    lines = []
    for spec in (
        *({"policy": "fifo", "priority": 7}, {"policy": "rr", "priority": 3}, {"policy": "idle"}),
        *({"policy": "batch", "nice": 5}, {"nice": -5}, {"nice": 0}),
        *({"ioClass": "realtime", "ioPriority": 1}, {"ioClass": "best-effort"}, {"ioClass": "idle"}),
    ):
        plugin = plugin_of(host, scheduling={**SCHEDULING, "classes": {"quick": spec}}, nri={"adjust": ["scheduling"]})
        plugin.configure({"NRI_version": "0.12", "request_timeout": 60_000})
        code, answer, _ = served(plugin, "CreateContainer", message(pod=QUICK))
        lines.append(f"{spec}: {code} {decode('CreateContainerResponse', answer)['adjust']['linux']}")
    golden("\n".join(lines))


NRI = (0, 12)
SPREAD: dict[str, Any] = {"mode": "MPOL_INTERLEAVE", "nodes": "allowed-mems", "flags": ["MPOL_F_STATIC_NODES"]}


@pytest.fixture
def sysfs(tmp_path: Path) -> str:
    return write_sysfs(machine(packages=2, nodes=2, cores=2), tmp_path / "machine")


def test_words_name_nodes(sysfs: str) -> None:
    topology = read_topology(sysfs)
    cpus = topology.nodes[2].cpus
    words = ["all", "allowed-mems", "cpu-nodes", "cpu-packages", "0,3"]
    words += [f"max-dist:{most}" for most in sorted(set(topology.nodes[2].distances.values()))]
    found = [format_list(nodes_of(one, topology, cpus, parse_list("0-1"))) for one in words]
    assert found == ["0-3", "0-1", "2", "2-3", "0,3", "2", "2-3", "0-3"]


def test_policy_is_that_of_the_class_within_the_containers_nodes(sysfs: str) -> None:
    whole = {"mode": 3, "nodes": "0-3", "flags": [0]}
    assert memory_policy(SPREAD, NRI, {}, sysfs) == whole
    assert memory_policy(SPREAD, NRI, {"mems": "1-2"}, sysfs) == {**whole, "nodes": "1-2"}
    assert memory_policy({**SPREAD, "nodes": "all"}, NRI, {"mems": "2"}, sysfs) == {**whole, "nodes": "2"}
    assert memory_policy({"mode": "MPOL_LOCAL"}, NRI, {"mems": "2"}, "/nowhere") == {"mode": 4, "flags": []}
    with pytest.raises(MemoryPolicyError, match="MPOL_INTERLEAVE of nodes 3: the container may only use 0-1"):
        memory_policy({**SPREAD, "nodes": "3"}, NRI, {"mems": "0-1"}, sysfs)
