"""Windows from two readings, performance counters of cgroups, and the workload of a pod."""

import ctypes
import errno
import json
import os
import resource
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Host, always, not_none
from hosts.counter_tree import say
from hosts.descriptors import nothing_left_open

from observe.node.slowdown.samples import use, window
from observe.slowdown.world import KEY, World
from resctrl_hooks.core.node.host.descriptors import Descriptors
from resctrl_hooks.core.node.resctrl.counters import (
    AVAILABLE,
    ERROR,
    UNASSIGNED,
    UNAVAILABLE,
    WAITING,
    Reading,
    slot_at,
)
from resctrl_hooks.core.node.resctrl.open_files import OpenFiles
from resctrl_hooks.observe.node.slowdown.baseline.store import Store
from resctrl_hooks.observe.node.slowdown.baseline.workload import Workloads, workload_of
from resctrl_hooks.observe.node.slowdown.evidence.alone import CALM_WINDOWS
from resctrl_hooks.observe.node.slowdown.evidence.cgroup_waits import read_cpus, read_waits
from resctrl_hooks.observe.node.slowdown.evidence.cpu.task_delays import Delays
from resctrl_hooks.observe.node.slowdown.evidence.perf import counters as perf_module
from resctrl_hooks.observe.node.slowdown.evidence.perf.counters import PerfCount, PerfCounters, PerfError, TooManyError
from resctrl_hooks.observe.node.slowdown.evidence.reader import counts_of
from resctrl_hooks.observe.node.slowdown.evidence.use import Use
from resctrl_hooks.observe.node.slowdown.evidence.window import Counts, Waits, use_between
from resctrl_hooks.observe.node.slowdown.live import Live
from resctrl_hooks.observe.node.slowdown.units import CpuTime, WallTime

DOMAINS = [(0,), (1,)]
STARTED = object()


def waits(cpu: float, throttled: float, throttles: int, *pressures: float) -> Waits:
    """Return times in seconds, of CPUs and of wall time; the last number counts events of memory."""
    *times, events = pressures
    parts: list[Any] = [CpuTime(cpu), CpuTime(throttled), throttles, *map(WallTime, times), int(events)]
    return Waits(*parts)


def perf(cycles: int, instructions: int, enabled: float, running: float, *more: int) -> PerfCount:
    """Return counts with their times in seconds."""
    return PerfCount(cycles, instructions, CpuTime(enabled), CpuTime(running), *more)


def counts(time: float, **more: object) -> Counts:
    """Return a pod's counters after so many seconds on one CPU, with 1 GB/s to domain 0."""
    values = {
        "traffic": {0: (time * 1e9, time * 1e9), 1: (0.0, 0.0)},
        "occupancy": {0: 4e6},
        "waits": waits(time, 0.2 * time, int(time), 0.3 * time, 0.2 * time, 0.0, 0.0, 0),
    }
    return Counts(**{**values, **more})  # type: ignore[arg-type]


def between(before: Counts, after: Counts) -> Use:
    return use_between(before, after, 10.0, DOMAINS)


def test_multiplexed_counters_are_scaled_and_dropped_below_half() -> None:
    def counted(running: float, part: float) -> Counts:
        count = perf(int(3e9 * part), int(1e9 * part), 10.0, running, int(2e9 * part), int(1e6 * part))
        return counts(10.0, perf=count, started=STARTED)

    start = counts(0.0, perf=perf(0, 0, 0.0, 0.0, 0, 0), started=STARTED)
    whole, shared = between(start, counted(10.0, 1.0)), between(start, counted(6.0, 0.6))
    assert whole.method == "perf"
    assert (whole.price, whole.clock, whole.missed) == pytest.approx((2.0, 1.5, 0.064))
    for name in ("price", "work", "clock", "missed"):
        assert getattr(shared, name) == pytest.approx(getattr(whole, name))
    dropped = between(start, counted(4.9, 0.49))
    assert (dropped.method, dropped.price) == ("perf", None)


