"""Times of one CPU, of all CPUs and of the clock: what a limit and what neighbours took, and sums that mypy refuses."""

import subprocess
import sys
from pathlib import Path

import pytest

from observe.node.slowdown.samples import NOISY, diagnose, window
from resctrl_hooks.observe.node.slowdown.causes import Cause
from resctrl_hooks.observe.node.slowdown.units import CpuTime, WallTime
from resctrl_hooks.observe.node.slowdown.use import Use
from resctrl_hooks.observe.node.slowdown.window import Counts, Waits, use_between

PROJECT = Path(__file__).parents[4]
SECONDS = 10.0


def causes(cpus: int, ran: float, throttled: float, waited: float, stood: float) -> dict[str, Cause]:
    """Return the causes of a pod, from the parts of the time for which each of its CPUs is in these states."""
    before = Waits(CpuTime(0), CpuTime(0), 0, WallTime(0), WallTime(0))
    after = Waits(
        CpuTime(cpus * ran * SECONDS),
        CpuTime(cpus * throttled * SECONDS),
        50,
        WallTime(waited * SECONDS),
        WallTime(stood * SECONDS),
    )
    victim = use_between(Counts(waits=before), Counts(waits=after), SECONDS, [])
    noisy = Use("traffic", None, None, 20.0, None, {})
    windows = [window(number, victim=victim, noisy=noisy) for number in range(9)]
    return diagnose(windows, None)[1]


@pytest.mark.parametrize("cpus", [1, 2, 8, 32, 256])
@pytest.mark.parametrize(
    "ran, waited, stood",
    [(0.3, 0.4, 0.15), (0.6, 0.4, 0.4), (0.3, 0.9, 0.5)],
    ids=["issue", "never idle", "many threads"],
)
def test_contention_of_many_cpus_is_no_cpu_limit(cpus: int, ran: float, waited: float, stood: float) -> None:
    found = causes(cpus, ran, 0.02, waited, stood)
    assert found["cpu-limit"].state == "excluded"
    assert found["cpu-contention"].state == "supported"
    assert [one.key for one in found["cpu-contention"].pods] == [NOISY]


@pytest.mark.parametrize("cpus", [1, 2, 8, 32, 256])
@pytest.mark.parametrize("ran, throttled", [(0.5, 0.5), (0.2, 0.1), (0.05, 0.9)])
def test_pod_that_only_its_limit_stops_does_not_blame_its_neighbours(cpus: int, ran: float, throttled: float) -> None:
    found = causes(cpus, ran, throttled, throttled, throttled)
    assert found["cpu-limit"].state == "supported"
    assert f"for {throttled:.0%} of the time" in found["cpu-limit"].text
    assert found["cpu-contention"].state == "excluded"


@pytest.mark.parametrize(
    "throttled, waited, stood", [(0.2, None, None), (0.2, 0.2, None), (0.2, 0.0, 0.0), (0.0, 0.0, 0.0)]
)
def test_limit_without_counted_pressure_is_a_part_of_the_time(
    throttled: float, waited: float | None, stood: float | None
) -> None:
    before = Waits(CpuTime(0), CpuTime(0), 0, WallTime(0), WallTime(0))
    pressures = [None if part is None else WallTime(part * SECONDS) for part in (waited, stood)]
    after = Waits(CpuTime(8.0), CpuTime(throttled * SECONDS), 9, *pressures)  # type: ignore[arg-type]
    part = use_between(Counts(waits=before), Counts(waits=after), SECONDS, []).throttled
    assert part is not None
    assert float(part) == pytest.approx(throttled)


WRONG = {
    "sum of CPU time and wall time": "CpuTime(1) + WallTime(1)",
    "difference of pressure and throttled time": "WallPart(0.4) - CpuPart(0.1)",
    "throttled time by the clock as pressure": "part: WallPart = CpuTime(1) / WallTime(1)",
    "comparison of two kinds": "CpuPart(0.4) < WallPart(0.1)",
    "sum with a bare number": "CpuTime(1) + 1.0",
    "bare number as a time": "Waits(1.0)",
}
RIGHT = ["CpuTime(1) + CpuTime(1)", "part: WallPart = CpuTime(1) / (CpuTime(1) / WallTime(1)) / WallTime(1)"]


@pytest.mark.ci
def test_sum_of_two_units_is_a_mypy_error(tmp_path: Path) -> None:
    units = "from resctrl_hooks.observe.node.slowdown.units import CpuPart, CpuTime, WallPart, WallTime"
    lines = [units, "from resctrl_hooks.observe.node.slowdown.window import Waits", *RIGHT, *WRONG.values()]
    snippet = tmp_path / "snippet.py"
    snippet.write_text("\n".join(lines) + "\n")
    # A separate cache, as results of a run with other modules must not be shared.
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(PROJECT / ".mypy_cache/units"), str(snippet)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    wrong = {line.split(":")[1] for line in done.stdout.splitlines() if ": error: " in line}
    first = len(lines) - len(WRONG) + 1
    assert wrong == {str(number) for number in range(first, len(lines) + 1)}, done.stdout + done.stderr
