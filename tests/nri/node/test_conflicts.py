"""Containers with values of an earlier NRI plugin: no refusal, no overwriting, and what `show` prints."""

import json
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import ID, POD_CGROUP, UID, Host

from nri.node.conftest import (
    FAIL,
    LIMITS,
    MEMORY,
    NOTHING,
    RDT,
    asking,
    container,
    log,
    message,
    plugin_of,
    served,
    synchronized,
)
from nri.node.sessions import CRIO, session
from resctrl_hooks.core.cli import main
from resctrl_hooks.nri.node.protobuf import decode, encode

pytestmark = pytest.mark.usefixtures("alarm")
HIGH = 200 << 20
FILES = {"memory.high": "max", "memory.swap.max": "max", "memory.current": "0", "cgroup.controllers": "memory cpu io"}


def cgroup_with(host: Host, path: str, **values: str) -> Any:
    """Make the files of a container's cgroup, as the runtime left them."""
    folder = host.cgroup / path.lstrip("/")
    for name, value in (FILES | values).items():
        (folder / name).write_text(f"{value}\n")
    return folder


def shown(host: Host, pod: str) -> str:
    result = CliRunner().invoke(main, ["--config", str(host.config), "show", pod])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def recorded(host: Host, key: str = UID, id_: str = ID) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((host.state / "pods" / key / f"c-{id_}").read_text())
    return found


def captured(method: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return pod and container of a request in a session with CRI-O in which another plugin adjusted the container."""
    of = (one for one in session(CRIO) if one.from_runtime and one.said.get("type") == f"{method}Request")
    message = decode("ContainerEvent", decode("Request", next(of).data[10:])["payload"])
    return message["pod"], message["container"]


@pytest.mark.houses("placement")
def test_captured_adjustments_of_earlier_plugin_stay(host: Host) -> None:
    (adjusted,) = (
        one.said["message"]["adjust"]
        for one in session(CRIO)
        if one.said.get("type") == "CreateContainerResponse" and one.said["message"]
    )
    theirs = adjusted["linux"]["resources"]
    assert theirs == {"cpu": {"cpus": "1"}, "unified": {"memory.high": str(HIGH)}}
    pod, one = captured("CreateContainer")
    pod["annotations"] = {**pod.get("annotations", {}), **MEMORY["annotations"]}
    one["linux"]["resources"] += encode("LinuxResources", theirs)  # a message in pieces is one message
    plugin = plugin_of(host, **LIMITS, **FAIL, placement={"enabled": True}, nri={"adjust": ["memory", "placement"]})
    plugin.configure({"runtime_name": "cri-o", "NRI_version": "0.12.0"})
    code, payload, _ = served(plugin, "CreateContainer", encode("ContainerEvent", {"pod": pod, "container": one}))
    assert not code, payload
    ours = decode("CreateContainerResponse", payload)["adjust"]
    assert ours == {"linux": {"resources": {"unified": {"memory.swap.max": "max"}}}}

    _, started = captured("StartContainer")
    assert decode("LinuxResources", started["linux"]["resources"])["unified"] == {"memory.high": str(HIGH)}
    path = f"{pod['linux']['cgroup_parent']}/crio-{started['id']}"
    host.process(started["pid"], path)
    folder = cgroup_with(host, path, **{"memory.high": str(HIGH)})
    event = encode("ContainerEvent", {"pod": pod, "container": started})
    assert served(plugin, "StartContainer", event) == NOTHING
    assert folder.joinpath("memory.high").read_text() == f"{HIGH}\n"
    why = f"memory.high is {HIGH} instead of {64 << 20}"
    assert recorded(host, pod["uid"], started["id"])["kept"]["memory"] == [why]
    assert f"kept: placement cpuset is cpus 1, memory {why}" in shown(host, pod["name"])
    assert f"left unchanged: placement: cpuset is cpus 1; memory: {why}" in log(host)


def test_value_that_start_container_does_not_tell_stays(host: Host) -> None:
    plugin = plugin_of(host, **LIMITS)
    host.process(41, f"{POD_CGROUP}/{ID}")
    folder = cgroup_with(host, f"{POD_CGROUP}/{ID}", **{"memory.high": str(HIGH), "memory.swap.max": "0"})
    assert served(plugin, "StartContainer", message(41, MEMORY)) == NOTHING
    assert folder.joinpath("memory.high").read_text() == f"{HIGH}\n"
    # The kubelet sets this one in every container.
    assert folder.joinpath("memory.swap.max").read_text() == "max"
    assert recorded(host)["steps"][-1]["needs"]["limits"] == {"memory.swap.max": "max"}
    report = host.enforce()
    assert not report.events["failed"]
    assert folder.joinpath("memory.high").read_text() == f"{HIGH}\n"


@pytest.mark.parametrize("event", ["StartContainer", "Synchronize"])
def test_class_of_earlier_plugin_stays_and_is_shown(host: Host, event: str) -> None:
    for name in ("gold", "silver"):
        host.add_class(name)
    plugin = plugin_of(host, rdt={**RDT, **FAIL})
    host.process(41, f"{POD_CGROUP}/{ID}", rdt="silver")
    if event == "Synchronize":
        assert synchronized(plugin, container(41), pod=asking("gold")) == NOTHING
    else:
        assert served(plugin, event, message(41, asking("gold"))) == NOTHING
    host.enforce()
    assert host.groups() == [f"silver/mon_groups/{UID}"]
    assert not (host.resctrl / "gold/tasks").read_text()
    assert "kept: rdt class is silver instead of gold" in shown(host, "web-0")
