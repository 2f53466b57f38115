"""Events of pods: conditions, reports to an API server with Kubernetes' validation, and the loop of the process."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from conftest import Host, examples
from golden import Golden
from hosts.guard_and_packages import write_slowdown_state
from hosts.http_server import Answer as Answered
from hosts.http_server import Request, http_server
from hosts.monitored import KEYS, MonitoredHost, plain_host, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.inventory.pod_names import PodNames
from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.names import SLOWDOWN_STATUS
from resctrl_hooks.observe.cli import events
from resctrl_hooks.observe.events.api import Answer, Api, ApiError
from resctrl_hooks.observe.events.conditions import NO_RMID, SLOWED, conditions
from resctrl_hooks.observe.events.model import EVERY, Condition, Pod, event_of, uid_of, written
from resctrl_hooks.observe.events.sender import Sender

NEEDED = ("eventTime", "reportingController", "reportingInstance", "action", "reason", "type", "regarding", "note")


@dataclass
class FakeApi:
    """Stored Events by path, and the requests that were made."""

    api: Api
    stored: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    forbidden: set[str] = field(default_factory=set)
    """Methods that this account may not use."""
    tokens: set[str] = field(default_factory=set)

    def answer(self, method: str, path: str, value: dict[str, Any], kind: str) -> tuple[int, Any]:
        self.asked.append((method, path))
        if method in self.forbidden:
            return 403, {"message": "events.k8s.io is forbidden"}
        if method == "POST":
            missing = [name for name in NEEDED if not value.get(name)]
            place = f"{path}/{value['metadata']['name']}"
            if missing or value["metadata"]["namespace"] != path.split("/")[-2]:
                return 422, {"message": f"invalid: {missing}"}
            if place in self.stored:
                return 409, {"message": "exists"}
            self.stored[place] = value
            return 201, value
        if path not in self.stored:
            return 404, {"message": "not found"}
        if kind != "application/merge-patch+json" or not {*value} <= {"series"}:
            return 422, {"message": "only the series may change"}
        if value and value["series"]["count"] < 2:
            return 422, {"message": "a series has at least 2 Events"}
        self.stored[path].update(value)
        return 200, self.stored[path]

    def counts(self) -> dict[str, int]:
        """Return by pod and reason how often an Event was reported."""
        return {
            f"{one['regarding']['name']} {one['reason']}": one.get("series", {"count": 1})["count"]
            for one in self.stored.values()
        }


@pytest.fixture
def api(tmp_path: Path) -> Iterator[FakeApi]:
    """Return the server, which runs at a port of its own."""
    (tmp_path / "token").write_text("first\n")

    def answer(request: Request) -> Answered:
        fake.tokens.add(request.headers["Authorization"].removeprefix("Bearer "))
        value, kind = json.loads(request.body), request.headers["Content-Type"]
        status, body = fake.answer(request.method, request.path, value, kind)
        return status, json.dumps(body).encode()

    with http_server(answer) as port:
        fake = FakeApi(Api("127.0.0.1", port, str(tmp_path), encrypted=False))
        yield fake


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


STEPS = st.tuples(st.floats(1, 2 * EVERY), st.just(0.0) | st.floats(-1.6e9, 3e8), st.booleans())


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=1, max_size=20))
def test_condition_is_reported_each_ten_minutes_by_any_clock(
    api: FakeApi, steps: list[tuple[float, float, bool]]
) -> None:
    """A step lets seconds pass, sets the wall clock, may start the process again, and has a pass.

    Only a process that was started again has to ask the wall clock how old the last report is.
    """
    api.stored.clear()
    node = Node(api.api)
    node.at(0)
    reports, last, written_at = 1, 0.0, node.now
    for pause, jump, is_restarted in steps:
        if is_restarted:
            node.restart()
        node.offset += jump if node.now + node.offset + jump > 1e6 else 0.0
        now = node.now - T0 + pause
        age = T0 + now + node.offset - written_at
        if is_restarted and 0 <= age < EVERY:
            last = now - age
        if (is_restarted and not 0 <= age < EVERY) or now - last >= EVERY:
            reports, last, written_at = reports + 1, now, T0 + now + node.offset
        node.at(now)
        assert api.counts() == {"cart SlowedByNeighbour": reports}
    (event,) = api.stored.values()
    assert reports == 1 or event["series"]["lastObservedTime"][:19] == written(written_at)[:19]


class Story:
    """Passes of senders, each with its requests, the Events by pod and reason, and the new lines."""

    def __init__(self, api: FakeApi) -> None:
        self.api, self.texts = api, list[str]()

    def begin(self, name: str, api: Api | None = None, *forbidden: str) -> None:
        """Begin with an empty server, whose account may not use some methods."""
        self.api.stored.clear()
        self.api.forbidden = {*forbidden}
        self.node = Node(api or self.api.api)
        self.texts.append(f"{name}:")

    def at(self, seconds: float, *conditions: Condition) -> None:
        asked, lines = len(self.api.asked), len(self.node.lines)
        self.node.at(seconds, *conditions)
        requests = [f"{method} {path.rpartition('/events')[0][-5:]}" for method, path in self.api.asked[asked:]]
        if requests or self.node.lines[lines:]:
            self.texts.append(f"  {seconds:g} s: {', '.join(requests)}; {len(self.api.stored)} {self.api.counts()}")
            self.texts += [f"    {line}" for line in self.node.lines[lines:]]


def test_what_the_server_answers_decides_when_an_event_is_reported_again(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    story, web = Story(api), condition("web")
    story.begin("each cause, pod and namespace has its Event")
    story.at(0, condition(), condition(cause="l3-cache"), web, condition(namespace="other"))
    story.begin("an Event that the server has deleted")
    for seconds in (0, EVERY, 2 * EVERY):
        story.at(seconds)
        if not seconds:
            api.stored.clear()
    story.begin("no right to create", None, "POST")
    for seconds in range(0, 1300, 10):
        story.at(seconds, condition(), web)
    api.forbidden = set()
    story.at(2000)
    story.begin("no right to patch", None, "PATCH")
    for seconds in (0, EVERY):
        story.at(seconds)
    story.begin("a refused Event")
    for seconds in (0, 10, EVERY):
        story.at(seconds, condition()._replace(note=""))
    story.begin("an unreachable server", Api("127.0.0.1", 1, str(tmp_path), encrypted=False))
    for seconds in (0, 10):
        story.at(seconds)
    story.begin("no token", Api("127.0.0.1", 1, str(tmp_path / "none"), encrypted=False))
    story.at(0)
    story.begin("a renewed token")
    story.at(0)
    (tmp_path / "token").write_text("second\n")
    story.at(EVERY)
    assert api.tokens == {"first", "second"}
    story.begin("no answer for one of two Events")
    create = api.api.create

    def answered(path: str, value: Mapping[str, Any]) -> Answer:
        if value["regarding"]["name"] == "cart":
            raise ApiError("timed out")
        return create(path, value)

    monkeypatch.setattr(api.api, "create", answered)
    for seconds in (0, 10):
        story.at(seconds, condition(), web)
    monkeypatch.undo()
    story.at(20, condition(), web)
    golden("\n".join(story.texts).replace(str(tmp_path), "<folder>"))


def test_many_conditions_are_reported_in_turn_and_refused_ones_have_few_lines(api: FakeApi, golden: Golden) -> None:
    node, stored = Node(api.api), list[int]()
    for seconds in (0, 10, 20):
        node.at(seconds, *(condition(f"pod-{number}") for number in range(50)))
        stored.append(len(api.stored))
    assert stored == [20, 40, 50]
    path, event = next(iter(api.stored.items()))
    golden(f"{path}\n{event}")
    api.forbidden = {"POST"}
    for number in range(1000):
        node.at(number * 10.0, *[condition(f"pod{number % 500}", namespace=f"team{number % 500}")])
        assert len(node.sender._logged) <= 101
    assert len(node.lines) < 300
    assert "more errors are not shown" in node.lines


@pytest.fixture
def slowed(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Three pods in groups; the first one is slowed."""
    with plain_host(tmp_path) as found:
        for number, name in enumerate(("cart", "batch", "quiet")):
            found.group(number, name, llc_occupancy=1, mbm_total_bytes=1)
        write_slowdown_state(found.context, KEYS[0])
        yield found


