"""Decisions of reconcile and `list` on containers that the plugin recorded: labels and annotations are in no bundle."""

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import CONTAINERDS, ID, POD_CGROUP, UID, Host, containerd_annotations, state
from hosts import crun

from nri.node.conftest import LIMITS, MEMORY, NOTHING, POD, container, log, message, plugin_of, served, synchronized
from nri.node.sessions import CRIO, session
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.node.reconcile.discovery import observe
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.nri.node.protobuf import decode, encode

DEFAULTS = {"defaults": {"namespaces": {"shop": "bronze"}}}
CLASSES = [{"name": "batch", "allowswap": True}, {"name": "bronze", "allowswap": False}]
ASKS = {**MEMORY, "annotations": {**MEMORY["annotations"], "class.rdt.resctrl-hooks.io": "gold"}}
NOTES = containerd_annotations(UID, "shop")
HIGH = 200 << 20
FILES = {"memory.high": "max", "memory.swap.max": "max", "memory.current": "0", "cgroup.controllers": "memory cpu io"}


def cgroup_with(host: Host, path: str, **values: str) -> Path:
    """Make the files of a container's cgroup, as the runtime left them."""
    folder = host.cgroup / path.lstrip("/")
    for name, value in (FILES | values).items():
        (folder / name).write_text(f"{value}\n")
    return folder


def command(host: Host, *words: str) -> str:
    result = CliRunner().invoke(main, ["--config", str(host.config), *words])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def recorded(host: Host, key: str = UID, id_: str = ID) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((host.state / "pods" / key / f"c-{id_}").read_text())
    return found


def started(host: Host, pod: dict[str, Any], **config: Any) -> Any:
    """Start a container; return its record, as reconcile observes it."""
    host.process(41, f"{POD_CGROUP}/{ID}", rdt="/")
    assert served(plugin_of(host, **config), "StartContainer", message(41, pod)) == NOTHING
    (one,) = observe(host.context()).containers
    return one.record


def features(record: dict[str, Any]) -> list[str]:
    return [step["feature"] for step in record["steps"]]


class Seen:
    """A container of containerd whose labels and annotations only the plugin sees."""

    def __init__(self, host: Host) -> None:
        self.host = host
        memory = {"memory": {**LIMITS["memory"], **DEFAULTS}, "classes": CLASSES}
        self.plugin = plugin_of(host, rdt={"enabled": True, "allow": {"*": ["gold"]}, **DEFAULTS}, **memory)
        host.add_class("gold")
        host.add_class("bronze")
        host.process(41, f"{POD_CGROUP}/{ID}", rdt="/")
        self.cgroup = cgroup_with(host, f"{POD_CGROUP}/{ID}", **{"cgroup.procs": "41"})
        self.bundle = host.root / CONTAINERDS / "k8s.io" / ID
        self.bundle.mkdir(parents=True)
        (self.bundle / "config.json").write_text(json.dumps({"annotations": NOTES, "linux": {}}))
        crun.record(host.crun, ID, 41, self.bundle, 1000)

    def by(self, what: str) -> None:
        if what == "hook":  # NRI's hook-injector has containerd call it
            assert self.host.call(state(pid=41, bundle=str(self.bundle), annotations=NOTES)).code == 0
        elif what == "reconcile":
            reconcile(self.host.context(), Options())
        elif what == "Synchronize":
            assert synchronized(self.plugin, container(41), pod=ASKS) == NOTHING
        else:
            assert served(self.plugin, what, message(41, ASKS)) == NOTHING
        for name in ("gold", "bronze"):
            if 41 in self.host.tasks(name):  # the kernel shows the class of the last move
                (self.host.proc / "41/cpu_resctrl_groups").write_text(f"res:{name}\nmon:{UID}\n")
                return


@pytest.mark.parametrize("event", ["StartContainer", "PostStartContainer", "Synchronize"])
@pytest.mark.parametrize("order", [*permutations(["hook", "reconcile", ""])], ids="-".join)
def test_container_has_what_its_annotations_ask_for_whoever_saw_it_first(
    host: Host, event: str, order: tuple[str, ...]
) -> None:
    seen = Seen(host)
    for number, what in enumerate([one or event for one in order]):
        before = recorded(host) if number else {}
        seen.by(what)
        if event in order[:number]:
            assert recorded(host) == before, "what the plugin has done stays"
    seen.by("reconcile")
    record = recorded(host)
    assert (record["told"]["labels"], record.get("unplanned")) == ({"app": "web"}, None)
    assert features(record) == ["rdt", "monitoring", "memory"]
    assert [step["needs"]["class"] for step in record["steps"][::2]] == ["gold", "batch"]
    assert 41 in host.tasks("gold")
    files = {name: (seen.cgroup / name).read_text().strip() for name in ("memory.swap.max", "memory.high")}
    assert files == {"memory.swap.max": "max", "memory.high": str(64 << 20)}
    assert not reconcile(host.context(), Options()).applied


