"""NRI events while another process holds a needed lock, or after their time limit; served in this process."""

import errno
import json
import signal
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import pytest
from conftest import GROUP, ID, POD_CGROUP, UID, Host
from hosts.faults import Fail
from hosts.machines import machine, write_sysfs

from nri.test_events import CLASS, POD, container, host
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.errors import DeadlineError, LedgerError, NotArrivedError
from resctrl_hooks.node.features.placement.allocations import LOCK
from resctrl_hooks.node.hook import deadline
from resctrl_hooks.node.host.notify import Notify
from resctrl_hooks.node.refusals import recent_refusals
from resctrl_hooks.node.resctrl.filesystem import Resctrl
from resctrl_hooks.node.resctrl.locked_key import LockedKey
from resctrl_hooks.nri import creation, events
from resctrl_hooks.nri.plugin import NodePlugin
from resctrl_hooks.nri.protobuf import decode, encode
from resctrl_hooks.nri.service import pack
from resctrl_hooks.nri.status import Status

__all__ = ["host"]
TIMEOUT = 1000
"""Milliseconds, of which 700 are an event's deadline."""
OURS = "internal error in resctrl-hook: ZeroDivisionError: "
OTHER = {"uid": UID[:-1] + "2", "cgroup": POD_CGROUP[:-1] + "2"}


def plugin_of(host: Host, **config: Any) -> NodePlugin:
    """Return a plugin with such settings, in this process."""
    host.configure(runtimeRoots={"runc": str(host.root / "none")}, **config)
    status = Status(str(host.state), "")
    plugin = NodePlugin("resctrl-hooks", "90", str(host.config), notify=Notify(), status=status, stderr=False)
    plugin.configure({"request_timeout": TIMEOUT})
    return plugin


@pytest.fixture
def alarm() -> Iterator[None]:
    """Restore the handler of the alarm, which a deadline sets."""
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def serve(host: Host, alarm: None) -> Callable[..., tuple[int, bytes]]:
    """Has a plugin, created as in a child, serve a CreateContainer: status, and the answer or why it is refused."""

    def make(pod: dict[str, Any], id_: str = "a" * 64, **config: Any) -> tuple[int, bytes]:
        plugin = plugin_of(host, **config)
        replies: list[tuple[int, bytes]] = []
        event = encode("ContainerEvent", {"pod": pod, "container": container(id_=id_)})
        plugin.serve("CreateContainer", event, lambda code, answer: replies.append((code, answer)))
        ((code, answer),) = replies
        return code, answer[4:]  # no further notification

    return make


def crowded(host: Host) -> dict[str, Any]:
    """Return the settings of a node with one RMID for pods below 50, which a pod of low priority may have first."""
    (host.resctrl / "info/L3_MON").mkdir(parents=True)
    (host.resctrl / "info/L3_MON/num_rmids").write_text("5\n")
    (host.cgroup / OTHER["cgroup"].lstrip("/")).mkdir(parents=True)
    rules = [{"namespaces": ["batch"], "value": -10}]
    return {"failurePolicy": "fail", "monitoring": {"priority": rules, "reserve": {"rmids": 3, "above": 50}}}


def test_container_whose_pod_lock_is_late_is_refused(host: Host, serve: Callable[..., tuple[int, bytes]]) -> None:
    with host.context().ledger.lock(UID, 0):
        code, words = serve(POD, failurePolicy="fail")
    assert code == 2
    assert words.startswith(b"monitoring: ")
    assert b"was held for 0.56 s" in words, "patience is a part of what this runtime gives an event"


def test_held_handover_lock_leaves_time_to_refuse(host: Host, serve: Callable[..., tuple[int, bytes]]) -> None:
    config = crowded(host)
    low = {**POD, "uid": OTHER["uid"], "namespace": "batch", "linux": {"cgroup_parent": OTHER["cgroup"]}}
    assert serve(low, **config) == (0, b"")
    with host.context().ledger.lock_named("handover", 0):
        code, words = serve(POD, **config)
    assert code == 2
    assert b"the free RMIDs are reserved for pods with priorities above 50" in words


