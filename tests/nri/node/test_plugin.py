"""The plugin in this process: its settings, the events that need work, its answers, and its words."""

import signal
from collections.abc import Callable
from copy import copy
from typing import Any

import pytest
from conftest import GROUP, ID, POD_CGROUP, UID, Host
from hosts.faults import Fail
from hosts.hostile_inputs import VARIABLES

from nri.node.conftest import FAIL, NOTHING, POD, Answer, answer_of, container, log, message, plugin_of, served
from resctrl_hooks.core.node import context
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import DeadlineError, HookError, LedgerError, NotArrivedError
from resctrl_hooks.core.node.hook import call
from resctrl_hooks.core.node.refusals import recent_refusals
from resctrl_hooks.core.node.resctrl.filesystem import Resctrl
from resctrl_hooks.nri.node import creation, events
from resctrl_hooks.nri.node import plugin as module
from resctrl_hooks.nri.node.event import Event, container_of
from resctrl_hooks.nri.node.protobuf import encode
from resctrl_hooks.nri.node.worker import NOT_YET, pack
from resctrl_hooks.nri.node.workload import READ

IDS = [letter * 64 for letter in "abcd"]


def test_limit_is_a_part_of_the_runtimes_patience(host: Host) -> None:
    plugin = plugin_of(host)
    for told, limits in ((1000, {0: 0.85, 0.5: 0.425, 3: 0.85}), (0, {0: 1.7, 1: 0.85})):
        plugin.configure({"request_timeout": told})
        assert {timeout: plugin.limit(timeout) for timeout in limits} == pytest.approx(limits)


