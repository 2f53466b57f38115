"""Adjustments of a container before its creation, and their permissions."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from hosts.processes import wait_until

from nri.test_events import CLASS, POD, Plugin, asking, container, host, start
from resctrl_hooks.nri.adjustments import AdjustmentError, check_owner
from resctrl_hooks.nri.protobuf import decode

__all__ = ["host", "start"]
BATCH = {"name": "batch", "allowswap": True}
MEMORY: dict[str, Any] = {**POD, "annotations": {CLASS: "batch", "memory.high.memtierd.nri.io": "64M"}}
LIMITS = {"memory": {"allowLimits": {"*": ["*"]}}, "classes": [BATCH]}


def adjusted(plugin: Plugin, pod: dict[str, Any], **told: Any) -> dict[str, Any]:
    code, words, payload = plugin.greet(**told).event("CreateContainer", pod, container())
    assert not code, words
    return dict(decode("CreateContainerResponse", payload).get("adjust", {}))


def test_nothing_is_changed_without_permission(start: Callable[..., Plugin]) -> None:
    assert adjusted(start(**LIMITS), MEMORY) == {}


def test_memory_limits_are_in_specification(start: Callable[..., Plugin]) -> None:
    found = adjusted(start(**LIMITS, nri={"adjust": ["memory"]}), MEMORY)
    unified = {"memory.swap.max": "max", "memory.high": str(64 << 20)}
    assert found == {"linux": {"resources": {"unified": unified}}}


def test_rdt_class_is_set_through_runtime(host: Host, start: Callable[..., Plugin]) -> None:
    host.add_class("gold")
    rdt = {"enabled": True, "allow": {"*": ["gold"]}}
    found = adjusted(start(rdt=rdt, nri={"adjust": ["rdt"]}), asking("gold"))
    assert found == {"linux": {"resources": {"rdt_class": {"value": "gold"}}}}


SCHEDULING = {
    "enabled": True,
    "allow": {"*": ["*"]},
    "classes": {"quick": {"policy": "fifo", "priority": 7, "ioClass": "best-effort", "cpuWeight": 200}},
}
QUICK: dict[str, Any] = {**POD, "annotations": {"class.scheduling.resctrl-hooks.io": "quick"}}


@pytest.mark.parametrize(
    "version, more",
    [
        ("", {}),
        ("v0.10.0", {"io_priority": {"class": 2, "priority": 4}}),
        ("v0.12.0", {"io_priority": {"class": 2, "priority": 4}, "scheduler": {"policy": 2, "priority": 7}}),
    ],
)
def test_runtime_gets_fields_of_its_version(start: Callable[..., Plugin], version: str, more: dict[str, Any]) -> None:
    found = adjusted(start(scheduling=SCHEDULING, nri={"adjust": ["scheduling"]}), QUICK, NRI_version=version)
    assert found == {"linux": {"resources": {"unified": {"cpu.weight": "200"}}, **more}}


BRINGS = {
    **BATCH,
    "env": {"TIER": "batch"},
    "mounts": [{"source": "/usr", "destination": "/host-usr"}],
    "devices": [{"path": "/dev/null"}],
}
IN_BATCH = {**POD, "annotations": {CLASS: "batch"}}


def test_class_adds_environment_mounts_and_devices(start: Callable[..., Plugin]) -> None:
    found = adjusted(start(classes=[BRINGS], nri={"allow": {"shop": ["batch"]}}), IN_BATCH)
    assert found["env"] == [{"key": "TIER", "value": "batch"}]
    (mount,) = found["mounts"]
    assert (mount["source"], mount["destination"], "ro" in mount["options"]) == ("/usr", "/host-usr", True)
    (device,) = found["linux"]["devices"]
    assert (device["path"], device["type"], device["major"], device["minor"]) == ("/dev/null", "c", 1, 3)


def test_adjustments_apply_to_allowed_containers_only(start: Callable[..., Plugin]) -> None:
    plugin = start(classes=[BRINGS], nri={"allow": {"elsewhere": ["*"]}})
    assert adjusted(plugin, IN_BATCH) == {}
    assert (
        "namespace shop is not allowed to use the devices, mounts, variables or policy of class 'batch'" in plugin.log()
    )


def test_adjustments_refuse_other_containers_under_fail(start: Callable[..., Plugin]) -> None:
    peer = start(classes=[BRINGS], failurePolicy="fail").greet()
    code, words, _ = peer.event("CreateContainer", IN_BATCH, container())
    assert code == 2
    assert "is not allowed to use the devices, mounts, variables or policy of class 'batch'" in words


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


@pytest.mark.parametrize(
    "earlier, left",
    [
        ({"memory.high": str(64 << 20)}, {"memory.swap.max": "max"}),  # the same value is a conflict for NRI
        ({"memory.high": "100"}, {"memory.swap.max": "max"}),
        ({"memory.high": "100", "memory.swap.max": "max"}, None),
        ({"memory.low": "1"}, {"memory.swap.max": "max", "memory.high": str(64 << 20)}),
    ],
)
def test_values_of_earlier_plugin_are_not_sent(
    host: Host, start: Callable[..., Plugin], earlier: dict[str, str], left: dict[str, str] | None
) -> None:
    plugin = start(**LIMITS, failurePolicy="fail", nri={"adjust": ["memory"]})
    one = container(linux={"resources": {"unified": earlier}})
    code, words, payload = plugin.greet().event("CreateContainer", MEMORY, one)
    assert not code, words
    found = decode("CreateContainerResponse", payload).get("adjust", {})
    assert found == ({"linux": {"resources": {"unified": left}}} if left else {})
    differs = earlier.get("memory.high") == "100"
    assert ("left unchanged: memory.high is 100 instead of 67108864" in plugin.log()) == differs
    calls = host.state / "calls"
    wait_until(lambda: calls.exists() and "CreateContainer" in calls.read_text(), "the event is counted")
    assert (" conflict " in calls.read_text()) == differs


def test_rdt_class_of_earlier_plugin_stays(host: Host, start: Callable[..., Plugin]) -> None:
    host.add_class("gold")
    rdt = {"enabled": True, "allow": {"*": ["gold"]}, "failurePolicy": "fail"}
    plugin = start(rdt=rdt, nri={"adjust": ["rdt"]})
    one = container(linux={"resources": {"rdt_class": {"value": "silver"}}})
    assert plugin.greet().event("CreateContainer", asking("gold"), one) == (0, "", b"")


def test_scheduler_of_earlier_plugin_stays(start: Callable[..., Plugin]) -> None:
    plugin = start(scheduling=SCHEDULING, nri={"adjust": ["scheduling"]})
    one = container(linux={"scheduler": {"policy": 4}})
    code, _, payload = plugin.greet(NRI_version="v0.12.0").event("CreateContainer", QUICK, one)
    assert not code
    found = decode("CreateContainerResponse", payload)["adjust"]["linux"]
    assert found == {"resources": {"unified": {"cpu.weight": "200"}}, "io_priority": {"class": 2, "priority": 4}}
    assert "left unchanged: policy batch instead of policy fifo priority 7" in plugin.log()
