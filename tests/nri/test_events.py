"""The real command on a made-up host, with a runtime that tells of pods: what comes of it in resctrl and the ledger."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import GROUP, ID, LAUNCH, POD_CGROUP, PYTHON, UID, Host
from hosts.processes import wait_until

from nri.fake_runtime import FakeRuntime, Peer
from resctrl_hooks.node import call_metrics, lifecycle
from resctrl_hooks.node.ledger import Ledger
from resctrl_hooks.node.refusals import recent_refusals
from resctrl_hooks.nri import events
from resctrl_hooks.nri.protobuf import encode

POD = {
    "id": "s" * 64,
    "name": "web-0",
    "uid": UID,
    "namespace": "shop",
    "labels": {"app": "web"},
    "linux": {"cgroup_parent": POD_CGROUP},
}
CLASS = "class.memtierd.nri.io"
START, POST_START, REMOVE, REMOVE_POD = 6, 7, 11, 3


def container(pid: int = 0, id_: str = ID, name: str = "c0", **more: Any) -> dict[str, Any]:
    return {"id": id_, "pod_sandbox_id": POD["id"], "name": name, **({"pid": pid} if pid else {}), **more}


class Plugin:
    """The command's process on a host, and the runtime that it connects to."""

    def __init__(self, host: Host, *arguments: str, python: str = PYTHON[0]) -> None:
        self.host = host
        self.runtime = FakeRuntime(str(host.root / "nri.sock"))
        words = [python, *PYTHON[1:], str(LAUNCH), "--config", str(host.config), "nri"]
        words += ["--socket", self.runtime.path, *arguments]
        self.process = subprocess.Popen(words, env={}, stderr=subprocess.PIPE)
        self.peer: Peer = self.runtime.accept()

    def greet(self, **fields: Any) -> Peer:
        self.peer.greet(**fields)
        self.wait_for_log("Synchronize: ")
        return self.peer

    def log(self) -> str:
        return self.host.log.read_text() if self.host.log.exists() else ""

    def wait_for_log(self, words: str) -> None:
        wait_until(lambda: words in self.log(), words)

    def end(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=300)
        self.runtime.close()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, runtimeRoots={"runc": str(tmp_path / "none")})


@pytest.fixture
def start(host: Host) -> Iterator[Callable[..., Plugin]]:
    started: list[Plugin] = []

    def make(*arguments: str, **config: Any) -> Plugin:
        host.configure(runtimeRoots={"runc": str(host.root / "none")}, **config)
        started.append(Plugin(host, *arguments))
        return started[-1]

    yield make
    for plugin in started:
        plugin.end()


OK = (0, "", b"")


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


def test_malformed_resources_do_not_affect_features_that_do_not_read_them(
    host: Host, start: Callable[..., Plugin]
) -> None:
    plugin = start(blockio={"enabled": True, "allow": {"*": ["*"]}})
    host.process(41, f"{POD_CGROUP}/{ID}")
    pod = {"uid": UID, "name": "web-0", "namespace": "shop", "annotations": {"class.blockio.resctrl-hooks.io": "slow"}}
    message = {"pod": pod, "container": {"id": ID, "name": "c0", "pid": 41, "linux": {"resources": b"\xff"}}}
    assert plugin.greet().ask("StartContainer", encode("ContainerEventStart", message)) == OK
    assert (host.resctrl / GROUP / "tasks").read_text().split() == ["41"]
    plugin.wait_for_log("cannot parse the container's resources: a varint is truncated")


def test_existing_containers_are_adopted(host: Host, start: Callable[..., Plugin]) -> None:
    plugin = start()
    plugin.peer.introduce()
    containers = [container(100 + number, f"{number:064x}", f"c{number}", state=3) for number in range(50)]
    for number, one in enumerate(containers):
        host.process(100 + number, f"{POD_CGROUP}/{one['id']}")
    begun = time.monotonic()
    plugin.peer.synchronize(*containers, pod=POD)
    answered = time.monotonic() - begun
    plugin.wait_for_log("Synchronize: 50 containers, 50 that started earlier")
    assert answered < time.monotonic() - begun, "the work comes after the answer"
    assert len((host.resctrl / GROUP / "tasks").read_text().split()) == 50