def test_number_of_containers_without_a_process_is_bounded(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_WITHOUT_PID", 2)
    plugin = plugin_of(host)
    for id_ in IDS[:3]:
        plugin.served("StartContainer", message(id_=id_), 0.1, NOT_YET)
    assert [plugin.serves("PostStartContainer", message(id_=id_)) for id_ in IDS[:3]] == [False, False, True]


def test_event_names_its_container() -> None:
    older = encode("StateChangeEvent", {"event": 6, "pod": POD, "container": container()})
    one = Event("StartContainer:StateChange", older, "cri-o", "0.11")
    said = ("StartContainer", ID, "shop/web-0/c0", "cri-o", "0.11")
    assert (one.stage, one.id, str(one), one.runtime, one.version) == said
    one.key = "key"
    assert one.known() == {"id": ID, "key": "key", "namespace": "shop", "pod": "web-0", "container": "c0"}
    bare = Event("StopContainer", encode("ContainerEvent", {"container": {"id": ID}}), "", "")
    assert (str(bare), bare.known()) == (ID[:12], {"id": ID})
    assert str(Event("RemovePodSandbox", b"", "", "")) == "an unknown pod"
    assert [container_of("StartContainer", one) for one in (message(), b"\xff")] == [ID, ""]
    with pytest.raises(HookError, match="cannot parse the runtime's StartContainer: "):
        Event("StartContainer", b"\xff", "", "")


# Lists of containers


def listed(host: Host, *parts: bytes) -> Answer:
    """Return the answer to a list, whose containers run with the pids 41, 42 and so on."""
    for number, id_ in enumerate(IDS):
        host.process(41 + number, f"{POD_CGROUP}/{id_}")
    plugin = plugin_of(host)
    return answer_of(lambda reply: plugin.synchronize([*parts], reply))


def test_listed_containers_are_adopted_from_all_parts(host: Host) -> None:
    ended, bad = container(77, IDS[3]), container(43, "../x")
    first = {"pods": [POD], "containers": [container(41, IDS[0]), ended, container(0, IDS[1])]}
    parts = (first, {"containers": [bad, container(42, IDS[1])]})
    assert listed(host, *(encode("SynchronizeRequest", part) for part in parts)) == NOTHING
    assert host.tasks(GROUP) == [41, 42]
    assert "Synchronize: container ../x: the runtime sent no valid container id: '../x'" in log(host)
    assert "Synchronize: 5 containers, 2 that started earlier were adopted" in log(host)
    assert (host.state / "calls").read_text().split()[1] == "Synchronize"


def test_containers_with_as_many_variables_as_a_message_has_room_for_leave_others_their_labels(host: Host) -> None:
    many = encode("Container", {**container(41, IDS[0]), "env": [b"A="] * 250_000})
    field = b"\x12" + bytes((len(many) & 127 | 128, len(many) >> 7 & 127 | 128, len(many) >> 14)) + many
    others = encode("SynchronizeRequest", {"pods": [POD], "containers": [container(44, IDS[3])]})
    payload = field * 3 + others
    assert 3 << 20 > len(payload) > 2 << 20
    assert listed(host, payload) == NOTHING
    record = host.context().ledger.read_member(UID, IDS[3])
    assert record is not None
    assert record["told"]["labels"] == {"app": "web"}


def test_unreadable_list_and_a_failed_pass_are_answered_and_logged(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert listed(host, b"\xff") == (2, b"", b"")
    assert "Synchronize: internal error in resctrl-hook: WireError: " in log(host)
    plugin = plugin_of(host)
    asked: list[str] = []
    monkeypatch.setattr(module, "become_urgent", lambda: asked.append("urgent"))
    monkeypatch.setattr(events, "adopt", lambda _: b"adopt")
    assert answer_of(plugin.adopt) == (0, b"", b"adopt")
    monkeypatch.setattr(events, "adopt", lambda _: 1 / 0)
    assert answer_of(plugin.adopt) == (2, b"", b"")
    assert asked == ["urgent"] * 2
    assert "adopting: internal error in resctrl-hook: ZeroDivisionError" in log(host)


def test_variables_that_features_read_are_those_of_the_list() -> None:
    assert (READ.decode(),) == VARIABLES


# NRI events while another process holds a needed lock, or after their time limit; served in this process

OTHER_CGROUP = POD_CGROUP[:-1] + "2"
OTHER = {**POD, "uid": UID[:-1] + "2", "linux": {"cgroup_parent": OTHER_CGROUP}}


def created(host: Host, pod: dict[str, Any], **config: Any) -> tuple[int, bytes]:
    """Have a plugin, created as in a child, serve a CreateContainer; return status, and answer or reason."""
    code, answer, others = served(plugin_of(host, **config), "CreateContainer", message(pod=pod))
    assert others == b""
    return code, answer


def test_existing_pod_is_waited_for(host: Host) -> None:
    """What was counted for it must not be lost, and it waits already: one RMID is for pods below 50."""
    (host.resctrl / "info/L3_MON").mkdir(parents=True)
    (host.resctrl / "info/L3_MON/num_rmids").write_text("5\n")
    (host.cgroup / OTHER_CGROUP.lstrip("/")).mkdir(parents=True)
    crowded = {**FAIL, "monitoring": {"reserve": {"rmids": 3, "above": 50}}}
    assert created(host, OTHER, **crowded) == (0, b"")
    with host.context().monitor.hold(UID) as locked:
        locked.save()
    assert created(host, POD, **crowded)[0] == 2
    assert host.context().ledger.marked("waiting") == [UID]


LATE = DeadlineError("deadline of the hook exceeded")
FAULT = ZeroDivisionError("of our own")
MONITORED = {"monitoring": {"failurePolicy": "fail"}}


@pytest.mark.parametrize("where", ["planned", "previewed", "adjustment", "reserve", "with_room"])
@pytest.mark.parametrize("policy", [FAIL, MONITORED], ids=["general", "monitoring's"])
@pytest.mark.parametrize("error", [LATE, FAULT], ids=["late", "fault"])
def test_any_failure_to_complete_refuses_under_fail(
    host: Host, fail: Fail, where: str, policy: dict[str, Any], error: Exception
) -> None:
    fail(creation, where, error)
    code, words = created(host, POD, **policy)
    if (where, policy, error) == ("adjustment", MONITORED, FAULT):  # not part of monitoring, and not of its time
        assert (code, words, host.groups()) == (0, b"", [GROUP])
        return
    assert (code, str(error) in words.decode()) == (2, True)
    assert "container rejected" in host.log.read_text()
    assert [refusal["pod"] for refusal in recent_refusals(str(host.state))] == ["web-0"]
    assert host.context().ledger.keys() == host.groups() == [], "nothing is left of it"


def start(host: Host, reply: Callable[[int, bytes], None]) -> bool:
    """Have a plugin serve the start of process 41; return whether its process can serve another event."""
    host.process(41, f"{POD_CGROUP}/{ID}")
    return plugin_of(host).serve("StartContainer", message(41), reply)


def test_start_is_answered_after_its_checks_without_lock_and_alarm(host: Host, fail: Fail) -> None:
    """After the answer the worker has ordinary priority, and an alarm during the answer would lose it."""
    replies: list[tuple[int, bytes]] = []

    def reply(code: int, answer: bytes) -> None:
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
        assert "task 41 was moved to another group at once" in host.log.read_text()
        with host.context().ledger.lock(UID, 0):
            replies.append((code, answer))

    fail(Resctrl, "check_arrival", NotArrivedError("task 41 was moved to another group at once"))
    assert start(host, reply)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert replies == [(0, pack(b"", b""))]


def test_alarm_that_rises_while_it_is_cancelled_costs_no_answer(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    armed: list[tuple[float, float]] = []
    late = [LATE]

    def set_deadline(seconds: float) -> None:
        if not seconds and late:
            raise late.pop()
        context.set_deadline(seconds)

    monkeypatch.setattr(call, "set_deadline", set_deadline)
    assert not start(host, lambda *_: armed.append(signal.getitimer(signal.ITIMER_REAL)))
    assert armed == [(0, 0)]


@pytest.mark.parametrize(
    "error, reason, fit",
    [(LATE, "deadline", False), (FAULT, "fault", False), (LedgerError(""), "ledger", True)],
    ids=["late", "fault", "ledger"],
)
def test_error_after_a_failed_feature_is_counted_and_decides_whether_the_process_serves_on(
    host: Host, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str, *, fit: bool
) -> None:
    def create_runtime(_workload: object, context: Context, _key: str) -> str:
        context.failures.append("task-gone")
        raise copy(error)

    monkeypatch.setattr(events, "create_runtime", create_runtime)
    host.context().ledger.prepare()
    assert start(host, lambda *_: None) is fit
    assert (host.state / "calls").read_text().split()[3] == f"task-gone,{reason}"