def test_refused_pod_waits_for_nothing(host: Host, serve: Callable[..., tuple[int, bytes]]) -> None:
    config = crowded(host)
    assert serve({**POD, "uid": OTHER["uid"], "linux": {"cgroup_parent": OTHER["cgroup"]}}, **config) == (0, b"")
    ledger = host.context().ledger
    assert serve(POD, **config)[0] == 2
    assert (ledger.marked("waiting"), ledger.keys()) == ([], [OTHER["uid"]])


def test_refused_pod_that_stays_in_the_queue_is_logged(
    host: Host, serve: Callable[..., tuple[int, bytes]], fail: Fail
) -> None:
    config = crowded(host)
    assert serve({**POD, "uid": OTHER["uid"], "linux": {"cgroup_parent": OTHER["cgroup"]}}, **config) == (0, b"")
    fail(LockedKey, "release", LedgerError("the state directory is read-only", errno=errno.EROFS))
    assert serve(POD, **config)[0] == 2
    assert f"cannot take {UID} out of the queue for an RMID: the state directory" in host.log.read_text()


def test_existing_pod_is_waited_for(host: Host, serve: Callable[..., tuple[int, bytes]]) -> None:
    """What was counted for it must not be lost, and it waits already."""
    config = crowded(host)
    assert serve({**POD, "uid": OTHER["uid"], "linux": {"cgroup_parent": OTHER["cgroup"]}}, **config) == (0, b"")
    ledger = host.context().ledger
    with host.context().monitor.hold(UID) as locked:
        locked.save()
    assert serve(POD, **config)[0] == 2
    assert ledger.marked("waiting") == [UID]


LATE = DeadlineError("deadline of the hook exceeded")
FAULT = ZeroDivisionError("of our own")
MONITORED = {"monitoring": {"failurePolicy": "fail"}}


@pytest.mark.parametrize("where", ["planned", "previewed", "adjustment", "reserve", "with_room"])
@pytest.mark.parametrize("policy", [{"failurePolicy": "fail"}, MONITORED], ids=["general", "monitoring's"])
@pytest.mark.parametrize("error", [LATE, FAULT], ids=["late", "fault"])
def test_any_failure_to_complete_refuses_under_fail(
    host: Host,
    serve: Callable[..., tuple[int, bytes]],
    fail: Fail,
    where: str,
    policy: dict[str, Any],
    error: Exception,
) -> None:
    fail(creation, where, error)
    code, words = serve(POD, **policy)
    if (where, policy, error) == ("adjustment", MONITORED, FAULT):  # not part of monitoring, and not of its time
        assert (code, words, host.groups()) == (0, b"", [GROUP])
        return
    assert (code, str(error) in words.decode()) == (2, True)
    assert "container rejected" in host.log.read_text()
    assert [refusal["pod"] for refusal in recent_refusals(str(host.state))] == ["web-0"]
    assert host.context().ledger.keys() == host.groups() == [], "nothing is left of it"


@pytest.mark.parametrize("where", ["planned", "previewed", "adjustment"])
@pytest.mark.parametrize("error", [LATE, FAULT], ids=["late", "fault"])
def test_any_failure_to_complete_continues_with_log_line_under_ignore(
    host: Host, serve: Callable[..., tuple[int, bytes]], fail: Fail, where: str, error: Exception
) -> None:
    fail(creation, where, error)
    pod, config = placed_with_mounts(host)
    assert serve(pod, **{**config, "memory": {"failurePolicy": "ignore"}}) == (0, b"")
    assert f"CreateContainer of shop/web-0/c0: {error}" in host.log.read_text().replace(OURS, "")
    assert "; container not " in host.log.read_text()


CLASSES = [{"name": "batch", "memtierdconfig": "policy: {}"}]