def test_pods_with_other_labels_are_skipped(host: Host, start: Callable[..., Plugin]) -> None:
    peer = start(labelSelector={"app": "web"}).greet()
    host.process(41, f"{POD_CGROUP}/{ID}")
    assert peer.event("StartContainer", {**POD, "labels": {"app": "db"}}, container(41)) == OK
    assert host.groups() == []
    assert peer.event("StartContainer", POD, container(41)) == OK
    assert host.groups() == [GROUP]


def test_pod_author_cannot_forge_fields(host: Host, start: Callable[..., Plugin]) -> None:
    peer = start(namespaces=["shop"]).greet()
    host.process(41, f"{POD_CGROUP}/{ID}")
    forged = {
        "io.container.manager": "libpod",
        "io.kubernetes.cri.sandbox-uid": "00000000-0000-0000-0000-000000000000",
        "io.kubernetes.cri.sandbox-namespace": "elsewhere",
        "io.kubernetes.cri.container-type": "sandbox",
    }
    assert peer.event("StartContainer", {**POD, "annotations": forged}, container(41, annotations=forged)) == OK
    assert host.groups() == [GROUP]


def test_work_of_hook_is_not_repeated(host: Host, start: Callable[..., Plugin], pod: dict[str, Any]) -> None:
    plugin = start()
    peer = plugin.greet()
    assert host.call(pod).code == 0
    before = {path: path.lstat().st_mtime_ns for path in host.state.rglob("*") if ID in path.name}
    assert before
    assert peer.event("StartContainer", POD, container(pod["pid"], pod["id"])) == OK
    assert {path: path.lstat().st_mtime_ns for path in host.state.rglob("*") if ID in path.name} == before
    assert "StartContainer of" not in plugin.log()


def test_start_without_a_pid_is_served_at_post_start_and_counted_as_late(
    host: Host, start: Callable[..., Plugin]
) -> None:
    plugin = start()
    peer = plugin.greet()
    host.process(41, f"{POD_CGROUP}/{ID}")
    assert peer.event("StartContainer", POD, container(0)) == OK
    assert host.groups() == []
    assert "has no pid; waiting for PostStartContainer" in plugin.log()
    assert peer.event("PostStartContainer", POD, container(41)) == OK
    assert host.groups() == [GROUP]
    plugin.wait_for_log("PostStartContainer of shop/web-0/c0: served late")
    assert "process 0" not in plugin.log()
    late = ["PostStartContainer", "late"]
    wait_until(lambda: any(line.split()[1:4:2] == late for line in calls(host)), "it is counted after its log line")
    assert (host.state / "wake").exists(), "reconcile moves what the process has started by then"


def test_index_is_above_those_of_nri_plugins(start: Callable[..., Plugin]) -> None:
    assert int(start().peer.take_registration()["plugin_idx"]) > 95


def calls(host: Host) -> list[str]:
    path = host.state / "calls"
    return path.read_text().splitlines() if path.exists() else []


RDT = {"enabled": True, "allow": {"*": ["gold"]}}


def asking(name: str) -> dict[str, Any]:
    return {**POD, "annotations": {"class.rdt.resctrl-hooks.io": name}}


def test_impossible_feature_is_refused_at_creation_under_fail(host: Host, start: Callable[..., Plugin]) -> None:
    host.add_class("gold")
    peer = start(rdt={**RDT, "failurePolicy": "fail"}).greet()
    code, words, _ = peer.event("CreateContainer", asking("silver"), container())
    assert code == 2
    assert "namespace shop is not allowed to use RDT class 'silver'" in words
    (refusal,) = recent_refusals(str(host.state))
    assert [refusal[name] for name in ("namespace", "pod", "container", "id")] == ["shop", "web-0", "c0", ID]
    assert "is not allowed to use RDT class 'silver'" in refusal["why"]
    assert peer.event("CreateContainer", asking("gold"), container()) == OK


