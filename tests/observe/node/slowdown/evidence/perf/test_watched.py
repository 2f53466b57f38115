"""Pods with performance counters: their turns, and what each refusal leads to."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from hosts.descriptors import nothing_left_open

from resctrl_hooks.observe.node.slowdown.evidence.perf import counters as perf
from resctrl_hooks.observe.node.slowdown.evidence.perf import node_fact, watched
from resctrl_hooks.observe.node.slowdown.evidence.perf.counters import PerfCount, PerfError, PodGoneError, TooManyError
from resctrl_hooks.observe.node.slowdown.evidence.perf.watched import Candidate, Watched, chosen, turn_of
from resctrl_hooks.observe.node.slowdown.units import CpuTime


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


def test_each_pod_has_one_turn_a_minute_and_few_are_watched_in_every_window() -> None:
    keys = [f"pod{number}" for number in range(50)]
    found = [turn_of(keys, 36, number) for number in range(6)]
    assert sorted(key for slot in found for key in slot) == sorted(keys[:36])
    assert {len(slot) for slot in found} == {6}
    assert [turn_of(["a", "b"], 32, number) for number in range(3)] == [["a", "b"]] * 3
    assert sorted(turn_of(keys[:12], 32, 4) + turn_of(keys[:12], 32, 5)) == sorted(keys[:12])
    assert turn_of([], 32, 1) == turn_of(["a"], 0, 1) == []


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.ENODEV])
def test_refusing_node_is_asked_again_after_an_hour(
    lines: list[str], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    seconds = [0.0]
    monkeypatch.setattr(node_fact, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    refusal = PerfError("the processor has no performance counters", errno=number)
    Counters.refusals = [refusal] * 3
    pods = make(lines)
    for _ in range(10):
        pods.turn(["a", "b", "c", "d"])
    assert Counters.tried == ["a", "b", "c"]
    assert pods.why_not == str(refusal)
    assert [line.partition("; ")[2] for line in lines] == [
        "others are tried",
        "all pods are compared by memory traffic for an hour",
    ]
    assert pods.read("a") == (None, None)
    seconds[0] = 3600.0
    pods.turn(["a", "b", "c", "d"])
    assert (pods.why_not, len(lines)) == ("", 2)
    assert all(key in pods for key in "abcd")


class Kernel:
    """Events of three CPUs, some of which refuse some events."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: dict[tuple[int, int], int]) -> None:
        self.refused = refused
        online = tmp_path / "sys/devices/system/cpu/online"
        online.parent.mkdir(parents=True)
        online.write_text("0-2\n")
        monkeypatch.setattr(perf, "_perf_event_open", self.event)
        self.said: list[str] = []
        for key in "abcd":
            (tmp_path / key).mkdir()
        self.pods = Watched(
            str(tmp_path / "sys"), lambda key: [str(tmp_path / key)], lambda _, text: self.said.append(text)
        )

    def event(self, config: int, cgroup: int, cpu: int, leader: int) -> int:
        number = self.refused.get((config, cpu))
        if number is not None:
            raise PerfError("perf_event_open: refused", errno=number)
        return os.open(os.devnull, os.O_RDONLY)


@pytest.mark.parametrize("number", [errno.ENODEV, errno.ENOENT, errno.EOPNOTSUPP])
@pytest.mark.parametrize("cpu", [0, 1, 2])
def test_refusing_cpu_leaves_counters_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpu: int, number: int
) -> None:
    with nothing_left_open():
        kernel = Kernel(tmp_path, monkeypatch, {(0, cpu): number})
        for _ in range(2):
            kernel.pods.turn("abcd")
    assert kernel.pods.why_not == ""
    assert [f"CPU {cpu}: " in line for line in kernel.said] == [True]
    kernel.refused = {(3, 1): errno.ENOENT, (3, 2): errno.ENOENT}
    kernel.said.clear()
    with nothing_left_open():
        kernel.pods.turn("abcd")
        assert all(key in kernel.pods for key in "abcd")
        kernel.pods.close()
    assert kernel.said == []


def test_refusals_of_one_pod_or_two_and_missing_descriptors_say_nothing_about_the_node(lines: list[str]) -> None:
    pods = make(lines)
    pods.turn(["a"])
    for refusal, line in (
        (TooManyError("8 events are needed", errno=errno.EMFILE), "pod b is not watched"),
        (PerfError("refused", errno=errno.ENOENT), "refused"),
    ):
        lines.clear()
        for _ in range(4):
            Counters.refusals = [refusal] * 2
            pods.turn(["a", "b", "c"])
        assert [key for key in "abc" if key in pods] == ["a"]
        assert [line in one for one in lines] == [True]
    pods.turn(["a", "b", "c"])
    assert [key for key in "abc" if key in pods] == ["a", "b", "c"]
    assert pods.why_not == ""


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENOMEM, errno.EINTR, errno.EBUSY, errno.EIO])
def test_ended_pod_or_error_of_one_moment_leaves_counters_on(lines: list[str], number: int) -> None:
    Counters.refusals = [(PodGoneError if number == errno.ENOENT else PerfError)("refused", errno=number)]
    pods = make(lines)
    pods.turn(["a", "b"])
    assert "b" in pods
    assert (pods.why_not, len(lines)) == ("", 1)
    pods.turn(["a"])
    assert "a" in pods


@pytest.mark.parametrize("again", [False, True])
def test_cgroup_removed_meanwhile_leaves_counters_on(
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
    Counters.tried.clear()
    make(lines, enabled=False).turn(["a"])
    assert (Counters.tried, len(lines)) == ([], 1), "counters that are turned off are never opened"


def test_protected_then_slowed_then_busy_pods_are_chosen_or_the_configured_ones() -> None:
    pods = [
        Candidate("busy", "shop/busy", ("bronze",), slowed=False, cpu=9.0),
        Candidate("slow", "shop/slow", ("bronze",), slowed=True, cpu=1.0),
        Candidate("gold", "shop/gold", ("gold",), slowed=False, cpu=0.1),
        Candidate("rest", "test/rest", ("bronze",), slowed=False, cpu=0.1),
    ]
    assert chosen(pods, [], ["gold"], 3) == ["gold", "slow", "busy"]
    assert chosen(pods, ["test/*", "shop/b*"], ["gold"], 3) == ["busy", "rest"]
