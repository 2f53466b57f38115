"""The guard that protects a class at a slowdown: it acts when a pod suffers, and never at a load alone."""

import json
from typing import Any

import pytest
from conftest import Host

from resctrl_hooks.core.node.names import SLOWDOWN_STATUS
from resctrl_hooks.observe.config.guard import Guard as GuardSection
from resctrl_hooks.observe.node.guard.law import EVIDENCE
from resctrl_hooks.observe.node.guard.sufferers import FRESH

from .node import FULL, GB, Node

BUSY = {"gold": 20.0, "silver": 5.0, "bronze": 35.0}


class Protected:
    """A node whose gold class is protected at a slowdown of 1.2."""

    def __init__(self, host: Host, **protect: Any) -> None:
        self.host = host
        self.node = Node(host)
        host.configure(
            rdt={
                "guard": {
                    "mode": "act",
                    "protect": {"gold": {"slowdown": 1.2}, **protect},
                    "throttle": {"bronze": {"floor": 20}},
                }
            },
            monitoring={"capacity": {"*": 100 * GB}},
            slowdown={"enabled": True},
        )

    def press(self, since: float, **changes: Any) -> None:
        """Write that a pod of gold is slowed in windows that began then, and end now."""
        pod = {"ratio": 1.5, "classes": ["gold"], "domains": [0], "since": since, "until": self.node.now, **changes}
        (self.host.state / SLOWDOWN_STATUS).write_text(json.dumps({"pressed": {"key": pod}}))

    def calm(self) -> None:
        """Write that no pod is slowed."""
        (self.host.state / SLOWDOWN_STATUS).write_text(json.dumps({"pressed": {}}))


@pytest.fixture
def protected(host: Host) -> Protected:
    return Protected(host)


def test_suffering_pod_lowers_the_first_class_below_the_high_load(protected: Protected) -> None:
    guard = protected.node.guard()
    protected.node.pass_time(guard, BUSY, 2)
    protected.press(0.0)
    protected.node.pass_time(guard, BUSY, 4)
    assert protected.node.fs.writes == [("bronze", "MB:0=90")]
    line = "from 100 to 90 (per cent): load 60%, pods of class gold are slowed"
    assert any(line in one for one in protected.node.lines)


def test_class_without_a_slowdown_is_protected_at_the_load(host: Host) -> None:
    protected = Protected(host, silver={})
    protected.node.pass_time(protected.node.guard(), FULL, 6)
    assert protected.node.fs.writes == [("bronze", "MB:0=90")]


def test_next_step_needs_windows_from_after_the_last_one(protected: Protected) -> None:
    guard = protected.node.guard()
    protected.press(0.0)
    protected.node.pass_time(guard, BUSY, 20)
    assert len(protected.node.fs.writes) == 1, "windows from before the step do not show its effect"
    protected.press(15.0)
    protected.node.pass_time(guard, BUSY, 5)
    assert [value for _, value in protected.node.fs.writes] == ["MB:0=90", "MB:0=70"]


@pytest.mark.parametrize(
    "changes",
    [None, {"ratio": 1.19}, {"classes": ["silver"]}, {"domains": [1]}, {"until": -FRESH}],
    ids=["no suffering pod", "below its slowdown", "another class", "another domain", "an old window"],
)
def test_full_domain_with_other_evidence_changes_nothing(protected: Protected, changes: dict[str, Any] | None) -> None:
    guard = protected.node.guard()
    if changes is None:
        protected.calm()
    else:
        protected.press(0.0, **changes)
    protected.node.pass_time(guard, FULL, 60)
    assert protected.node.fs.writes == []


def test_end_of_the_sampling_is_the_end_of_the_evidence(protected: Protected) -> None:
    guard = protected.node.guard()
    protected.press(0.0)
    protected.node.pass_time(guard, BUSY, 1)
    (protected.host.state / SLOWDOWN_STATUS).unlink()
    protected.node.pass_time(guard, FULL, 30)
    assert protected.node.fs.writes == []


@pytest.mark.parametrize("field", ["ratio", "classes", "domains", "since", "until"])
@pytest.mark.parametrize("wrong", [None, 5, "gold", [None], {"gold": 1}, float("nan")], ids=str)
def test_misshapen_evidence_is_none_and_ends_no_guard(protected: Protected, field: str, wrong: Any) -> None:
    guard = protected.node.guard()
    if field in ("ratio", "since", "until") and wrong == 5:
        wrong = "5"
    protected.press(**{"since": 0.0, field: wrong})
    protected.node.pass_time(guard, BUSY, 5)
    assert protected.node.limit("bronze") == "MB:0=100"
    protected.press(protected.node.now)
    protected.node.pass_time(guard, BUSY, 5)
    assert protected.node.limit("bronze") == "MB:0=90"


def test_guard_without_the_sampling_says_so_once(protected: Protected) -> None:
    protected.node.guard()
    assert not [line for line in protected.node.lines if "slowdown.enabled" in line]
    protected.host.configure(
        rdt={"guard": {"mode": "act", "protect": {"gold": {"slowdown": 1.2}}, "throttle": {"bronze": {"floor": 20}}}},
        slowdown={},
    )
    protected.node.guard()
    assert len([line for line in protected.node.lines if "slowdown.enabled" in line]) == 1


def test_step_up_waits_until_its_need_could_show_and_longer_after_each_relapse(protected: Protected) -> None:
    guard = protected.node.guard()
    node = protected.node
    waits: list[float] = []
    for _ in range(3):
        protected.press(node.now)
        while node.limit("bronze") == "MB:0=100":
            node.pass_time(guard, BUSY)
        protected.calm()
        lowered = node.now
        while node.limit("bronze") != "MB:0=100":
            node.pass_time(guard, BUSY)
        waits.append(node.now - lowered)
        node.pass_time(guard, BUSY, 35)
    assert waits[0] >= EVIDENCE
    assert waits == sorted(waits)
    assert waits[2] > waits[0], "pressure soon after a step up doubles the wait"


def test_protect_is_a_list_or_a_mapping() -> None:
    assert GuardSection.model_validate({"protect": ["gold"]}).protect == ["gold"]
    found = GuardSection.model_validate({"protect": {"gold": {"slowdown": 1.2}, "/": {}}})
    assert found.model_dump(mode="json")["protect"]["gold"]["slowdown"] == 1.2
    cases: list[dict[str, Any]] = [{"gold": {"slowdown": 1.0}}, {"gold": {"speed": 2}}, {"a/b": {}}]
    for wrong in cases:
        with pytest.raises(ValueError, match=r"protect"):
            GuardSection.model_validate({"protect": wrong})
    with pytest.raises(ValueError, match="protected and throttled"):
        GuardSection.model_validate({"protect": {"gold": {}}, "throttle": {"gold": {"floor": 20}}})
