"""Execution of a container's steps in order: refusals at a timeout between them."""

from typing import Any

import pytest
from conftest import Host

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.feature import Step
from resctrl_hooks.node.hook import create_runtime


class Watching:
    """A feature that only sees whether time that ran out now would refuse the container."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bool]] = []

    def apply(self, step: Step, _container: object, _locked: object, context: Context) -> None:
        self.seen.append((step.feature, create_runtime.refuses(context)))


def test_deadline_refuses_only_before_the_last_refusing_step(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    host.configure(memory={"failurePolicy": "fail"}, placement={"failurePolicy": "ignore"})
    feature = Watching()
    names = ["monitoring", "memory", "placement", "memory", "monitoring", "placement"]
    steps = [(feature, Step(name, "join", {}, "")) for name in names]
    monkeypatch.setattr(create_runtime, "planned", lambda *_: steps)
    assert host.call(pod).code == 0
    assert feature.seen == list(zip(names, [True, True, True, True, False, False], strict=True))


def test_failed_step_is_in_the_answer_with_its_error(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other steps answer with their reasons."""

    class Failing:
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
    monkeypatch.setattr(create_runtime, "_release_in", lambda _, container, __: released.append(container))
    assert host.call(pod).code == 0
    assert released == []
    assert host.call(pod).code == 0
    assert released == [pod["id"]]
