"""Windows from two readings: the grade of each pod, its scaled counts, and what is dropped."""

from pathlib import Path

import pytest

from resctrl_hooks.core.node.resctrl.counters import (
    AVAILABLE,
    ERROR,
    UNASSIGNED,
    UNAVAILABLE,
    WAITING,
    Reading,
    slot_at,
)
from resctrl_hooks.observe.node.slowdown.cgroup_waits import read_cpus, read_waits
from resctrl_hooks.observe.node.slowdown.perf import PerfCount
from resctrl_hooks.observe.node.slowdown.reader import counts_of
from resctrl_hooks.observe.node.slowdown.units import CpuTime, WallTime
from resctrl_hooks.observe.node.slowdown.use import Use
from resctrl_hooks.observe.node.slowdown.window import Counts, Waits, use_between

DOMAINS = [(0,), (1,)]
STARTED = object()


def waits(cpu: float, throttled: float, throttles: int, *pressures: float) -> Waits:
    """Return times in seconds, of CPUs and of wall time; the last number counts events of memory."""
    some, full, memory, fully, events = pressures
    return Waits(
        CpuTime(cpu),
        CpuTime(throttled),
        throttles,
        WallTime(some),
        WallTime(full),
        WallTime(memory),
        WallTime(fully),
        int(events),
    )


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


def test_traffic_grade_needs_two_files_and_the_groups_counter() -> None:
    use = between(counts(0.0), counts(10.0))
    assert use.method == "traffic"
    assert use.price == pytest.approx(1.0)
    assert use.traffic == pytest.approx({0: 1e9, 1: 0.0})
    assert (use.cpu, use.throttled, use.waited, use.stood, use.throttles) == pytest.approx((1.0, 0.2, 0.3, 0.2, 10))


def test_multiplexed_counters_are_scaled_and_dropped_below_half() -> None:
    def counted(running: float, part: float) -> Counts:
        count = perf(int(3e9 * part), int(1e9 * part), 10.0, running, int(2e9 * part), int(1e6 * part))
        return counts(10.0, perf=count, started=STARTED)

    start = counts(0.0, perf=perf(0, 0, 0.0, 0.0, 0, 0), started=STARTED)
    whole, shared = between(start, counted(10.0, 1.0)), between(start, counted(6.0, 0.6))
    assert whole.method == "perf"
    assert (whole.price, whole.clock, whole.missed) == pytest.approx((2.0, 1.5, 0.064))
    assert (shared.price, shared.work, shared.clock, shared.missed) == pytest.approx(
        (whole.price, whole.work, whole.clock, whole.missed)
    )
    dropped = between(start, counted(4.9, 0.49))
    assert (dropped.method, dropped.price) == ("perf", None)


def test_counters_that_were_opened_again_have_no_difference() -> None:
    one = counts(0.0, perf=perf(900, 300, 1.0, 1.0), started=object())
    other = counts(10.0, perf=perf(30, 10, 1.0, 1.0), started=object())
    assert between(one, other).method == "traffic"


def test_resctrls_events_are_the_best_grade() -> None:
    before = counts(0.0, cycles=0.0, operations=0.0, references=0.0, perf=perf(0, 0, 0.0, 0.0), started=STARTED)
    after = counts(10.0, cycles=4e10, operations=1e10, references=2e10, perf=perf(9, 3, 1.0, 1.0), started=STARTED)
    use = between(before, after)
    assert use.method == "aet"
    assert (use.price, use.clock) == pytest.approx((2.0, 2.0))


def test_idle_pod_has_traffic_but_no_cost() -> None:
    use = between(counts(0.0), counts(10.0, waits=Waits(CpuTime(0.1))))
    assert use.price is None
    assert use.traffic is not None


def test_fallen_or_missing_counter_is_unknown_and_not_zero() -> None:
    for traffic in ({0: (-1.0, 0.0), 1: (0.0, 0.0)}, {0: (None, None), 1: (0.0, 0.0)}, {1: (0.0, 0.0)}, {}):
        use = between(counts(0.0), counts(10.0, traffic=traffic))
        assert (use.traffic, use.price) == (None, None)


def test_remote_traffic_belongs_to_the_other_memory() -> None:
    use = between(counts(0.0), counts(10.0, traffic={0: (10e9, 4e9), 1: (0.0, 0.0)}))
    assert use.traffic == pytest.approx({0: 0.4e9, 1: 0.6e9})


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
        ([AVAILABLE], 7),
        ([WAITING], 7),
        ([UNASSIGNED], 7),
        ([ERROR], None),
        ([UNAVAILABLE], None),
        ([AVAILABLE, AVAILABLE], 14),
        ([AVAILABLE, ERROR], None),
        ([ERROR, AVAILABLE], None),
    ],
)
def test_traffic_is_unknown_while_a_counter_has_no_value(states: list[str], expected: int | None) -> None:
    """A total that stays would be an idle pod now, and the traffic of two windows in the next one."""
    readings = [Reading(SLOT.domain, SLOT.counter, 7, state, rdt_class) for rdt_class, state in enumerate(states)]  # type: ignore[arg-type]  # any names
    assert counts_of(readings, [], None).traffic == {0: (expected, None)}
