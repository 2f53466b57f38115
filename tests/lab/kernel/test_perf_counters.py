"""Performance counters of cgroups as the real kernel counts them, and its answers where it cannot."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.cgroups import CGROUPS
from kernel.runtimes import wait_until
from resctrl_hooks.observe.node.slowdown.perf import PerfCount, PerfCounters, PerfError, PodGoneError

HOUSES = ("observe",)
ROUNDS = 20_000
WORK = f"echo $$ > $0/cgroup.procs; i=0; while [ $i -lt {ROUNDS} ]; do i=$((i+1)); done"
"""Work of a process that first enters the cgroup which is its argument."""

PMU = pytest.mark.guest(pmu=1)


def work_in(folder: Path) -> None:
    subprocess.run(["/bin/sh", "-c", WORK, folder], check=True)


def at_rest(counters: PerfCounters) -> PerfCount:
    """Return the counts when they stand still: the kernel still ends a process after waitpid has returned."""
    seen: list[PerfCount] = []

    def stands_still() -> bool:
        seen.append(counters.read())
        return len(seen) > 1 and seen[-1][:2] == seen[-2][:2]

    wait_until(stands_still, "the counts stand still")
    return seen[-1]


@pytest.fixture
def pod() -> Iterator[Path]:
    """Return a pod's cgroup with a container's cgroup below it."""
    folder, container = CGROUPS / "perf-pod", CGROUPS / "perf-pod/container"
    container.mkdir(parents=True)
    yield folder
    for path in (container, folder):
        if path.exists():
            path.rmdir()


@PMU
def test_work_below_a_cgroup_is_counted_and_work_beside_it_is_not(pod: Path) -> None:
    beside = CGROUPS / "perf-beside"
    beside.mkdir()
    own, other = PerfCounters([str(pod)]), PerfCounters([str(beside)])
    try:
        work_in(pod / "container")
        count = at_rest(own)
        assert count.instructions > ROUNDS
        assert count.cycles > 0
        assert 0 < float(count.running) <= float(count.enabled)
        assert (other.read().cycles, other.read().instructions) == (0, 0)
        work_in(beside)
        assert other.read().instructions > ROUNDS
        assert own.read()[:2] == count[:2]
    finally:
        own.close()
        other.close()
        beside.rmdir()


@PMU
def test_counters_that_share_the_processor_say_that_they_run_for_a_part_of_the_time(pod: Path) -> None:
    rivals = [PerfCounters([str(pod)]) for _ in range(4)]
    try:
        for _ in range(3):
            work_in(pod / "container")
        counts = [one.read() for one in rivals]
        assert any(one.running < one.enabled for one in counts), counts
        assert sum(one.instructions for one in counts) > ROUNDS
    finally:
        for one in rivals:
            one.close()


@PMU
def test_counts_survive_the_end_of_the_pod_and_a_new_opening_names_it(pod: Path) -> None:
    counters = PerfCounters([str(pod)])
    try:
        work_in(pod / "container")
        before = at_rest(counters)
        (pod / "container").rmdir()
        pod.rmdir()
        assert counters.read()[:2] == before[:2]
        with pytest.raises(PodGoneError, match="perf-pod"):
            PerfCounters([str(pod)])
    finally:
        counters.close()


def test_a_processor_without_counters_is_named_as_the_reason(pod: Path) -> None:
    with pytest.raises(PerfError, match="no performance counters here"):
        PerfCounters([str(pod)])