@pytest.mark.parametrize(
    "config, refused",
    [
        ({}, False),
        ({"failurePolicy": "fail"}, True),
        (MONITORED, True),
        ({"rdt": {"enabled": True, "failurePolicy": "fail"}}, False),  # few ask for a class of their own
        ({"classes": CLASSES}, False),  # nor for one that refuses by default
        ({**MONITORED, "namespaces": ["shop"]}, True),
        ({**MONITORED, "namespaces": ["batch"]}, False),
        ({"placement": {"enabled": True, "failurePolicy": "fail"}}, True),
        ({"placement": {"enabled": True, "failurePolicy": "fail", "namespaces": ["batch"]}}, False),
    ],
)
def test_event_with_dead_process_refuses_if_general_policy_is_fail(
    host: Host, config: dict[str, Any], *, refused: bool
) -> None:
    plugin = plugin_of(host, **config)
    event = encode("ContainerEvent", {"pod": POD, "container": container(id_="a" * 64)})
    plugin.served("CreateContainer", event, 1.0, None)
    outcome = "container rejected" if refused else "container not changed"
    said = f"CreateContainer of shop/web-0/c0 was not served: the worker died or exceeded its time; {outcome}"
    assert said in host.log.read_text()
    assert bool(plugin.refusal("CreateContainer", event)) == refused
    assert not plugin.refusal("StartContainer", event)


def test_unreadable_event_follows_general_policy(host: Host) -> None:
    assert plugin_of(host, failurePolicy="fail").refusal("CreateContainer", b"\xff")
    assert not plugin_of(host, **MONITORED).refusal("CreateContainer", b"\xff")


@pytest.mark.parametrize("namespaces, code", [(["shop"], 2), (["batch"], 0)])
def test_timeout_refuses_no_container_of_unserved_namespace(
    host: Host,
    serve: Callable[..., tuple[int, bytes]],
    fail: Fail,
    namespaces: list[str],
    code: int,
) -> None:
    fail(creation, "planned", LATE)
    assert serve(POD, namespaces=namespaces, **MONITORED)[0] == code


def test_timeout_after_all_checks_refuses_nothing(
    host: Host, serve: Callable[..., tuple[int, bytes]], fail: Fail
) -> None:
    fail(creation, "encode", LATE)
    pod, config = placed_with_mounts(host)
    assert serve(pod, **{**config, "placement": {**config["placement"], "failurePolicy": "fail"}}) == (0, b"")
    assert "container not affected" in host.log.read_text()


def test_missing_resctrl_admits_nothing_under_fail(host: Host, serve: Callable[..., tuple[int, bytes]]) -> None:
    code, words = serve(POD, failurePolicy="fail", resctrlPath=str(host.root / "nowhere"))
    assert (code, words.startswith(b"monitoring: resctrl is not mounted at")) == (2, True)
    assert host.context().ledger.keys() == []


def test_container_that_cannot_be_placed_leaves_no_group(host: Host, serve: Callable[..., tuple[int, bytes]]) -> None:
    _, config = placed_with_mounts(host)
    config = {**config, "failurePolicy": "fail", "monitoring": {}}
    config["placement"] = {**config["placement"], "policy": "pools", "allow": {"*": ["*"]}}
    code, words = serve({**POD, "annotations": {"pool.placement.resctrl-hooks.io": "nowhere"}}, **config)
    assert (code, words.startswith(b"placement: unknown pool 'nowhere'")) == (2, True)
    assert host.context().ledger.keys() == host.groups() == []