def test_group_created_before_container_respects_rules(host: Host, start: Callable[..., Plugin]) -> None:
    (host.resctrl / "info/L3_MON").mkdir(parents=True)
    (host.resctrl / "info/L3_MON/num_rmids").write_text("4\n")
    rules = {"priority": [{"namespaces": ["gold"], "value": 100}], "reserve": {"rmids": 3, "above": 50}}
    peer = start(failurePolicy="fail", monitoring=rules).greet()
    code, words, _ = peer.event("CreateContainer", POD, container())
    assert code == 2
    assert "the free RMIDs are reserved for pods with priorities above 50" in words
    assert peer.event("CreateContainer", {**POD, "namespace": "gold"}, container()) == OK
    assert host.groups() == [GROUP]


def test_start_is_never_refused_and_applies_possible_features(host: Host, start: Callable[..., Plugin]) -> None:
    plugin = start(rdt={**RDT, "failurePolicy": "fail"})
    peer = plugin.greet()
    host.process(41, f"{POD_CGROUP}/{ID}", rdt="/")
    assert peer.event("StartContainer", asking("silver"), container(41)) == OK
    assert "is not allowed to use RDT class 'silver'" in plugin.log()
    assert host.groups() == [GROUP]


ENDS = pytest.mark.parametrize("event", ["StopContainer", "RemoveContainer", "RemovePodSandbox"])


@ENDS
def test_stop_and_remove_of_unknown_names_are_answered(start: Callable[..., Plugin], event: str) -> None:
    peer = start(failurePolicy="fail").greet()
    for bad in ({}, {**POD, "uid": "../.."}, {**POD, "uid": ""}):
        assert peer.event(event, bad, container(id_="x/../y")) == OK


@ENDS
def test_stop_and_remove_that_fail_are_answered_and_counted(
    host: Host, start: Callable[..., Plugin], event: str
) -> None:
    plugin = start(failurePolicy="fail")
    peer = plugin.greet()
    host.process(41, f"{POD_CGROUP}/{ID}")
    assert peer.event("StartContainer", POD, container(41)) == OK
    host.end_process(41)
    record = host.state / "pods" / UID / "pod"
    record.unlink()
    record.mkdir()
    assert peer.event(event, POD, container()) == OK
    plugin.wait_for_log(f"cannot use {record}: Is a directory")
    plugin.wait_for_log("not affected")
    ledger = Ledger(str(host.state))
    wait_until(lambda: event in call_metrics.read(ledger).stages, "the event is counted, after its answer")
    assert call_metrics.read(ledger).stages[event].failures == {"ledger": 1}


def test_unreadable_message_is_answered(host: Host, start: Callable[..., Plugin]) -> None:
    plugin = start()
    peer = plugin.greet()
    assert peer.ask("StartContainer", b"\xff\xff") == OK
    assert "cannot parse the runtime's StartContainer" in plugin.log()


def test_pod_with_another_sandbox_keeps_group(host: Host, start: Callable[..., Plugin]) -> None:
    plugin = start()
    peer = plugin.greet()
    host.process(41, f"{POD_CGROUP}/{ID}")
    peer.event("StartContainer", POD, container(41))
    host.end_process(41)
    peer.event("StopContainer", POD, container(41))
    events = host.cgroup / POD_CGROUP.lstrip("/") / "cgroup.events"
    events.write_text("populated 1\nfrozen 0\n")
    assert peer.event("RemovePodSandbox", {**POD, "id": "o" * 64}) == OK
    plugin.wait_for_log("stays: another sandbox")
    assert host.groups() == [GROUP]
    events.write_text("populated 0\nfrozen 0\n")
    assert peer.event("RemovePodSandbox", POD) == OK
    wait_until(lambda: host.groups() == [], "the group ends")


def test_changed_settings_apply_to_next_event(host: Host, start: Callable[..., Plugin]) -> None:
    peer = start().greet()
    host.process(41, f"{POD_CGROUP}/{ID}")
    host.configure(namespaces=["other"], runtimeRoots={"runc": str(host.root / "none")})
    peer.event("StartContainer", POD, container(41))
    assert host.groups() == []