def test_resctrls_events_are_the_best_grade_and_counters_that_were_opened_again_have_no_difference() -> None:
    before = counts(0.0, cycles=0.0, operations=0.0, references=0.0, perf=perf(0, 0, 0.0, 0.0), started=STARTED)
    after = counts(10.0, cycles=4e10, operations=1e10, references=2e10, perf=perf(9, 3, 1.0, 1.0), started=STARTED)
    use = between(before, after)
    assert use.method == "aet"
    assert (use.price, use.clock) == pytest.approx((2.0, 2.0))
    one = counts(0.0, perf=perf(900, 300, 1.0, 1.0), started=object())
    other = counts(10.0, perf=perf(30, 10, 1.0, 1.0), started=object())
    assert between(one, other).method == "traffic"


@pytest.mark.parametrize(
    "traffic, expected",
    [
        ({0: (10e9, 10e9), 1: (0.0, 0.0)}, {0: 1e9, 1: 0.0}),
        ({0: (10e9, 4e9), 1: (0.0, 0.0)}, {0: 0.4e9, 1: 0.6e9}),  # remote traffic belongs to the other memory
        ({0: (-1.0, 0.0), 1: (0.0, 0.0)}, None),
        ({0: (None, None), 1: (0.0, 0.0)}, None),
        ({1: (0.0, 0.0)}, None),
        ({}, None),
    ],
)
def test_fallen_or_missing_counter_is_unknown_and_an_idle_pod_has_no_cost(
    traffic: dict[int, tuple[float | None, float | None]], expected: dict[int, float] | None
) -> None:
    use = between(counts(0.0), counts(10.0, traffic=traffic))
    assert use.traffic == (expected and pytest.approx(expected))
    assert (use.method, use.price) == ("traffic", pytest.approx(1.0) if expected else None)
    assert (use.cpu, use.throttled, use.waited, use.stood, use.throttles) == pytest.approx((1.0, 0.2, 0.3, 0.2, 10))
    idle = between(counts(0.0), counts(10.0, traffic=traffic, waits=Waits(CpuTime(0.1))))
    assert (idle.price, idle.traffic) == (None, use.traffic)


def test_waits_of_several_cgroups_are_their_sums_and_their_largest_pressure(tmp_path: Path) -> None:
    for name, scale in (("one", 1), ("other", 3)):
        files = {
            "cpu.stat": f"usage_usec {scale}000000\nnr_throttled {scale}\nthrottled_usec 500000\n",
            "cpu.pressure": f"some avg10=0.00 total={scale}000000\nfull avg10=0.00 total=250000\n",
            "memory.pressure": f"some avg10=0.00 total=750000\nfull avg10=0.00 total={scale}000000\n",
            "memory.events": "low 5\nhigh 1\nmax 2\n",
            "cpuset.cpus.effective": f"{scale}\n",
        }
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(text)
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    assert read_waits([one]) == waits(1.0, 0.5, 1, 1.0, 0.25, 0.75, 1.0, 3)
    assert read_waits([one, other]) == waits(4.0, 1.0, 4, 3.0, 0.25, 0.75, 3.0, 6)
    assert (read_cpus([one, other]), read_cpus([])) == (0b1010, 0)
    (tmp_path / "other/memory.pressure").unlink()
    assert (read_waits([one, other]) or Waits()).reclaimed == WallTime(0.75)
    (tmp_path / "other/cpu.stat").unlink()
    assert read_waits([one, other]) is None


SLOT = slot_at("mon_L3_00/mbm_total_bytes")


@pytest.mark.parametrize(
    "states, expected",
    [
        *(([state], 7) for state in (AVAILABLE, WAITING, UNASSIGNED)),
        *(([state], None) for state in (ERROR, UNAVAILABLE)),
        ([AVAILABLE, AVAILABLE], 14),
        ([AVAILABLE, ERROR], None),
        ([ERROR, AVAILABLE], None),
    ],
)
def test_traffic_is_unknown_while_a_counter_has_no_value(states: list[str], expected: int | None) -> None:
    """A total that stays would be an idle pod now, and the traffic of two windows in the next one."""
    readings = [Reading(SLOT.domain, SLOT.counter, 7, state, rdt_class) for rdt_class, state in enumerate(states)]  # type: ignore[arg-type]  # any names
    assert counts_of(readings, [], None).traffic == {0: (expected, None)}


