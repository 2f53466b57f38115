"""Execution of a container's steps in order: refusals at a timeout between them."""

from copy import copy
from typing import Any

import pytest
from conftest import UID, Host
from hosts.faults import Fail, failing

from resctrl_hooks.core.node import lifecycle
from resctrl_hooks.core.node.call_metrics import read
from resctrl_hooks.core.node.errors import DeadlineError, HookError, NoRMIDsError, NotArrivedError
from resctrl_hooks.core.node.feature import Feature, Step
from resctrl_hooks.core.node.hook import create_runtime
from resctrl_hooks.core.node.registry import feature_named
from resctrl_hooks.core.node.resctrl.filesystem import Resctrl


@pytest.mark.parametrize("late, code", [(0, 79), (1, 79), (2, 79), (3, 79), (4, 0), (5, 0), (None, 0)])
@pytest.mark.parametrize(
    "error, reason", [(DeadlineError("no time"), "deadline"), (ZeroDivisionError("a bug"), "fault")]
)
def test_error_that_ends_the_call_refuses_only_before_the_last_refusing_step(
    host: Host,
    pod: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    late: int | None,
    code: int,
    error: Exception,
    reason: str,
) -> None:
    host.configure(memory={"failurePolicy": "fail"}, blockio={"failurePolicy": "ignore"})
    host.context().ledger.prepare()
    names = ["monitoring", "memory", "blockio", "memory", "monitoring", "blockio"]
    steps = [(feature_named(name), Step(name, "join", {}, "")) for name in names]

    def apply_steps(steps: list[Any], *_: object) -> None:
        on_step: Any = _[-1]
        for number in range(len(steps)):
            if number == late:
                raise copy(error)
            on_step(number, None)

    monkeypatch.setattr(create_runtime, "planned", lambda *_: steps)
    monkeypatch.setattr(create_runtime, "apply_steps", apply_steps)
    assert host.call(pod).code == code
    failures = read(host.context().ledger).stage("createRuntime").failures
    assert failures == ({} if late is None else {reason: 1, **({"refused": 1} if code else {})})
    assert (host.context().ledger.containers() == []) == bool(code), "a refusal leaves nothing"


def test_failed_step_is_in_the_answer_with_its_error(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other steps answer with their reasons."""

    class Failing(Feature):
        def apply(self, step: Step, *_others: object) -> None:
            if step.action == "fail":
                raise HookError("the disk is on fire")

    steps = [(Failing(), Step("monitoring", action, {}, f"why {action}")) for action in ("join", "fail")]
    monkeypatch.setattr(create_runtime, "planned", lambda *_: steps)
    outcome = host.call(pod)
    assert outcome.code == 0
    assert ": why join; the disk is on fire" in outcome.log


def test_restart_under_the_same_id_releases_the_earlier_container_first(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[str] = []
    monkeypatch.setattr(lifecycle, "release_container", lambda _, container, __: released.append(container))
    assert host.call(pod).code == 0
    assert released == []
    assert host.call(pod).code == 0
    assert released == [pod["id"]]


@pytest.mark.parametrize("error", [DeadlineError("deadline of the hook exceeded"), NotArrivedError("it is elsewhere")])
@pytest.mark.parametrize("config", [{"failurePolicy": "fail"}, {"monitoring": {"failurePolicy": "fail"}}])
def test_failed_check_of_the_last_refusing_step_refuses(
    host: Host, pod: dict[str, Any], fail: Fail, config: dict[str, Any], error: Exception
) -> None:
    host.configure(**config)
    fail(Resctrl, "check_arrival", error)
    assert host.call(pod).code == 79
    assert host.context().ledger.containers() == []


@pytest.mark.parametrize("failures", [1, 2], ids=["first container", "second container's first try too"])
def test_pod_with_a_group_in_one_class_still_waits_in_another(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    (host.resctrl / "gold/mon_groups").mkdir(parents=True)
    ended = [0, 1]
    monkeypatch.setattr("resctrl_hooks.core.node.lifecycle.make_room", lambda *_, **__: ended.pop(0))
    left = [NoRMIDsError("no RMID is free")] * failures
    with failing(Resctrl, "create", lambda *_: left.pop(), when=lambda *_: bool(left)):
        host.call(pod)
        bundle = host.bundle({"linux": {"intelRdt": {"closID": "gold"}}}, "b2")
        host.call({**pod, "id": "d" * 64, "bundle": bundle})
    assert host.groups() == [f"gold/mon_groups/{UID}"]
    assert host.context().ledger.marked("waiting") == [UID]


def test_pod_that_gets_its_groups_at_the_second_try_waits_no_more(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resctrl_hooks.core.node.lifecycle.make_room", lambda *_, **__: 1)
    left = [NoRMIDsError("no RMID is free")]
    with failing(Resctrl, "create", lambda *_: left.pop(), when=lambda *_: bool(left)):
        host.call(pod)
    assert host.context().ledger.marked("waiting") == []
