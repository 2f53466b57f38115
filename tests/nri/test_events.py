"""The real command on a made-up host, with a runtime that tells of pods: what only its processes together show."""

from collections.abc import Callable
from pathlib import Path

from conftest import GROUP, ID, POD_CGROUP, Host
from hosts.processes import wait_until

from nri.conftest import OK, POD, Plugin, configure, container


def test_life_of_container_in_newer_nri_is_served(host: Host, start: Callable[..., Plugin]) -> None:
    peer = start().greet()
    host.process(41, f"{POD_CGROUP}/{ID}")
    assert peer.event("CreateContainer", POD, container()) == OK
    assert host.groups() == []
    assert peer.event("StartContainer", POD, container(41)) == OK
    assert host.groups() == [GROUP]
    assert (host.resctrl / GROUP / "tasks").read_text().split() == ["41"]
    host.end_process(41)
    assert peer.event("StopContainer", POD, container(41)) == OK
    wait_until(lambda: not list(host.state.glob("pods/*/c-*")), "the container's record ends with it")
    assert host.groups() == [GROUP], "the group is the pod's"
    assert peer.event("RemoveContainer", POD, container()) == OK
    assert peer.event("RemovePodSandbox", POD) == OK
    wait_until(lambda: host.groups() == [], "the group ends although the pod's cgroup is still there")
    assert (host.cgroup / POD_CGROUP.lstrip("/")).is_dir()


def test_changed_settings_apply_to_next_event(host: Host, start: Callable[..., Plugin]) -> None:
    peer = start().greet()
    host.process(41, f"{POD_CGROUP}/{ID}")
    configure(host, namespaces=["other"])
    peer.event("StartContainer", POD, container(41))
    assert host.groups() == []


def test_plugin_memory_stays_small(host: Host, start: Callable[..., Plugin]) -> None:
    sections = {"enabled": True}
    plugin = start(rdt=sections, blockio=sections, scheduling=sections, classes=[{"name": "batch", "allowswap": True}])
    plugin.greet()
    status = Path(f"/proc/{plugin.process.pid}/status").read_text()
    resident = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))
    assert resident < 30 * 1024
