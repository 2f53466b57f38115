"""Reports to the API server: once in ten minutes for each pod and cause, as a series, also after restarts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from resctrl_hooks.observe.events.api import Answer, Api, ApiError
from resctrl_hooks.observe.events.model import EVERY, Condition, Pod, written
from resctrl_hooks.observe.events.sender import Sender

from .conftest import FakeApi

UID = "0f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
T0 = 1.7e9


def condition(name: str = "cart", cause: str = "memory-bandwidth", namespace: str = "shop") -> Condition:
    return Condition(Pod(namespace, name, UID), "SlowedByNeighbour", cause, "Diagnosed", "slowed")


class Node:
    """A sender whose clock stands where the test sets it."""

    def __init__(self, api: Api) -> None:
        self.now = T0
        self.offset = 0.0
        self.lines: list[str] = []
        self.api = api
        self.restart()

    def restart(self) -> None:
        self.sender = Sender(
            self.api, "worker-0", self.lines.append, lambda: self.now + self.offset, lambda: self.now - T0
        )

    def at(self, seconds: float, *conditions: Condition) -> None:
        self.now = T0 + seconds
        self.sender.send(conditions or [condition()])


def test_condition_is_reported_once_in_ten_minutes_and_then_as_a_series(api: FakeApi) -> None:
    node = Node(api.api)
    for seconds in range(0, 1800, 10):
        node.at(seconds)
    assert api.counts() == {"cart SlowedByNeighbour": 3}
    assert [method for method, _ in api.asked] == ["POST", "PATCH", "PATCH"]
    (event,) = api.stored.values()
    assert event["series"]["lastObservedTime"] == "2023-11-14T22:33:20.000000Z"  # T0 and 20 minutes
    assert event["eventTime"] == "2023-11-14T22:13:20.000000Z"
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "shop",
        "name": "cart",
        "uid": UID,
    }
    assert (event["reportingController"], event["reportingInstance"]) == ("resctrl-hooks", "worker-0")


def test_each_cause_and_pod_has_its_own_event(api: FakeApi) -> None:
    Node(api.api).at(0, condition(), condition(cause="l3-cache"), condition("web"), condition(namespace="other"))
    assert len(api.stored) == 4
    assert sorted({path.rpartition("/")[0] for path in api.stored}) == [
        "/apis/events.k8s.io/v1/namespaces/other/events",
        "/apis/events.k8s.io/v1/namespaces/shop/events",
    ]


def test_restarted_process_waits_for_the_rest_of_the_ten_minutes(api: FakeApi) -> None:
    node = Node(api.api)
    node.at(0)
    node.restart()
    for seconds in (60, 300, EVERY - 1):
        node.at(seconds)
    assert api.counts() == {"cart SlowedByNeighbour": 1}
    node.at(EVERY)
    assert api.counts() == {"cart SlowedByNeighbour": 2}
    node.restart()
    node.at(2 * EVERY)
    assert api.counts() == {"cart SlowedByNeighbour": 3}


def test_event_that_the_server_has_deleted_is_created_again(api: FakeApi) -> None:
    node = Node(api.api)
    node.at(0)
    api.stored.clear()
    node.at(EVERY)
    assert api.counts() == {"cart SlowedByNeighbour": 1}
    node.at(2 * EVERY)
    assert api.counts() == {"cart SlowedByNeighbour": 2}


def test_missing_right_is_named_once(api: FakeApi) -> None:
    api.forbidden = {"POST"}
    node = Node(api.api)
    for seconds in range(0, 1300, 10):
        node.at(seconds, condition(), condition("web"))
    (line,) = node.lines
    assert line.startswith("not permitted: create events.k8s.io events in namespace shop; bind ClusterRole ")
    assert len(api.asked) == 6, "each pod is tried once in ten minutes"
    api.forbidden = set()
    node.at(2000)
    assert api.counts() == {"cart SlowedByNeighbour": 1}


def test_missing_right_to_patch_is_named(api: FakeApi) -> None:
    node = Node(api.api)
    node.at(0)
    api.forbidden = {"PATCH"}
    node.at(EVERY)
    assert [line.partition(" in ")[0] for line in node.lines] == ["not permitted: patch events.k8s.io events"]


def test_refused_event_is_reported_once_with_the_servers_words(api: FakeApi) -> None:
    node = Node(api.api)
    bad = condition()._replace(note="")
    for seconds in (0, 10, EVERY):
        node.at(seconds, bad)
    assert node.lines == ["cannot create an Event in namespace shop: HTTP status 422: invalid: ['note']"]


def test_unreachable_server_is_reported_once_and_tried_again(api: FakeApi, tmp_path: Path) -> None:
    node = Node(Api("127.0.0.1", 1, str(tmp_path), encrypted=False))
    for seconds in (0, 10):
        node.at(seconds)
    (line,) = node.lines
    assert line.startswith("cannot reach the API server 127.0.0.1:1: Connection refused; ")


def test_event_without_an_answer_does_not_keep_out_the_others(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    node, create = Node(api.api), api.api.create

    def answered(path: str, value: Mapping[str, Any]) -> Answer:
        if value["regarding"]["name"] == "cart":
            raise ApiError("timed out")
        return create(path, value)

    monkeypatch.setattr(api.api, "create", answered)
    for seconds in (0, 10):
        node.at(seconds, condition(), condition("web"))
    assert [event["regarding"]["name"] for event in api.stored.values()] == ["web"]
    monkeypatch.undo()
    node.at(20, condition(), condition("web"))
    assert len(api.stored) == 2


def test_missing_token_is_one_line(tmp_path: Path) -> None:
    node = Node(Api("127.0.0.1", 1, str(tmp_path / "none"), encrypted=False))
    node.at(0)
    assert "none/token: No such file or directory" in node.lines[0]


def test_renewed_token_is_used(api: FakeApi, tmp_path: Path) -> None:
    node = Node(api.api)
    node.at(0)
    (tmp_path / "token").write_text("second\n")
    node.at(EVERY)
    assert api.tokens == {"first", "second"}


def test_many_conditions_are_reported_in_turn(api: FakeApi) -> None:
    node = Node(api.api)
    many = [condition(f"pod-{number}") for number in range(50)]
    node.at(0, *many)
    assert len(api.stored) == 20
    node.at(10, *many)
    node.at(20, *many)
    assert len(api.stored) == 50


@pytest.mark.parametrize("jump", [-86400.0, -1.6e9, 86400.0, 3e8])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_clock_that_jumps_delays_no_event_and_repeats_none_early(api: FakeApi, jump: float, is_restarted: bool) -> None:
    node = Node(api.api)
    node.at(0)
    node.offset = jump
    if is_restarted:
        node.restart()
    for seconds in range(10, 6000, 10):
        node.at(seconds)
    assert 10 <= api.counts()["cart SlowedByNeighbour"] <= 11
    (event,) = api.stored.values()
    assert event["series"]["lastObservedTime"].startswith(written(T0 + jump)[:10])


def test_lines_about_refused_events_are_bounded(api: FakeApi) -> None:
    node = Node(api.api)
    api.forbidden = {"POST"}
    for number in range(1000):
        node.at(number * 10.0, *[condition(f"pod{number % 500}", namespace=f"team{number % 500}")])
        assert len(node.sender._logged) <= 101
    assert len(node.lines) < 300
    assert "more errors are not shown" in node.lines
