"""Pods with performance counters: their turns, and what each refusal leads to."""

import errno
import os
from pathlib import Path

import pytest

from resctrl_hooks.node.slowdown import perf, watched
from resctrl_hooks.node.slowdown.perf import PerfCount, PerfError, PodGoneError, TooManyError
from resctrl_hooks.node.slowdown.units import CpuTime
from resctrl_hooks.node.slowdown.watched import Candidate, Watched, chosen, turn_of


class Counters:
    """Stands in for the kernel's events."""

    refusals: list[PerfError]
    tried: list[str]
    descriptors = 8

    def __init__(self, cgroups: list[str], sys_path: str) -> None:
        self.tried.append(cgroups[0])
        if self.refusals:
            raise self.refusals.pop(0)
        self.closed = False
        self.broken = False

    def read(self) -> PerfCount:
        if self.broken:
            raise PerfError("a CPU went offline")
        return PerfCount(2, 1, CpuTime(1.0), CpuTime(1.0))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    Counters.refusals, Counters.tried = [], []
    monkeypatch.setattr(watched, "PerfCounters", Counters)
    return []


def make(lines: list[str], *, enabled: bool = True) -> Watched:
    return Watched("/sys", lambda key: [key], lambda _, text: lines.append(text), enabled=enabled)


def test_each_pod_has_one_turn_a_minute_and_the_number_is_bounded() -> None:
    keys = [f"pod{number}" for number in range(50)]
    found = [turn_of(keys, 36, number) for number in range(6)]
    assert sorted(key for slot in found for key in slot) == sorted(keys[:36])
    assert {len(slot) for slot in found} == {6}


def test_few_pods_are_watched_in_every_window() -> None:
    assert [turn_of(["a", "b"], 32, number) for number in range(3)] == [["a", "b"]] * 3
    twelve = [str(number) for number in range(12)]
    assert sorted(turn_of(twelve, 32, 4) + turn_of(twelve, 32, 5)) == sorted(twelve)
    assert turn_of([], 32, 1) == turn_of(["a"], 0, 1) == []


def test_node_without_counters_is_asked_once(lines: list[str]) -> None:
    Counters.refusals = [PerfError("the processor has no performance counters", errno=errno.ENOENT)]
    pods = make(lines)
    for _ in range(10):
        pods.turn(["a", "b"])
    assert Counters.tried == ["a"]
    assert len(lines) == 1
    assert "compared by memory traffic" in lines[0]
    assert pods.read("a") == (None, None)


def test_missing_permission_ends_all_tries_with_one_line(lines: list[str]) -> None:
    Counters.refusals = [PerfError("needs root or CAP_PERFMON", errno=errno.EACCES)]
    pods = make(lines)
    pods.turn(["a", "b"])
    pods.turn(["b"])
    assert (Counters.tried, len(lines)) == (["a"], 1)


def test_pods_that_exceed_the_descriptors_are_not_watched_and_give_one_line(lines: list[str]) -> None:
    pods = make(lines)
    pods.turn(["a"])
    for _ in range(3):
        Counters.refusals = [TooManyError("8 events are needed", errno=errno.EMFILE)] * 2
        pods.turn(["a", "b", "c"])
    assert [key for key in "abc" if key in pods] == ["a"]
    assert len(lines) == 1
    assert "pod b is not watched" in lines[0]


def test_pod_with_too_many_containers_leaves_the_turn_to_the_next(lines: list[str]) -> None:
    Counters.refusals = [TooManyError("8000 events are needed, and this process may open 512")]
    pods = make(lines)
    pods.turn(["many", "b", "c"])
    assert [key for key in ("many", "b", "c") if key in pods] == ["b", "c"]


@pytest.mark.parametrize(
    "error",
    [
        PodGoneError("cannot open cgroup /a", errno=errno.ENOENT),
        *(PerfError("perf_event_open", errno=number) for number in (errno.ENOMEM, errno.EINTR, errno.EBUSY, errno.EIO)),
    ],
    ids=lambda error: errno.errorcode[error.errno],
)
def test_ended_pod_or_error_of_one_moment_leaves_counters_on(lines: list[str], error: PerfError) -> None:
    Counters.refusals = [error]
    pods = make(lines)
    pods.turn(["a", "b"])
    assert "b" in pods
    assert (pods.why_not, len(lines)) == ("", 1)
    pods.turn(["a"])
    assert "a" in pods


@pytest.mark.parametrize("again", [False, True])
def test_cgroup_removed_between_two_events_leaves_counters_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, again: bool
) -> None:
    ended, calls = tmp_path / "ended", []
    ended.mkdir()
    (tmp_path / "gold").mkdir()

    def event(config: int, cgroup: int, cpu: int, leader: int) -> int:
        calls.append(cgroup)
        if len(calls) == 2:
            ended.rmdir()
            if again:
                ended.mkdir()
            raise PerfError("the processor has no performance counters", errno=errno.ENOENT)
        return os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(perf, "_perf_event_open", event)
    pods = Watched("/sys", lambda key: [str(tmp_path / key)], lambda *_: None)
    pods.turn(["ended", "gold"])
    assert pods.why_not == ""
    assert "ended" not in pods
    assert "gold" in pods
    pods.close()


def test_lost_events_are_opened_again_at_the_next_turn(lines: list[str]) -> None:
    pods = make(lines)
    pods.turn(["a"])
    _, counters = pods.read("a")
    assert isinstance(counters, Counters)
    counters.broken = True
    assert pods.read("a") == (None, None)
    assert counters.closed
    pods.turn(["a"])
    assert pods.read("a")[0] == PerfCount(2, 1, CpuTime(1.0), CpuTime(1.0))


def test_turned_off_counters_are_never_opened(lines: list[str], tmp_path: Path) -> None:
    pods = make(lines, enabled=False)
    pods.turn(["a"])
    assert (Counters.tried, lines) == ([], [])


def test_protected_then_slowed_then_busy_pods_are_chosen_or_the_configured_ones() -> None:
    pods = [
        Candidate("busy", "shop/busy", ("bronze",), slowed=False, cpu=9.0),
        Candidate("slow", "shop/slow", ("bronze",), slowed=True, cpu=1.0),
        Candidate("gold", "shop/gold", ("gold",), slowed=False, cpu=0.1),
        Candidate("rest", "test/rest", ("bronze",), slowed=False, cpu=0.1),
    ]
    assert chosen(pods, [], ["gold"], 3) == ["gold", "slow", "busy"]
    assert chosen(pods, ["test/*", "shop/b*"], ["gold"], 3) == ["busy", "rest"]
