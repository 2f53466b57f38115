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
COLUMNS = ("tests", "processor time, s", "wall time, s", "slept, s", "processes started")
_now: Counter[str] = Counter()
_groups: dict[str, Counter[str]] = {}
_sleep = time.sleep


def _asleep(seconds: float, /) -> None:
    begun = time.monotonic()
    _sleep(seconds)
    _now["slept, s"] += time.monotonic() - begun  # type: ignore[assignment]


sys.addaudithook(lambda event, _: _now.update({"processes started": event in STARTS}))
time.sleep = _asleep  # type: ignore[assignment]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    _now.clear()
    begun, used = time.monotonic(), sum(os.times()[:4])
    result = yield
    found: Any = _now + Counter(tests=1)
    found["wall time, s"], found["processor time, s"] = time.monotonic() - begun, sum(os.times()[:4]) - used
    groups = {
        "mounts a simulation": item.get_closest_marker("fuse"),
        "starts processes": found["processes started"],
        "sleeps": found["slept, s"] > found["wall time, s"] / 2,
        "generates examples": item.get_closest_marker("hypothesis"),
        "computes": True,
    }
    _groups.setdefault(next(name for name, fits in groups.items() if fits), Counter()).update(found)
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand a worker's figures to pytest-xdist's controller."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["costs"] = {name: dict(found) for name, found in _groups.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for name, found in getattr(node, "workeroutput", {}).get("costs", {}).items():
        _groups.setdefault(name, Counter()).update(found)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"| test | {' | '.join(COLUMNS)} |\n|---|{'--:|' * len(COLUMNS)}")
    for name, found in sorted(_groups.items(), key=lambda one: -one[1]["processor time, s"]):
        terminalreporter.write_line(f"| {name} | {' | '.join(str(int(found[column])) for column in COLUMNS)} |")
