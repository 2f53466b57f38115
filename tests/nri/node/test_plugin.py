"""The plugin in this process: its settings, the events that need work, its answers, and its words."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import GROUP, ID, POD_CGROUP, UID, Host
from hosts.hostile_inputs import VARIABLES

from nri.node.conftest import (
    FAIL,
    NOTHING,
    POD,
    RDT,
    answer_of,
    asking,
    container,
    log,
    message,
    plugin_of,
    served,
    synchronized,
)
from resctrl_hooks.core.node import call_metrics
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.refusals import recent_refusals
from resctrl_hooks.nri.node import events
from resctrl_hooks.nri.node import plugin as module
from resctrl_hooks.nri.node.event import EVENTS, Event, container_of, mask_of
from resctrl_hooks.nri.node.protobuf import decode, encode
from resctrl_hooks.nri.node.worker import NOT_YET
from resctrl_hooks.nri.node.workload import READ

pytestmark = pytest.mark.usefixtures("alarm")
POD_EVENT = encode("PodEvent", {"pod": POD})


def changed(number: int, pid: int = 0) -> bytes:
    return encode("StateChangeEvent", {"event": number, "pod": POD, "container": container(pid)})


# Settings


def test_settings_are_read_again_after_a_change_only(host: Host) -> None:
    plugin = plugin_of(host)
    first = plugin.refresh()
    assert plugin.refresh() is first
    generation = plugin.generation()
    host.configure(**FAIL)
    assert plugin.refresh().failure_policy == "fail"
    assert plugin.generation() == generation + 1
    host.config.write_text("{")
    assert plugin.refresh().failure_policy == "fail"
    assert "the previous configuration stays active" in log(host)
    assert plugin.generation() == generation + 1


@pytest.mark.parametrize(
    "config, subscribes",
    [
        ({}, False),
        (FAIL, True),
        ({"nri": {"adjust": ["rdt"]}}, True),
        ({"classes": [{"name": "batch", "env": {"A": "b"}}]}, True),
        ({"classes": [{"name": "batch"}], "memory": {"failurePolicy": "ignore"}}, False),
        ({"monitoring": {"failurePolicy": "fail"}}, True),
    ],
)
def test_creations_are_subscribed_only_if_they_may_be_refused_or_adjusted(
    host: Host, config: dict[str, Any], subscribes: bool
) -> None:
    plugin = plugin_of(host, **config)
    other = mask_of(name for name in events.HANDLERS if name != "CreateContainer")
    bit = 1 << EVENTS.index("CreateContainer") - 1
    assert plugin.subscription() == other + bit * subscribes
    assert plugin.serves("CreateContainer", message()) is subscribes
    assert mask_of(["RunPodSandbox", "RemoveContainer"]) == 0b100_0000_0001


def test_configuration_of_the_runtime_replaces_the_file_until_the_next_connection(host: Host) -> None:
    plugin = plugin_of(host)
    plugin.configure({"config": ' {"failurePolicy": "fail"}\n'})
    assert plugin.refresh().failure_policy == "fail"
    assert plugin.subscription() & 1 << EVENTS.index("CreateContainer") - 1
    host.configure(namespaces=["shop"])
    assert plugin.refresh().failure_policy == "fail", "the file does not count"
    plugin.configure({})
    assert plugin.refresh().failure_policy == "ignore"


@pytest.mark.parametrize(
    "text, why",
    [
        ("a: 1", "not JSON ("),
        ("a: 1", "YAML requires the command `resctrl-hook nri`; put it into the configuration file and run `resctrl-"),
        ("[]", "not a JSON object"),
        ('{"failurePolicy": 3}', "failurePolicy"),
    ],
)
def test_invalid_configuration_of_the_runtime_is_named(host: Host, text: str, why: str) -> None:
    plugin = plugin_of(host)
    plugin.configure({"config": text})
    assert "cannot use the runtime's configuration for this plugin: " in log(host)
    assert why in log(host)
    assert f"; {host.config} stays active" in log(host)
    assert plugin.refresh().failure_policy == "ignore"


@pytest.mark.parametrize(
    "told, timeout, limit",
    [(1000, 0, 0.85), (1000, 0.5, 0.425), (1000, 3, 0.85), (0, 0, 1.7), (0, 1, 0.85)],
)
def test_limit_is_a_part_of_the_runtimes_patience(host: Host, told: int, timeout: float, limit: float) -> None:
    plugin = plugin_of(host)
    plugin.configure({"request_timeout": told})
    assert plugin.limit(timeout) == pytest.approx(limit)


# Which events need work


def test_late_start_is_served_once_after_a_start_without_a_process(host: Host) -> None:
    plugin = plugin_of(host)
    late = message(41)
    assert plugin.serves("StartContainer", message()) is True
    assert plugin.serves("PostStartContainer", late) is False
    plugin.served("StartContainer", message(), 0.1, NOT_YET)
    assert plugin.serves("PostStartContainer", message(41, id_="b" * 64)) is False
    assert plugin.serves("PostStartContainer", late) is True
    assert plugin.serves("PostStartContainer", late) is False
    plugin.served("StartContainer:StateChange", changed(6), 0.1, NOT_YET)
    assert plugin.serves("PostStartContainer:StateChange", changed(7, 41)) is True


def test_number_of_containers_without_a_process_is_bounded(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_WITHOUT_PID", 2)
    plugin = plugin_of(host)
    ids = [letter * 64 for letter in "abc"]
    for id_ in ids:
        plugin.served("StartContainer", message(id_=id_), 0.1, NOT_YET)
    assert [plugin.serves("PostStartContainer", message(id_=id_)) for id_ in ids] == [False, False, True]


@pytest.mark.houses("placement")
@pytest.mark.parametrize("event", ["StopContainer", "RemoveContainer", "RemovePodSandbox"])
def test_end_needs_work_only_if_something_is_recorded(host: Host, event: str) -> None:
    plugin = plugin_of(host)
    payload = POD_EVENT if event == "RemovePodSandbox" else message()
    assert plugin.serves(event, payload) is False
    host.process(41, f"{POD_CGROUP}/{ID}")
    assert served(plugin, "StartContainer", message(41)) == NOTHING
    assert plugin.serves(event, payload) is True
    assert plugin.serves(event, b"\xff") is True, "the error is reported where it is served"


def test_event_names_its_container() -> None:
    one = Event("StartContainer:StateChange", changed(6), "cri-o", "0.11")
    assert (one.stage, one.id, str(one), one.runtime, one.version) == (
        *("StartContainer", ID, "shop/web-0/c0", "cri-o", "0.11"),
    )
    one.key = "key"
    assert one.known() == {"id": ID, "key": "key", "namespace": "shop", "pod": "web-0", "container": "c0"}
    bare = Event("StopContainer", encode("ContainerEvent", {"container": {"id": ID}}), "", "")
    assert (str(bare), bare.known()) == (ID[:12], {"id": ID})
    assert str(Event("RemovePodSandbox", b"", "", "")) == "an unknown pod"
    assert container_of("StartContainer", message()) == ID
    assert container_of("StartContainer", b"\xff") == ""
    with pytest.raises(HookError, match="cannot parse the runtime's StartContainer: "):
        Event("StartContainer", b"\xff", "", "")


# Serving


def test_end_of_a_pod_is_logged_and_wakes_pods_that_wait(host: Host) -> None:
    plugin = plugin_of(host)
    host.process(41, f"{POD_CGROUP}/{ID}")
    assert served(plugin, "StartContainer", message(41)) == NOTHING
    assert "StartContainer of shop/web-0/c0: " in log(host)
    assert served(plugin, "RemovePodSandbox", POD_EVENT) == NOTHING
    assert f"{UID} stays: container {ID[:12]} is running" in log(host)
    host.end_process(41)
    Ledger(str(host.state)).mark("waiting", "another")
    assert served(plugin, "RemovePodSandbox", POD_EVENT) == NOTHING
    assert f"released {UID} with 1 groups" in log(host)
    assert (host.state / "wake").exists(), "another pod may wait for the RMID"


def test_pods_of_another_sandbox_is_marked_idle(host: Host) -> None:
    plugin = plugin_of(host)
    host.process(41, f"{POD_CGROUP}/{ID}")
    served(plugin, "StartContainer", message(41))
    host.end_process(41)
    (host.cgroup / POD_CGROUP.lstrip("/") / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    assert served(plugin, "RemovePodSandbox", POD_EVENT) == NOTHING
    assert (host.groups(), Ledger(str(host.state)).marked("idle")) == ([GROUP], [UID])


def test_start_without_a_process_waits_for_the_late_one(host: Host) -> None:
    plugin = plugin_of(host)
    host.context().ledger.prepare()
    assert served(plugin, "StartContainer", message()) == (NOT_YET, b"", b"")
    assert "StartContainer of shop/web-0/c0 has no pid; waiting for PostStartContainer" in log(host)
    host.process(41, f"{POD_CGROUP}/{ID}")
    assert served(plugin, "PostStartContainer", message(41)) == NOTHING
    assert (host.groups(), (host.state / "wake").exists()) == ([GROUP], True)
    assert "served late, because StartContainer has no pid: " in log(host)
    counted = [line.split()[1:4] for line in (host.state / "calls").read_text().splitlines()]
    assert [words[0] for words in counted] == ["StartContainer", "PostStartContainer"]
    assert counted[1][2] == "late"
    assert served(plugin, "PostStartContainer", message()) == NOTHING
    assert "the runtime sends no pid in StartContainer and PostStartContainer; container not affected" in log(host)


FORGED = {
    "io.container.manager": "libpod",
    "io.kubernetes.cri.sandbox-uid": "00000000-0000-0000-0000-000000000000",
    "io.kubernetes.cri.sandbox-namespace": "elsewhere",
    "io.kubernetes.cri.container-type": "sandbox",
}


@pytest.mark.parametrize(
    "config, more, monitored",
    [
        ({"labelSelector": {"app": "web"}}, {}, True),
        ({"labelSelector": {"app": "web"}}, {"labels": {"app": "db"}}, False),
        ({"namespaces": ["shop"]}, {"annotations": FORGED}, True),
    ],
    ids=["labels", "other labels", "annotations by the pod's author"],
)
def test_pods_are_selected_by_the_fields_of_the_message(
    host: Host, config: dict[str, Any], more: dict[str, Any], monitored: bool
) -> None:
    plugin = plugin_of(host, **config)
    host.process(41, f"{POD_CGROUP}/{ID}")
    assert served(plugin, "StartContainer", message(41, {**POD, **more}, annotations=FORGED)) == NOTHING
    assert host.groups() == [GROUP] * monitored


def test_malformed_resources_do_not_affect_features_that_do_not_read_them(host: Host) -> None:
    plugin = plugin_of(host, blockio={"enabled": True, "allow": {"*": ["*"]}})
    host.process(41, f"{POD_CGROUP}/{ID}")
    pod = {"uid": UID, "name": "web-0", "namespace": "shop", "annotations": {"class.blockio.resctrl-hooks.io": "slow"}}
    event = {"pod": pod, "container": {"id": ID, "name": "c0", "pid": 41, "linux": {"resources": b"\xff"}}}
    assert served(plugin, "StartContainer", encode("ContainerEvent", event)) == NOTHING
    assert host.tasks(GROUP) == [41]
    assert "cannot parse the container's resources: a varint is truncated" in log(host)


@pytest.mark.parametrize("event", ["StopContainer", "RemoveContainer", "RemovePodSandbox"])
def test_end_of_a_pod_without_a_record_does_nothing(host: Host, event: str) -> None:
    plugin = plugin_of(host, **FAIL)
    for bad in ({}, {**POD, "uid": "../.."}, {**POD, "uid": ""}, POD):
        assert served(plugin, event, message(0, bad, id_="x/../y")) == NOTHING
    assert "not affected" not in log(host)


@pytest.mark.parametrize("event", ["StopContainer", "RemoveContainer", "RemovePodSandbox"])
def test_end_that_fails_is_answered_and_counted(host: Host, event: str) -> None:
    plugin = plugin_of(host, **FAIL)
    host.process(41, f"{POD_CGROUP}/{ID}")
    served(plugin, "StartContainer", message(41))
    host.end_process(41)
    record = host.state / "pods" / UID / "pod"
    record.unlink()
    record.mkdir()
    assert served(plugin, event, message()) == NOTHING
    assert f"cannot use {record}: Is a directory" in log(host)
    assert "not affected" in log(host)
    assert call_metrics.read(Ledger(str(host.state))).stages[event].failures == {"ledger": 1}


def test_class_of_an_earlier_plugin_is_left_and_counted(host: Host) -> None:
    host.add_class("gold")
    plugin = plugin_of(host, rdt=RDT, **FAIL, nri={"adjust": ["rdt"]})
    host.context().ledger.prepare()
    theirs = message(pod=asking("gold"), linux={"resources": {"rdt_class": {"value": "silver"}}})
    assert served(plugin, "CreateContainer", theirs) == NOTHING
    assert "left unchanged: class is silver instead of gold" in log(host)
    assert (host.state / "calls").read_text().split()[3] == "conflict"


# Lists of containers


def test_listed_containers_are_adopted_from_all_parts(host: Host) -> None:
    plugin = plugin_of(host)
    ids = [letter * 64 for letter in "abcd"]
    for number, id_ in enumerate(ids[:3]):
        host.process(41 + number, f"{POD_CGROUP}/{id_}")
    ended = container(77, ids[3])
    bad = container(43, "../x")
    parts = [
        {"pods": [POD], "containers": [container(41, ids[0]), ended, container(0, ids[1])]},
        {"containers": [bad, container(42, ids[1])]},
    ]
    encoded = [encode("SynchronizeRequest", part) for part in parts]
    assert answer_of(lambda reply: plugin.synchronize(encoded, reply)) == NOTHING
    assert host.tasks(GROUP) == [41, 42]
    assert "Synchronize: container ../x: the runtime sent no valid container id: '../x'" in log(host)
    assert "Synchronize: 5 containers, 2 that started earlier were adopted" in log(host)
    assert (host.state / "calls").read_text().split()[1] == "Synchronize"


def test_containers_with_as_many_variables_as_a_message_has_room_for_leave_others_their_labels(host: Host) -> None:
    plugin = plugin_of(host)
    ids = [letter * 64 for letter in "abcd"]
    for number, id_ in enumerate(ids):
        host.process(41 + number, f"{POD_CGROUP}/{id_}")
    many = encode("Container", {**container(41, ids[0]), "env": [b"A="] * 250_000})
    field = b"\x12" + bytes((len(many) & 127 | 128, len(many) >> 7 & 127 | 128, len(many) >> 14)) + many
    others = encode("SynchronizeRequest", {"pods": [POD], "containers": [container(44, ids[3])]})
    payload = field * 3 + others
    assert 3 << 20 > len(payload) > 2 << 20
    assert answer_of(lambda reply: plugin.synchronize([payload], reply)) == NOTHING
    record = host.context().ledger.read_member(UID, ids[3])
    assert record is not None
    assert record["told"]["labels"] == {"app": "web"}


def test_unreadable_list_is_left_to_reconcile(host: Host) -> None:
    plugin = plugin_of(host)
    assert answer_of(lambda reply: plugin.synchronize([b"\xff"], reply)) == (2, b"", b"")
    assert "Synchronize: internal error in resctrl-hook: WireError: " in log(host)


def test_adopting_replies_and_reports_its_failure(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = plugin_of(host)
    asked: list[str] = []
    monkeypatch.setattr(module, "become_urgent", lambda: asked.append("urgent"))
    monkeypatch.setattr(events, "adopt", lambda _: b"adopt")
    assert answer_of(plugin.adopt) == (0, b"", b"adopt")
    monkeypatch.setattr(events, "adopt", lambda _: 1 / 0)
    assert answer_of(plugin.adopt) == (2, b"", b"")
    assert asked == ["urgent"] * 2
    assert "adopting: internal error in resctrl-hook: ZeroDivisionError" in log(host)


# The plugin's words


def test_connections_are_logged_and_in_the_status(host: Host) -> None:
    host.state.mkdir(parents=True)
    plugin = plugin_of(host)
    plugin.configure({"runtime_name": "cri-o", "runtime_version": "1.37", "request_timeout": 2000})
    plugin.connected()
    assert "connected to cri-o 1.37 as 90-resctrl-hooks" in log(host)
    status = json.loads((host.state / "nri.json").read_text())
    assert (status["connected"], status["connections"], status["drops"]) == (True, 1, 0)
    assert (status["runtime"], status["version"], status["starts"]) == ("cri-o", "1.37", 1)
    for _ in range(2):
        plugin.dropped("it is gone")
    assert log(host).count("not connected to a runtime: it is gone") == 1
    status = json.loads((host.state / "nri.json").read_text())
    assert (status["connected"], status["drops"], status["why"]) == (False, 1, "it is gone")
    assert status["dropped"] >= status["since"] >= status["started"]
    plugin.connected()
    plugin.dropped("it is gone")
    assert log(host).count("not connected to a runtime: it is gone") == 2
    assert json.loads((host.state / "nri.json").read_text())["drops"] == 2


@pytest.mark.parametrize("code, failed", [(0, 0), (NOT_YET, 0), (2, 1), (None, 1)])
def test_failed_events_are_counted(host: Host, code: int | None, failed: int) -> None:
    host.state.mkdir(parents=True)
    plugin = plugin_of(host)
    plugin.served("StopContainer:StateChange", changed(10), 0.3, code)
    plugin.subscription()
    found = json.loads((host.state / "nri.json").read_text())["events"]["StopContainer"]
    assert (found["count"], found["failed"], found["buckets"]) == (1, failed, [0, 0, 0, 0, 0, 1, 0, 0])
    assert ("StopContainer of shop/web-0/c0 was not served" in log(host)) is (code is None)


def test_failed_update_is_a_warning(host: Host) -> None:
    plugin = plugin_of(host)
    plugin.updated("")
    assert log(host) == ""
    plugin.updated("a reason")
    assert "cannot send cpusets to the runtime: a reason; they stay set in the cgroups" in log(host)


pytestmark = pytest.mark.usefixtures("alarm")


@pytest.fixture
def node(tmp_path: Path) -> Host:
    host = Host(tmp_path, resctrl=tmp_path / "sys/fs/resctrl")
    (host.proc / "filesystems").write_text("nodev\tproc\n")
    (host.proc / "cpuinfo").write_text("flags\t\t: fpu hypervisor\n")
    return host


@pytest.mark.parametrize("policy", ["ignore", "fail"])
def test_container_starts_quietly_without_resctrl(node: Host, policy: str) -> None:
    plugin = plugin_of(node, failurePolicy=policy)
    assert served(plugin, "CreateContainer", message()) == NOTHING
    node.process(41, f"{POD_CGROUP}/{ID}")
    assert served(plugin, "StartContainer", message(41)) == NOTHING
    assert "resctrl" not in "".join(line for line in log(node).splitlines() if not line.startswith("<31>"))


def test_line_is_logged_once_when_runtimes_connect(node: Host) -> None:
    plugin = plugin_of(node)
    node.process(41, f"{POD_CGROUP}/{ID}")
    for _ in range(2):
        synchronized(plugin, container(41))
    lines = [line for line in log(node).splitlines() if "this node has no resctrl" in line]
    assert [line[:4] for line in lines if not line.startswith("<31>")] == ["<29>"]


@pytest.mark.parametrize("policy, refused", [("ignore", False), ("fail", True)])
def test_requested_class_fails_by_its_policy_at_creation(node: Host, policy: str, refused: bool) -> None:
    plugin = plugin_of(node, rdt={"enabled": True, "allow": {"*": ["*"]}, "failurePolicy": policy})
    pod = {**POD, "annotations": {"class.rdt.resctrl-hooks.io": "gold"}}
    code, answer, _ = served(plugin, "CreateContainer", message(pod=pod))
    assert (b"this node has no resctrl" in answer) is refused
    assert (code != 0) is refused


@pytest.mark.parametrize("policy, code", [("ignore", 0), ("fail", 2)])
def test_impossible_class_refuses_a_creation_under_fail(host: Host, policy: str, code: int) -> None:
    plugin = plugin_of(host, rdt={**RDT, "failurePolicy": policy}, nri={"adjust": ["rdt"]})
    found, why, others = served(plugin, "CreateContainer", message(pod=asking("silver")))
    assert (found, others) == (code, b"")
    assert (b"namespace shop is not allowed to use RDT class 'silver'" in why) is (policy == "fail")
    refused = [
        [one[name] for name in ("namespace", "pod", "container", "id")] for one in recent_refusals(str(host.state))
    ]
    assert refused == [["shop", "web-0", "c0", ID]] * (policy == "fail")
    host.add_class("gold")
    found, answer, _ = served(plugin, "CreateContainer", message(pod=asking("gold")))
    adjusted = decode("CreateContainerResponse", answer)["adjust"]
    assert adjusted == {"linux": {"resources": {"rdt_class": {"value": "gold"}}}}
    assert "CreateContainer of shop/web-0/c0: adjusted resources" in log(host)


def test_variables_that_features_read_are_those_of_the_list() -> None:
    assert (READ.decode(),) == VARIABLES