def of(slowed: MonitoredHost) -> list[Condition]:
    return conditions(slowed.context, PodNames(slowed.context))


def culprits(slowed: MonitoredHost, *keys: str) -> None:
    """Let these pods have equal parts in the cause."""
    path = Path(slowed.context.settings.state_dir, SLOWDOWN_STATUS)
    record = json.loads(path.read_text())
    parts = [{"key": key, "share": 1 / len(keys), "correlation": None} for key in keys]
    record["pods"][KEYS[0]]["causes"][0]["pods"] = parts
    path.write_text(json.dumps(record))


def test_victim_has_a_condition_with_ratio_cause_and_neighbours(slowed: MonitoredHost) -> None:
    culprits(slowed, KEYS[1])
    (found,) = of(slowed)
    assert (found.pod, found.reason, found.cause) == (Pod("shop", "cart", KEYS[0]), SLOWED, "memory-bandwidth")
    assert found.note == (
        "work takes 1.6 times as long as in quiet times; memory-bandwidth: batch 100% "
        "(`kubectl resctrl diagnose shop/cart`)"
    )


def test_names_of_pods_of_other_namespaces_are_not_disclosed(slowed: MonitoredHost) -> None:
    record = slowed.context.ledger.read_pod(KEYS[1])
    assert record is not None
    slowed.context.ledger.write_pod(KEYS[1], {**record, "namespace": "rival"})
    culprits(slowed, KEYS[1], KEYS[2])
    (found,) = of(slowed)
    assert "quiet 50%, pods of other namespaces 50%" in found.note
    assert "batch" not in found.note
    assert "rival" not in found.note
    culprits(slowed)
    assert of(slowed) == [], "a cause without other pods is not a neighbour's"