def placed_with_mounts(host: Host) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a pod whose containers get a cpuset and what their class brings, and the settings of its node."""
    config = {
        "sysPath": write_sysfs(machine(cores=4, threads=1), host.root / "sys"),
        "monitoring": {"enabled": False},
        "placement": {"enabled": True, "kubeletPath": str(host.root / "kubelet")},
        "nri": {"adjust": ["placement"], "allow": {"*": ["batch"]}},
        "classes": [{"name": "batch", "mounts": [{"source": "/usr", "destination": "/host-usr"}]}],
    }
    return {**POD, "annotations": {CLASS: "batch"}}, config


def test_unrecorded_cpuset_costs_no_mount(host: Host, serve: Callable[..., tuple[int, bytes]]) -> None:
    pod, config = placed_with_mounts(host)
    with host.context().ledger.lock_named(LOCK, 0):
        code, answer = serve(pod, **config)
    assert not code
    adjusted = decode("CreateContainerResponse", answer)["adjust"]
    assert [mount["destination"] for mount in adjusted["mounts"]] == ["/host-usr"]
    assert "linux" not in adjusted, "our cpuset would count as a foreign choice"
    assert "gets its cpuset only at its start" in host.log.read_text()


@pytest.mark.parametrize(
    "error", [DeadlineError("deadline of the hook exceeded"), OSError(28, "No space left on device")]
)
def test_other_cpuset_failure_costs_no_mount(
    host: Host, serve: Callable[..., tuple[int, bytes]], fail: Fail, error: Exception
) -> None:
    pod, config = placed_with_mounts(host)
    fail(creation, "note", error)
    code, answer = serve(pod, **config)
    assert not code
    assert decode("CreateContainerResponse", answer)["adjust"].keys() == {"mounts"}


def test_removal_of_unserved_pod_names_it(host: Host) -> None:
    plugin = plugin_of(host)
    plugin.served("RemovePodSandbox", encode("PodEvent", {"pod": POD}), 1.0, None)
    plugin.served("RemovePodSandbox:StateChange", encode("StateChangeEvent", {"pod": POD}), 1.0, None)
    said = "RemovePodSandbox of shop/web-0 was not served: the worker died or exceeded its time; reconcile will"
    assert host.log.read_text().count(said) == 2


def test_restart_is_counted_and_last_event_is_written(host: Host) -> None:
    host.state.mkdir(parents=True)
    plugin_of(host).connected()
    plugin = plugin_of(host)
    plugin.connected()
    plugin.served("StartContainer", b"", 0.003, 0)
    plugin.subscription()
    told = json.loads((host.state / "nri.json").read_text())
    assert told["starts"] == 2
    assert told["events"]["StartContainer"] == {
        "count": 1,
        "seconds": 0.003,
        "failed": 0,
        "buckets": [0, 0, 1, 0, 0, 0, 0, 0],
    }


def start(plugin: NodePlugin, reply: Callable[[int, bytes], None]) -> bool:
    """Have a plugin serve the start of process 41; return whether its process can serve another event."""
    return plugin.serve("StartContainer", encode("ContainerEvent", {"pod": POD, "container": container(41)}), reply)


@pytest.mark.usefixtures("alarm")
def test_start_is_answered_after_its_checks_without_lock_and_alarm(host: Host, fail: Fail) -> None:
    """After the answer the worker has ordinary priority, and an alarm during the answer would lose it."""
    host.process(41, f"{POD_CGROUP}/{ID}")
    plugin = plugin_of(host)
    replies: list[tuple[int, bytes]] = []

    def reply(code: int, answer: bytes) -> None:
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
        assert "task 41 was moved to another group at once" in host.log.read_text()
        with host.context().ledger.lock(UID, 0):
            replies.append((code, answer))

    fail(Resctrl, "_check_arrival", NotArrivedError("task 41 was moved to another group at once"))
    assert start(plugin, reply)
    assert replies == [(0, pack(b"", b""))]


@pytest.mark.usefixtures("alarm")
def test_alarm_that_rises_while_it_is_cancelled_costs_no_answer(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.process(41, f"{POD_CGROUP}/{ID}")
    plugin = plugin_of(host)
    armed: list[tuple[float, float]] = []
    late = [LATE]

    def set_deadline(seconds: float) -> None:
        if not seconds and late:
            raise late.pop()
        deadline.set_deadline(seconds)

    monkeypatch.setattr(events, "set_deadline", set_deadline)
    assert not start(plugin, lambda *_: armed.append(signal.getitimer(signal.ITIMER_REAL)))
    assert armed == [(0, 0)]


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize(
    "error, reasons, fit",
    [
        (LATE, "task-gone,deadline", False),
        (FAULT, "task-gone,fault", False),
        (LedgerError(""), "task-gone,ledger", True),
    ],
    ids=["late", "fault", "ledger"],
)
def test_error_after_a_failed_feature_is_counted_and_decides_whether_the_process_serves_on(
    host: Host, monkeypatch: pytest.MonkeyPatch, error: Exception, reasons: str, *, fit: bool
) -> None:
    plugin = plugin_of(host)
    host.process(41, f"{POD_CGROUP}/{ID}")

    def create_runtime(_workload: object, context: Context, _key: str) -> str:
        context.failures.append("task-gone")
        raise copy(error)

    monkeypatch.setattr(events, "create_runtime", create_runtime)
    host.context().ledger.prepare()
    assert start(plugin, lambda *_: None) is fit
    assert (host.state / "calls").read_text().split()[3] == reasons