@pytest.fixture
def sys_path(tmp_path: Path) -> str:
    folder = tmp_path / "sys/devices/system/cpu"
    folder.mkdir(parents=True)
    (folder / "online").write_text("0-1,4\n")
    return str(tmp_path / "sys")


def test_events_of_each_cpu_and_cgroup_are_summed(
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

    monkeypatch.setattr(perf_module, "_perf_event_open", event)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    with nothing_left_open():
        counters = PerfCounters([str(tmp_path / "one"), str(tmp_path / "other")], sys_path)
        assert opened == [(config, cpu, config == 0) for cpu in (0, 1, 4) for config in (0, 1, 3)] * 2
        assert counters.read() == PerfCount(1800, 600, CpuTime(12.0), CpuTime(9.0), None, 42)
        assert counters.descriptors == 18
        counters.close()


SAID = {errno.ENOENT: "no performance counters here", errno.EACCES: "CAP_PERFMON", errno.EMFILE: "LimitNOFILE"}


@pytest.mark.parametrize("number", [*SAID, errno.EBADF])
def test_refusal_says_what_is_missing(
    sys_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    calls: list[object] = []

    def syscall(*given: object) -> int:
        calls.append(given)
        return os.open("/dev/null", os.O_RDONLY) if len(calls) < 3 else -1

    with nothing_left_open(), monkeypatch.context() as patch:
        patch.setattr(ctypes, "CDLL", always(SimpleNamespace(syscall=syscall)))
        patch.setattr(ctypes, "get_errno", always(number))
        with pytest.raises(PerfError, match=SAID.get(number, "Bad file descriptor")) as raised:
            PerfCounters([str(tmp_path)], sys_path)
        assert raised.value.errno == number
    paths = {"perf_event_open": [str(tmp_path)], "cgroup is unknown": [], "cannot open cgroup": [f"{tmp_path}/gone"]}
    for text, cgroups in paths.items():
        with pytest.raises(PerfError, match=text):
            PerfCounters(cgroups, sys_path)


@pytest.mark.parametrize("room, events", [(12, [0, 1, 9, 3]), (11, [0, 1]), (5, [])])
def test_events_take_from_the_budget(
    sys_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, events: list[int]
) -> None:
    asked: list[int] = []

    def event(config: int, *_: int) -> int:
        asked.append(config)
        return os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(perf_module, "_perf_event_open", event)
    monkeypatch.setattr(resource, "getrlimit", always((room, room)))
    budget = Descriptors(reserve=0)
    if events:
        counters = PerfCounters([str(tmp_path)], sys_path, budget)
        assert budget.held == counters.descriptors == len(events) * 3
        counters.close()
    else:
        with pytest.raises(TooManyError, match=r"6 events are needed, and this process can open 5 more \(LimitNOFILE"):
            PerfCounters([str(tmp_path)], sys_path, budget)
    assert (asked, budget.held) == (events * 3, 0)


def test_refusal_of_the_kernel_lets_files_give_way(
    sys_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(tmp_path / "group", mbm_total_bytes=1)
    budget = Descriptors()
    files = OpenFiles(budget)
    files.read_group(str(tmp_path / "group"), [slot_at("mon_L3_00/mbm_total_bytes")])

    def refuse(*_: int) -> int:
        raise TooManyError("perf_event_open", errno=errno.EMFILE)

    monkeypatch.setattr(perf_module, "_perf_event_open", refuse)
    with pytest.raises(TooManyError):
        PerfCounters([str(tmp_path)], sys_path, budget)
    assert (files.held, budget.held) == (0, 0)


INIT, APP, SIDECAR = ("init", "image-init"), ("app", "image-1"), ("sidecar", "image-2")


class Pod:
    """A pod whose containers are recorded one by one."""

    def __init__(self, host: Host) -> None:
        self.world = World(host)
        self.context = self.world.context
        self.workloads = Workloads(self.context)
        self._bundles = Path(host.root, "bundles")

    def bundle(self, id_: str) -> Path:
        return self._bundles / id_ / "config.json"

    def start(self, id_: str, container: tuple[str, str]) -> None:
        path = self.bundle(id_)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"annotations": {"io.kubernetes.cri.image-name": container[1]}}))
        member = {"boot": self.context.monitor.boot, "container": container[0], "bundle": str(path.parent)}
        self.context.ledger.write_member(KEY, id_, member)  # type: ignore[arg-type]  # fields that no test needs

    def stop(self, id_: str) -> None:
        self.context.ledger.remove_member(KEY, id_)

    def at(self, time: float) -> tuple[Any, Any]:
        """Return the workload at a time, and since when it is this one."""
        self.workloads.update([KEY], time)
        return self.workloads.of(KEY), self.workloads.since(KEY)


