"""Adjustments of a container before its creation, their permissions, and values that it has already."""

import os
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from hosts.machines import machine, write_sysfs

from nri.node.conftest import (
    IN_BATCH,
    LIMITS,
    MEMORY,
    POD,
    QUICK,
    SCHEDULING,
    log,
    message,
    plugin_of,
    served,
)
from resctrl_hooks.core.node.host.cpulist import format_list, parse_list
from resctrl_hooks.core.node.host.topology_sysfs import read_topology
from resctrl_hooks.nri.node.adjustments import AdjustmentError, check_owner, respecting
from resctrl_hooks.nri.node.memory_policy import MemoryPolicyError, memory_policy, nodes_of
from resctrl_hooks.nri.node.protobuf import decode, encode

pytestmark = pytest.mark.usefixtures("alarm")


def adjusted(host: Host, pod: dict[str, Any], version: str = "", settings: Any = None, **of: Any) -> dict[str, Any]:
    """Return the changes to a new container of a pod by a plugin with such settings."""
    plugin = plugin_of(host, **(settings or {}))
    plugin.configure({"NRI_version": version, "request_timeout": 60_000})
    code, answer, others = served(plugin, "CreateContainer", message(pod=pod, **of))
    assert (code, others) == (0, b"")
    return dict(decode("CreateContainerResponse", answer).get("adjust", {}))


@pytest.mark.parametrize(
    "adjust, limits", [([], None), (["memory"], {"memory.swap.max": "max", "memory.high": str(64 << 20)})]
)
def test_memory_limits_are_in_specification_with_permission(
    host: Host, adjust: list[str], limits: dict[str, str] | None
) -> None:
    found = adjusted(host, MEMORY, settings={**LIMITS, "nri": {"adjust": adjust}})
    assert found == ({"linux": {"resources": {"unified": limits}}} if limits else {})


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


def has(linux: dict[str, Any]) -> dict[str, Any]:
    """Return a container with these values."""
    return {"linux": decode("LinuxContainer", encode("LinuxContainer", linux))}


@pytest.mark.parametrize(
    "ours, theirs, kept, differing",
    [
        ({"scheduler": {"policy": 2}}, {}, {"scheduler": {"policy": 2}}, []),
        ({"scheduler": {"policy": 2}}, {"scheduler": {"policy": 2}}, {}, []),
        ({"scheduler": {"policy": 2}}, {"scheduler": {}}, {"scheduler": {"policy": 2}}, []),
        (
            {"io_priority": {"class": 2}},
            {"io_priority": {"class": 3}},
            {},
            ["io_priority is {'class': 3} instead of {'class': 2}"],
        ),
        (
            {"resources": {"rdt_class": {"value": "a"}}},
            {"resources": {"rdt_class": {"value": "b"}}},
            {},
            ["rdt_class is b instead of a"],
        ),
        (
            {"resources": {"blockio_class": {"value": "a"}, "cpu": {"cpus": "1", "mems": "0"}}},
            {"resources": {"blockio_class": {"value": "a"}, "cpu": {"cpus": "2", "mems": ""}}},
            {"resources": {"cpu": {"mems": "0"}}},
            ["cpus is 2 instead of 1"],
        ),
        (
            {"resources": {"unified": {"a": "1", "b": "2"}}, "devices": [1]},
            {"resources": {"unified": {"a": "1"}}},
            {"resources": {"unified": {"b": "2"}}, "devices": [1]},
            [],
        ),
        ({"resources": {"unified": {"a": "1"}}}, {"resources": {"unified": {"a": "1"}}}, {}, []),
        ({"resources": {"unified": {"a": "1"}}}, {"resources": {"unified": {"a": "2"}}}, {}, ["a is 2 instead of 1"]),
    ],
)
def test_values_that_a_container_has_are_left(
    ours: dict[str, Any], theirs: dict[str, Any], kept: dict[str, Any], differing: list[str]
) -> None:
    found = respecting({"linux": ours, "env": [1]}, has(theirs))
    assert found == ({"env": [1], **({"linux": kept} if kept else {})}, differing)


