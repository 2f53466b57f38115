"""Performance counters of cgroups: which are opened, how they are summed, and what a refusal says."""

import ctypes
import errno
import os
import resource
import struct
from pathlib import Path

import pytest
from hosts.counter_tree import say

from resctrl_hooks.core.node.host.descriptors import Descriptors
from resctrl_hooks.core.node.resctrl.counters import slot_at
from resctrl_hooks.core.node.resctrl.open_files import OpenFiles
from resctrl_hooks.observe.node.slowdown import perf
from resctrl_hooks.observe.node.slowdown.perf import PerfCount, PerfCounters, PerfError, TooManyError
from resctrl_hooks.observe.node.slowdown.units import CpuTime


@pytest.fixture
def sys_path(tmp_path: Path) -> str:
    folder = tmp_path / "sys/devices/system/cpu"
    folder.mkdir(parents=True)
    (folder / "online").write_text("0-1,4\n")
    return str(tmp_path / "sys")


def test_a_group_of_events_for_each_cpu_and_cgroup_is_summed(
    sys_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[int, int, bool]] = []

    def event(config: int, cgroup: int, cpu: int, leader: int) -> int:
        assert os.path.isdir(f"/proc/self/fd/{cgroup}")
        if config == 9:
            raise PerfError("no reference cycles", errno=errno.EINVAL)
        opened.append((config, cpu, leader == -1))
        reader, writer = os.pipe()
        os.write(writer, struct.pack("<QQQQQQ", 3, 2_000_000_000, 1_500_000_000, 300, 100, 7))
        os.close(writer)
        return reader

    monkeypatch.setattr(perf, "_perf_event_open", event)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    before = set(os.listdir("/proc/self/fd"))
    counters = PerfCounters([str(tmp_path / "one"), str(tmp_path / "other")], sys_path)
    assert opened == [(config, cpu, config == 0) for cpu in (0, 1, 4) for config in (0, 1, 3)] * 2
    assert counters.read() == PerfCount(1800, 600, CpuTime(12.0), CpuTime(9.0), None, 42)
    assert counters.descriptors == 18
    counters.close()
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    "number, said",
    [
        (errno.ENOENT, "no performance counters here"),
        (errno.EACCES, "CAP_PERFMON"),
        (errno.EMFILE, "LimitNOFILE"),
        (errno.EBADF, "Bad file descriptor"),
    ],
)
def test_refusal_says_what_is_missing_and_leaves_nothing_open(
    sys_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    class Library:
        def __init__(self, *_: object, **__: object) -> None:
            self.calls = 0

        def syscall(self, *_: object) -> int:
            self.calls += 1
            return os.open("/dev/null", os.O_RDONLY) if self.calls < 3 else -1

    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: library)
    monkeypatch.setattr(ctypes, "get_errno", lambda: number)
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(PerfError, match=said) as raised:
        PerfCounters([str(tmp_path)], sys_path)
    assert raised.value.errno == number
    assert set(os.listdir("/proc/self/fd")) == before


def test_this_kernel_refuses_a_folder_that_is_no_cgroup(sys_path: str, tmp_path: Path) -> None:
    with pytest.raises(PerfError, match="perf_event_open"):
        PerfCounters([str(tmp_path)], sys_path)


def test_events_that_do_not_fit_into_the_budget_are_refused(
    sys_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (15, 15))
    budget = Descriptors(reserve=10)
    with pytest.raises(TooManyError, match=r"6 events are needed, and this process can open 5 more \(LimitNOFILE\)"):
        PerfCounters([str(tmp_path)], sys_path, budget)
    assert budget.held == 0


@pytest.mark.parametrize("room, events", [(12, [0, 1, 9, 3]), (11, [0, 1])])
def test_events_take_from_the_budget_and_return_all(
    sys_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, events: list[int]
) -> None:
    asked: list[int] = []

    def event(config: int, *_: int) -> int:
        asked.append(config)
        return os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(perf, "_perf_event_open", event)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (room, room))
    budget = Descriptors(reserve=0)
    counters = PerfCounters([str(tmp_path)], sys_path, budget)
    assert asked == events * 3
    assert budget.held == counters.descriptors == len(events) * 3
    counters.close()
    assert budget.held == 0


def test_refusal_of_the_kernel_lets_files_give_way_for_the_next_try(
    sys_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(tmp_path / "group", mbm_total_bytes=1)
    budget = Descriptors()
    files = OpenFiles(budget)
    files.read_group(str(tmp_path / "group"), [slot_at("mon_L3_00/mbm_total_bytes")])

    def refuse(*_: int) -> int:
        raise TooManyError("perf_event_open", errno=errno.EMFILE)

    monkeypatch.setattr(perf, "_perf_event_open", refuse)
    with pytest.raises(TooManyError):
        PerfCounters([str(tmp_path)], sys_path, budget)
    assert (files.held, budget.held) == (0, 0)


def test_unknown_and_vanished_cgroups_are_reported(sys_path: str, tmp_path: Path) -> None:
    with pytest.raises(PerfError, match="cgroup is unknown"):
        PerfCounters([], sys_path)
    with pytest.raises(PerfError, match="cannot open cgroup"):
        PerfCounters([str(tmp_path / "gone")], sys_path)