@pytest.fixture
def pod(host: Host) -> Pod:
    return Pod(host)


def test_workload_follows_the_containers_that_the_pod_has_and_stays_while_one_is_restarted(pod: Pod) -> None:
    pod.start("a", INIT)
    assert pod.at(10.0) == (workload_of("shop", "cart", [INIT]), 10.0)
    pod.stop("a")
    pod.start("b", APP)
    pod.start("c", SIDECAR)
    assert pod.at(20.0) == (workload_of("shop", "cart", [APP, SIDECAR]), 20.0)
    pod.stop("b")
    pod.start("d", APP)
    assert pod.at(30.0) == (workload_of("shop", "cart", [APP, SIDECAR]), 20.0)


def test_unreadable_image_is_no_other_workload(pod: Pod) -> None:
    pod.start("a", APP)
    text = pod.bundle("a").read_text()
    pod.bundle("a").write_text("{")
    assert pod.at(10.0)[0] is None
    pod.bundle("a").write_text(text)
    assert pod.at(20.0)[0] == workload_of("shop", "cart", [APP])


def test_baseline_is_that_of_present_containers_and_learns_memory_needs_after_calm_windows(
    pod: Pod, tmp_path: Path
) -> None:
    store = Store(str(tmp_path / "store"))
    live = Live(pod.context, store, lambda _, text: pytest.fail(text), perf=False)
    pod.start("a", INIT)
    live.step([])
    pod.stop("a")
    pod.start("b", APP)
    live.step([])
    pod.world.sleep(10)
    live.step([])
    assert live.workloads.of(KEY) == workload_of("shop", "cart", [APP])
    assert store.find(workload_of("shop", "cart", [INIT])) is None
    calm, short = use(user=0.5, cpu=0.6), use(user=0.1, cpu=0.5, reclaimed=0.3)
    looks_calm = use(user=0.1, cpu=0.9)
    for number, one in enumerate([*[calm] * 3, short, *[looks_calm] * (CALM_WINDOWS - 1), calm, calm]):
        live._learn(window(number + 10**8, 0.1, **{KEY: one}))
    baseline = not_none(store.find(workload_of("shop", "cart", [APP])))
    assert baseline.alone.by_user == pytest.approx(1.2)


def test_limit_of_a_container_is_its_pods_and_delays_replace_unknown_pressure() -> None:
    before = Counts(waits=Waits(CpuTime(0.0), CpuTime(0.0), 0), delays=Delays({1: (0.0, 0.0)}, 1, 3))
    after = Counts(waits=Waits(CpuTime(4.0), CpuTime(0.0), 0), delays=Delays({1: (4.0, 6.0)}, 1, 3, 5.0, 50))
    found = use_between(before, after, 10.0, DOMAINS)
    assert found.lost == pytest.approx((0.4, 0.1, 0.5))
    assert (found.throttles, found.cpus) == (50, 3)
    limited = Counts(waits=Waits(CpuTime(4.0), CpuTime(5.0), 50))
    assert use_between(before._replace(delays=None), limited, 10.0, DOMAINS).lost == pytest.approx((0.4, 0.0, 0.5))