def test_pod_that_waits_has_a_condition_until_it_has_a_group(slowed: MonitoredHost) -> None:
    Path(slowed.context.settings.state_dir, SLOWDOWN_STATUS).unlink()
    key = "7c0a3b52-1111-4222-8333-944455566677"
    slowed.context.ledger.mark("waiting", key)
    assert of(slowed) == [], "a pod without a name"
    record = slowed.context.ledger.read_pod(KEYS[2])
    assert record is not None
    slowed.context.ledger.write_pod(key, {**record, "pod": "late", "groups": {}})
    (found,) = of(slowed)
    assert (found.pod, found.reason, found.cause) == (Pod("shop", "late", key), NO_RMID, "")
    assert "no RMID is free" in found.note
    slowed.context.ledger.mark("waiting", KEYS[0])
    assert len(of(slowed)) == 1, "a pod with a group"


def test_event_stays_within_the_limits_of_the_api_and_has_the_uid_of_a_static_pod() -> None:
    pod = Pod("n" * 63, f"{'p' * 236}-{'q' * 16}", KEYS[0])
    event = event_of(Condition(pod, SLOWED, "l3-cache", "Diagnosed", "ä" * 2000), "i" * 300, 1.7e9)
    name = event["metadata"]["name"]
    assert len(name) <= 253
    assert "-." not in name
    assert (len(event["note"].encode()), len(event["reportingInstance"])) == (1024, 128)
    static = "0f0ac7f2-8a3b-7f0e-9a55-1d9d3b7e6c01"  # the kubelet's hash, which is no random UUID
    assert (uid_of(UID), uid_of(static)) == (UID, static.replace("-", ""))


@pytest.fixture
def three_passes(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """Let the command make three passes against the fake server, until the signal that ends the process."""
    monkeypatch.setattr(events, "api_of_pod", lambda: api.api)
    monkeypatch.setattr(events, "ended_by_signals", lambda: Mock(wait=Mock(side_effect=[False, False, True])))
    return api


def test_command_sends_them_while_enabled(host: Host, three_passes: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(host, "events")
    assert (done.exit_code, three_passes.asked) == (0, [])
    assert done.stderr == "resctrl-hook: events: `events` is not set in the configuration; nothing is sent\n"
    host.configure(events=True)
    found = [[condition()], LedgerError("the records are unreadable"), [condition(), condition("web")]]
    monkeypatch.setattr(events, "conditions", Mock(side_effect=found))
    monkeypatch.setattr(events, "ended_by_signals", lambda: Mock(wait=Mock(side_effect=[False, False, True])))
    done = run(host, "events")
    assert done.exit_code == 0, done.output
    assert three_passes.counts() == {"cart SlowedByNeighbour": 1, "web SlowedByNeighbour": 1}
    (line,) = done.stderr.splitlines()
    assert line.startswith("resctrl-hook: events: the records are unreadable")


def test_command_outside_a_pod_names_the_daemonset(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    done = run(host, "events")
    assert done.exit_code == 1
    assert "the DaemonSet resctrl-hooks-events runs this command" in done.stderr