@pytest.mark.parametrize(
    "version, names",
    [
        ("", set()),
        ("0.9.9", set()),
        ("0.10.0", {"io_priority"}),
        ("v0.11.0", {"io_priority", "scheduler"}),
        ("v1.0", {"io_priority", "scheduler"}),
        ("v0.x", set()),
        ("0.11", {"io_priority", "scheduler"}),
    ],
)
def test_fields_are_those_of_the_runtimes_version(host: Host, version: str, names: set[str]) -> None:
    linux = adjusted(host, QUICK, version, {"scheduling": SCHEDULING, "nri": {"adjust": ["scheduling"]}})["linux"]
    assert linux.keys() - {"resources"} == names
    assert linux["resources"] == {"unified": {"cpu.weight": "200"}}


@pytest.mark.parametrize(
    "spec, found",
    [
        ({"policy": "fifo", "priority": 7}, {"scheduler": {"policy": 2, "priority": 7}}),
        ({"policy": "rr", "priority": 3}, {"scheduler": {"policy": 3, "priority": 3}}),
        ({"policy": "idle"}, {"scheduler": {"policy": 6}}),
        ({"policy": "batch", "nice": 5}, {"scheduler": {"policy": 4, "nice": 5}}),
        ({"nice": -5}, {"scheduler": {"policy": 1, "nice": -5}}),
        ({"nice": 0}, {"scheduler": {"policy": 1}}),
        ({"ioClass": "realtime", "ioPriority": 1}, {"io_priority": {"class": 1, "priority": 1}}),
        ({"ioClass": "best-effort"}, {"io_priority": {"class": 2, "priority": 4}}),
        ({"ioClass": "idle"}, {"io_priority": {"class": 3, "priority": 0}}),
    ],
)
def test_scheduling_class_has_nris_numbers(host: Host, spec: dict[str, Any], found: dict[str, Any]) -> None:
    section = {**SCHEDULING, "classes": {"quick": spec}}
    assert adjusted(host, QUICK, "0.12", {"scheduling": section, "nri": {"adjust": ["scheduling"]}})["linux"] == found


def test_scheduler_of_earlier_plugin_stays(host: Host) -> None:
    settings = {"scheduling": SCHEDULING, "nri": {"adjust": ["scheduling"]}}
    found = adjusted(host, QUICK, "v0.12.0", settings, linux={"scheduler": {"policy": 4}})["linux"]
    assert found == {"resources": {"unified": {"cpu.weight": "200"}}, "io_priority": {"class": 2, "priority": 4}}
    assert "left unchanged: policy batch instead of policy fifo priority 7" in log(host)


@pytest.mark.parametrize("options, mounted", [(None, ["rbind", "ro", "nosuid", "nodev"]), (["bind"], ["bind"])])
def test_class_brings_mounts_variables_and_devices(host: Host, options: list[str] | None, mounted: list[str]) -> None:
    mount = {"source": "/usr", "destination": "/x", **({"options": options} if options else {})}
    brings = {"name": "batch", "env": {"A": "1"}, "mounts": [mount], "devices": [{"path": "/dev/null"}]}
    settings = {"classes": [brings], "nri": {"allow": {"shop": ["batch"]}}}
    found = adjusted(host, IN_BATCH, settings=settings)
    assert found["mounts"] == [{"destination": "/x", "type": "bind", "source": "/usr", "options": mounted}]
    assert found["env"] == [{"key": "A", "value": "1"}]
    (device,) = found["linux"]["devices"]
    null = {"path": "/dev/null", "type": "c", "major": 1, "minor": 3}
    assert device == {**null, "file_mode": {"value": 0o666}, "uid": {"value": 0}, "gid": {"value": 0}}
    assert adjusted(host, POD, settings=settings) == {}, "a container without the class"


@pytest.mark.parametrize("policy, code, reason", [("ignore", 0, "adjustment"), ("fail", 2, "refused")])
def test_adjustments_apply_to_allowed_containers_only(host: Host, policy: str, code: int, reason: str) -> None:
    classes = [{"name": "batch", "env": {"TIER": "batch"}}]
    plugin = plugin_of(host, classes=classes, nri={"allow": {"elsewhere": ["*"]}}, failurePolicy=policy)
    host.context().ledger.prepare()
    found, why, _ = served(plugin, "CreateContainer", message(pod=IN_BATCH))
    said = "namespace shop is not allowed to use the devices, mounts, variables or policy of class 'batch'"
    assert (found, said in log(host), said in why.decode()) == (code, True, bool(code))
    assert (host.state / "calls").read_text().split()[3] == reason


