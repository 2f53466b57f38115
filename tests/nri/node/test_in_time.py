"""NRI events while another process holds a needed lock, or after their time limit; served in this process."""

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any

import pytest
from conftest import GROUP, ID, POD_CGROUP, UID, Host
from hosts.faults import Fail

from nri.node.conftest import FAIL, IN_BATCH, POD, message, placement, plugin_of, served
from resctrl_hooks.core.node import context
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import DeadlineError, LedgerError, NotArrivedError
from resctrl_hooks.core.node.hook import call
from resctrl_hooks.core.node.refusals import recent_refusals
from resctrl_hooks.core.node.resctrl.filesystem import Resctrl
from resctrl_hooks.nri.node import creation, events
from resctrl_hooks.nri.node.plugin import NodePlugin
from resctrl_hooks.nri.node.protobuf import decode
from resctrl_hooks.nri.node.worker import pack
from resctrl_hooks.placement.node.allocations import LOCK

HOUSES = ("placement",)
pytestmark = pytest.mark.usefixtures("alarm")
Serve = Callable[..., tuple[int, bytes]]
OTHER_CGROUP = POD_CGROUP[:-1] + "2"
OTHER = {**POD, "uid": UID[:-1] + "2", "linux": {"cgroup_parent": OTHER_CGROUP}}
ADMITTED = (0, b"")


@pytest.fixture
def serve(host: Host) -> Serve:
    """Has a plugin, created as in a child, serve a CreateContainer: status, and the answer or why it is refused."""

    def make(pod: dict[str, Any], **config: Any) -> tuple[int, bytes]:
        code, answer, others = served(plugin_of(host, **config), "CreateContainer", message(pod=pod))
        assert others == b""
        return code, answer

    return make


@pytest.fixture
def crowded(host: Host) -> dict[str, Any]:
    """Return the settings of a node with one RMID for pods below 50, which a pod of low priority may have first."""
    (host.resctrl / "info/L3_MON").mkdir(parents=True)
    (host.resctrl / "info/L3_MON/num_rmids").write_text("5\n")
    (host.cgroup / OTHER_CGROUP.lstrip("/")).mkdir(parents=True)
    rules = [{"namespaces": ["batch"], "value": -10}, {"namespaces": ["gold"], "value": 100}]
    return {**FAIL, "monitoring": {"priority": rules, "reserve": {"rmids": 3, "above": 50}}}


@pytest.fixture
def mounts(host: Host) -> dict[str, Any]:
    """Return the settings of a node whose containers get a cpuset and what their class brings."""
    return {
        **placement(host),
        "monitoring": {"enabled": False},
        "nri": {"adjust": ["placement"], "allow": {"*": ["batch"]}},
        "classes": [{"name": "batch", "mounts": [{"source": "/usr", "destination": "/host-usr"}]}],
    }


def test_container_whose_pod_lock_is_late_is_refused(host: Host, serve: Serve) -> None:
    with ThreadPoolExecutor(1) as another, another.submit(host.context().ledger.lock, UID, 0).result():
        code, words = serve(POD, **FAIL)
    assert code == 2
    assert words.startswith(b"monitoring: ")
    assert b"was held for 0.56 s" in words, "patience is a part of what this runtime gives an event"


def test_existing_pod_is_waited_for(host: Host, serve: Serve, crowded: dict[str, Any]) -> None:
    """What was counted for it must not be lost, and it waits already."""
    assert serve(OTHER, **crowded) == ADMITTED
    with host.context().monitor.hold(UID) as locked:
        locked.save()
    assert serve(POD, **crowded)[0] == 2
    assert host.context().ledger.marked("waiting") == [UID]


LATE = DeadlineError("deadline of the hook exceeded")
FAULT = ZeroDivisionError("of our own")
MONITORED = {"monitoring": {"failurePolicy": "fail"}}


@pytest.mark.parametrize("where", ["planned", "previewed", "adjustment", "reserve", "with_room"])
@pytest.mark.parametrize("policy", [FAIL, MONITORED], ids=["general", "monitoring's"])
@pytest.mark.parametrize("error", [LATE, FAULT], ids=["late", "fault"])
def test_any_failure_to_complete_refuses_under_fail(
    host: Host,
    serve: Serve,
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


CLASSES = [{"name": "batch", "memtierdconfig": "policy: {}"}]


@pytest.mark.parametrize(
    "config, refused",
    [
        ({}, False),
        (FAIL, True),
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
    event = message()
    plugin.served("CreateContainer", event, 1.0, None)
    outcome = "container rejected" if refused else "container not changed"
    said = f"CreateContainer of shop/web-0/c0 was not served: the worker died or exceeded its time; {outcome}"
    assert said in host.log.read_text()
    assert bool(plugin.refusal("CreateContainer", event)) == refused
    assert not plugin.refusal("StartContainer", event)


def test_unreadable_event_follows_general_policy(host: Host) -> None:
    assert plugin_of(host, **FAIL).refusal("CreateContainer", b"\xff")
    assert not plugin_of(host, **MONITORED).refusal("CreateContainer", b"\xff")


def test_timeout_after_all_checks_refuses_nothing(host: Host, serve: Serve, mounts: dict[str, Any], fail: Fail) -> None:
    fail(creation, "encode", LATE)
    assert serve(IN_BATCH, **{**mounts, "placement": {**mounts["placement"], **FAIL}}) == ADMITTED
    assert "container not affected" in host.log.read_text()


@pytest.mark.parametrize("adjust", [[], ["placement"]])
def test_container_that_cannot_be_placed_leaves_no_group(host: Host, serve: Serve, adjust: list[str]) -> None:
    config = {**FAIL, **placement(host, policy="pools"), "nri": {"adjust": adjust}}
    code, words = serve({**POD, "annotations": {"pool.placement.resctrl-hooks.io": "nowhere"}}, **config)
    assert (code, words.startswith(b"placement: unknown pool 'nowhere'")) == (2, True)
    assert host.context().ledger.keys() == host.groups() == []


def test_unrecorded_cpuset_costs_no_mount(host: Host, serve: Serve, mounts: dict[str, Any]) -> None:
    with host.context().ledger.lock_named(LOCK, 0):
        code, answer = serve(IN_BATCH, **mounts)
    assert not code
    adjusted = decode("CreateContainerResponse", answer)["adjust"]
    assert [mount["destination"] for mount in adjusted["mounts"]] == ["/host-usr"]
    assert "linux" not in adjusted, "our cpuset would count as a foreign choice"
    assert "gets its cpuset only at its start" in host.log.read_text()


def start(plugin: NodePlugin, reply: Callable[[int, bytes], None]) -> bool:
    """Have a plugin serve the start of process 41; return whether its process can serve another event."""
    return plugin.serve("StartContainer", message(41), reply)


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

    fail(Resctrl, "check_arrival", NotArrivedError("task 41 was moved to another group at once"))
    assert start(plugin, reply)
    assert replies == [(0, pack(b"", b""))]


def test_alarm_that_rises_while_it_is_cancelled_costs_no_answer(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.process(41, f"{POD_CGROUP}/{ID}")
    plugin = plugin_of(host)
    armed: list[tuple[float, float]] = []
    late = [LATE]

    def set_deadline(seconds: float) -> None:
        if not seconds and late:
            raise late.pop()
        context.set_deadline(seconds)

    monkeypatch.setattr(call, "set_deadline", set_deadline)
    assert not start(plugin, lambda *_: armed.append(signal.getitimer(signal.ITIMER_REAL)))
    assert armed == [(0, 0)]


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