def test_configuration_from_runtime_takes_precedence(host: Host, start: Callable[..., Plugin]) -> None:
    plugin = start()
    values = {**json.loads(host.config.read_text()), "namespaces": ["other"]}
    peer = plugin.greet(config=json.dumps(values))
    host.process(41, f"{POD_CGROUP}/{ID}")
    peer.event("StartContainer", POD, container(41))
    assert host.groups() == []


def test_unusable_configuration_is_reported_and_ignored(host: Host, start: Callable[..., Plugin]) -> None:
    plugin = start()
    peer = plugin.greet(config="resctrlPath: /somewhere\n")
    assert "not JSON" in plugin.log()
    assert "YAML requires the command `resctrl-hook nri`" in plugin.log()
    assert "run `resctrl-hook config apply`" in plugin.log()
    host.process(41, f"{POD_CGROUP}/{ID}")
    peer.event("StartContainer", POD, container(41))
    assert host.groups() == [GROUP]


def test_options_of_other_plugins_are_accepted(host: Host) -> None:
    runtime = FakeRuntime(str(host.root / "nri.sock"))
    words = [*PYTHON, str(LAUNCH), "nri", "--socket", runtime.path, "-name", "nri-resctrl-mon", "-idx", "10"]
    options = ["-config", str(host.config), "-v", "-vv", "-cgroups-dir", str(host.cgroup), "-run-dir=/run/x"]
    process = subprocess.Popen([*words, *options], env={})
    told = runtime.accept().take_registration()
    assert (told["plugin_name"], told["plugin_idx"]) == ("nri-resctrl-mon", "10")
    process.terminate()
    assert process.wait(60) == 0
    runtime.close()


@pytest.mark.parametrize("words", [["-idx", "9"], ["-idx", "ab"], ["--what"], ["-name"], ["-v=1"], ["name"]])
def test_wrong_use_is_reported(host: Host, words: list[str]) -> None:
    done = subprocess.run([*PYTHON, str(LAUNCH), "nri", *words], env={}, capture_output=True, check=False)
    assert (done.returncode, done.stderr[:6]) == (2, b"usage:")


def test_second_instance_is_refused(host: Host, start: Callable[..., Plugin]) -> None:
    plugin = start()
    words = [*PYTHON, str(LAUNCH), "--config", str(host.config), "nri", "--socket", plugin.runtime.path]
    done = subprocess.run(words, env={}, capture_output=True, check=False, text=True)
    assert done.returncode == 1
    assert f"another instance is running, process {plugin.process.pid}" in done.stderr


def test_plugin_writes_status(host: Host, start: Callable[..., Plugin]) -> None:
    plugin = start()
    peer = plugin.greet()
    host.process(41, f"{POD_CGROUP}/{ID}")
    peer.event("StartContainer", POD, container(41))
    plugin.runtime.close()
    plugin.wait_for_log("not connected to a runtime: the runtime closed the connection")
    told = json.loads((host.state / "nri.json").read_text())
    assert (told["pid"], told["connected"], told["drops"]) == (plugin.process.pid, False, 1)
    assert told["runtime"] == "containerd"
    assert told["events"]["StartContainer"]["count"] == 1


def test_plugin_memory_stays_small(host: Host, start: Callable[..., Plugin]) -> None:
    sections = {"enabled": True}
    plugin = start(rdt=sections, blockio=sections, scheduling=sections, classes=[{"name": "batch", "allowswap": True}])
    plugin.greet()
    status = Path(f"/proc/{plugin.process.pid}/status").read_text()
    resident = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))
    assert resident < 30 * 1024


def test_event_examines_a_part_of_many_idle_keys_and_another_part_next_time(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "_MOST_SEARCHED", 5)
    context = host.context()
    for number in range(20):
        with context.monitor.hold(f"k{number}") as locked:
            locked.save()
        context.ledger.mark("idle", f"k{number}")
    looked: list[str] = []
    monkeypatch.setattr(lifecycle, "looks_dead", lambda _, key: looked.append(key))
    for call in range(1, 51):
        assert events._tidy("StartContainer", context)
        assert len(looked) == 5 * call
    assert len(set(looked)) == 20