def test_file_is_no_device(host: Host) -> None:
    brings = {"name": "batch", "devices": [{"path": "/etc/passwd"}]}
    assert adjusted(host, IN_BATCH, settings={"classes": [brings], "nri": {"allow": {"shop": ["batch"]}}}) == {}
    assert "/etc/passwd is not a device; container not changed" in log(host)


pytestmark = pytest.mark.usefixtures("alarm")
NRI = (0, 12)
SPREAD: dict[str, Any] = {"mode": "MPOL_INTERLEAVE", "nodes": "allowed-mems", "flags": ["MPOL_F_STATIC_NODES"]}
ASKS = {**POD, "annotations": {"class.memory-policy.nri.io": "spread"}}
CLASSES: dict[str, Any] = {"classes": [{"name": "spread", "policy": SPREAD}]}


@pytest.fixture
def sysfs(tmp_path: Path) -> str:
    """Two packages with two NUMA nodes each."""
    return write_sysfs(machine(packages=2, nodes=2, cores=2), tmp_path / "machine")


def test_words_name_nodes(sysfs: str) -> None:
    topology = read_topology(sysfs)
    cpus = topology.nodes[2].cpus
    distances = sorted(set(topology.nodes[2].distances.values()))

    def named(words: str) -> str:
        return format_list(nodes_of(words, topology, cpus, parse_list("0-1")))

    words = ("all", "allowed-mems", "cpu-nodes", "cpu-packages", "0,3")
    assert [named(one) for one in words] == ["0-3", "0-1", "2", "2-3", "0,3"]
    assert [named(f"max-dist:{most}") for most in distances] == ["2", "2-3", "0-3"]


def test_policy_is_that_of_the_class_within_the_containers_nodes(sysfs: str) -> None:
    whole = {"mode": 3, "nodes": "0-3", "flags": [0]}
    assert memory_policy(SPREAD, NRI, {}, sysfs) == whole
    assert memory_policy(SPREAD, NRI, {"mems": "1-2"}, sysfs) == {**whole, "nodes": "1-2"}
    assert memory_policy({**SPREAD, "nodes": "all"}, NRI, {"mems": "2"}, sysfs) == {**whole, "nodes": "2"}
    assert memory_policy({"mode": "MPOL_LOCAL"}, NRI, {"mems": "2"}, "/nowhere") == {"mode": 4, "flags": []}


def test_nodes_that_the_container_may_not_use_are_named(sysfs: str) -> None:
    with pytest.raises(MemoryPolicyError, match="MPOL_INTERLEAVE of nodes 3: the container may only use 0-1"):
        memory_policy({**SPREAD, "nodes": "3"}, NRI, {"mems": "0-1"}, sysfs)


def test_policy_of_an_annotated_class_is_in_the_specification(host: Host, sysfs: str) -> None:
    settings = {**CLASSES, "sysPath": sysfs, "nri": {"allow": {"shop": ["spread"]}}}
    found = adjusted(host, ASKS, "v0.12.1", settings)
    assert found == {"linux": {"memory_policy": {"mode": 3, "nodes": "0-3", "flags": [0]}}}
    assert adjusted(host, POD, "v0.12.1", settings) == {}, "a container without the annotation"


@pytest.mark.parametrize(
    "allow, version, why",
    [
        ({}, "v0.12.1", "not allowed to use the devices, mounts, variables or policy of class 'spread'"),
        ({"shop": ["spread"]}, "v0.11.0", "the runtime's NRI has no memory policies"),
    ],
)
def test_policy_needs_permission_and_a_runtime_that_has_it(
    host: Host, sysfs: str, allow: dict[str, list[str]], version: str, why: str
) -> None:
    assert adjusted(host, ASKS, version, {**CLASSES, "sysPath": sysfs, "nri": {"allow": allow}}) == {}
    assert why in log(host)