@pytest.mark.parametrize("value", ["\x01" * 1000, '"' * 1000, "\U0001f600" * 250], ids=["control", "quotes", "long"])
def test_most_texts_that_a_pod_can_have_leave_its_record_readable(host: Host, value: str) -> None:
    labels = {"app": "web", **{f"{number:04}" + "x" * 300: "y" * 63 for number in range(500)}}
    notes = {f"{number:03}.nri.io": value for number in range(255)}
    record = started(host, {**POD, "annotations": notes, "labels": labels})
    assert (features(record), record["told"]["labels"]["app"]) == (["monitoring"], "web")
    assert "not affected" not in log(host)


HOSTILE = ["x" * 70_000, "a\0b", "\x1b[2J", "[" * 5000]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_of_a_pod_cost_it_neither_default_nor_group(host: Host, value: str) -> None:
    host.add_class("bronze")
    pod = {**POD, "annotations": {"class.rdt.resctrl-hooks.io": value}, "labels": {"app": value, value: "app"}}
    record = started(host, pod, rdt={"enabled": True, "classes": {"bronze": {}}, **DEFAULTS})
    assert log(host).count("annotation class.rdt.resctrl-hooks.io is ignored") == 1
    assert (features(record), record["steps"][0]["needs"]) == (["rdt", "monitoring"], {"class": "bronze"})


# Containers with values of an earlier NRI plugin: no refusal, no overwriting, and what `show` prints


def captured(method: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return pod and container of a request in a session with CRI-O in which another plugin adjusted the container."""
    of = (one for one in session(CRIO) if one.from_runtime and one.said.get("type") == f"{method}Request")
    message = decode("ContainerEvent", decode("Request", next(of).data[10:])["payload"])
    return message["pod"], message["container"]


@pytest.mark.houses("placement")
def test_captured_adjustments_of_earlier_plugin_stay(host: Host) -> None:
    answers = (one.said for one in session(CRIO) if one.said.get("type") == "CreateContainerResponse")
    (theirs,) = (one["message"]["adjust"]["linux"]["resources"] for one in answers if one["message"])
    assert theirs == {"cpu": {"cpus": "1"}, "unified": {"memory.high": str(HIGH)}}
    pod, one = captured("CreateContainer")
    pod["annotations"] = {**pod.get("annotations", {}), **MEMORY["annotations"]}
    one["linux"]["resources"] += encode("LinuxResources", theirs)  # a message in pieces is one message
    config = {
        **LIMITS,
        "failurePolicy": "fail",
        "placement": {"enabled": True},
        "nri": {"adjust": ["memory", "placement"]},
    }
    plugin = plugin_of(host, **config)
    plugin.configure({"runtime_name": "cri-o", "NRI_version": "0.12.0"})
    code, payload, _ = served(plugin, "CreateContainer", encode("ContainerEvent", {"pod": pod, "container": one}))
    assert not code, payload
    ours = decode("CreateContainerResponse", payload)["adjust"]
    assert ours == {"linux": {"resources": {"unified": {"memory.swap.max": "max"}}}}

    _, run = captured("StartContainer")
    assert decode("LinuxResources", run["linux"]["resources"])["unified"] == {"memory.high": str(HIGH)}
    path = f"{pod['linux']['cgroup_parent']}/crio-{run['id']}"
    host.process(run["pid"], path)
    folder = cgroup_with(host, path, **{"memory.high": str(HIGH)})
    assert served(plugin, "StartContainer", encode("ContainerEvent", {"pod": pod, "container": run})) == NOTHING
    assert folder.joinpath("memory.high").read_text() == f"{HIGH}\n"
    why = f"memory.high is {HIGH} instead of {64 << 20}"
    assert recorded(host, pod["uid"], run["id"])["kept"]["memory"] == [why]
    assert f"kept: placement cpuset is cpus 1, memory {why}" in command(host, "show", pod["name"])
    assert f"left unchanged: placement: cpuset is cpus 1; memory: {why}" in log(host)
