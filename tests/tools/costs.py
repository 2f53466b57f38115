"""A pytest plugin, `pytest -p costs`: where the tests' time goes, as a table at the end (docs/dev/testing.md).

Each test is in the first group that fits: it mounts a simulation (`fuse`), starts processes, sleeps for more than half
of its time, generates examples (hypothesis), or none of these. Processor time is that of the test's process and of its
children that have ended.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

STARTS = {"os.fork", "os.posix_spawn", "subprocess.Popen"}
"""Python's audit events of a process that starts."""
_now: Counter[str] = Counter()
_groups: dict[str, Counter[str]] = {}
_sleep = time.sleep


def _audit(event: str, _: Any) -> None:
    if event in STARTS:
        _now["starts"] += 1


def _asleep(seconds: float, /) -> None:
    begun = time.monotonic()
    _sleep(seconds)
    _now["slept ms"] += round(1000 * (time.monotonic() - begun))


sys.addaudithook(_audit)
time.sleep = _asleep  # type: ignore[assignment]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Measure one test with its fixtures."""
    _now.clear()
    begun, used = time.monotonic(), sum(os.times()[:4])
    result = yield
    wall = round(1000 * (time.monotonic() - begun))
    slept, starts = _now["slept ms"], _now["starts"]
    group = "computes"
    if item.get_closest_marker("fuse"):
        group = "mounts a simulation"
    elif starts:
        group = "starts processes"
    elif slept > wall / 2:
        group = "sleeps"
    elif item.get_closest_marker("hypothesis"):
        group = "generates examples"
    now = Counter(tests=1, wall=wall, processor=round(1000 * (sum(os.times()[:4]) - used)), slept=slept, starts=starts)
    _groups.setdefault(group, Counter()).update(now)
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand a worker's figures to pytest-xdist's controller."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["costs"] = {name: dict(found) for name, found in _groups.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take a worker's figures."""
    for name, found in getattr(node, "workeroutput", {}).get("costs", {}).items():
        _groups.setdefault(name, Counter()).update(found)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table."""
    terminalreporter.write_line("| test | tests | processor time, s | wall time, s | slept, s | processes started |")
    terminalreporter.write_line("|---|--:|--:|--:|--:|--:|")
    for name, found in sorted(_groups.items(), key=lambda one: -one[1]["processor"]):
        cells = [found["tests"], *(found[what] // 1000 for what in ("processor", "wall", "slept")), found["starts"]]
        terminalreporter.write_line(f"| {name} | {' | '.join(map(str, cells))} |")
