"""The scheduling feature's calls for one process, and the parts of its steps."""

import os
import posix
from typing import Any, cast

import pytest
from conftest import raising

from resctrl_hooks.core.node.classes.choice import ClassError
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.features import scheduling


@pytest.mark.parametrize("wanted", [{"policy": "batch"}, {"priority": 3}, {"nice": 5}])
def test_process_that_has_ended_needs_no_scheduling(monkeypatch: pytest.MonkeyPatch, wanted: Any) -> None:
    for name in ("sched_getscheduler", "sched_getparam", "getpriority"):
        monkeypatch.setattr(posix, name, raising(ProcessLookupError()))
    assert scheduling._is_scheduled(100, wanted) is True


@pytest.mark.parametrize(
    "number, policy, hint", [(1, "fifo", True), (1, "rr", True), (1, "batch", False), (22, "rr", False)]
)
def test_refused_real_time_policy_has_a_hint(
    monkeypatch: pytest.MonkeyPatch, number: int, policy: Any, *, hint: bool
) -> None:
    monkeypatch.setattr(posix, "sched_setscheduler", raising(OSError(number, os.strerror(number))))
    with pytest.raises(ClassError) as caught:
        scheduling._schedule(100, {"policy": policy})
    assert (caught.value.errno, "has no real-time budget" in str(caught.value)) == (number, hint)


@pytest.mark.parametrize(
    "process, words, shown",
    [
        ({"ioClass": "idle"}, ["-c", "3"], "idle"),
        ({"ioClass": "best-effort"}, ["-c", "2", "-n", "4"], "best-effort: prio 4"),
        ({"ioClass": "realtime", "ioPriority": 0}, ["-c", "1", "-n", "0"], "realtime: prio 0"),
    ],
)
def test_io_priority_is_set_and_read_with_ionice(
    monkeypatch: pytest.MonkeyPatch, process: Any, words: list[str], shown: str
) -> None:
    calls: list[list[str]] = []
    answers = [(0, ""), (0, f"{shown}\n"), (0, "none: prio 0\n"), (1, ""), (1, "no permission")]

    def run(arguments: list[str], _: float) -> tuple[int, str]:
        calls.append(arguments)
        return answers[len(calls) - 1]

    monkeypatch.setattr("resctrl_hooks.core.node.host.programs.run", run)
    monkeypatch.setattr("resctrl_hooks.core.node.host.programs.find_program", lambda name: f"/usr/bin/{name}")
    scheduling._set_io_priority([7, 8], process)
    assert [scheduling._is_scheduled(7, process) for _ in range(3)] == [True, False, True]
    with pytest.raises(ClassError, match="no permission"):
        scheduling._set_io_priority([7], process)
    assert calls[:2] == [["/usr/bin/ionice", *words, "-p", "7", "8"], ["/usr/bin/ionice", "-p", "7"]]


@pytest.mark.parametrize(
    "theirs, process, kept",
    [
        ({}, {"policy": "batch", "nice": 5}, []),
        ({"policy": "batch", "nice": 5}, {"policy": "batch", "nice": 5}, []),
        ({"policy": "rr", "priority": 3}, {}, ["policy rr priority 3 instead of policy batch nice 5"]),
    ],
)
def test_scheduler_of_the_specification_stays(theirs: Any, process: Any, kept: list[str]) -> None:
    found: list[str] = []
    assert scheduling._process_of({"policy": "batch", "nice": 5}, theirs, found) == process
    assert found == kept


def test_values_and_properties_of_a_step_are_its_own() -> None:
    needs = {"class": "a", "process": {}, "values": [["cpu.weight", "5"]], "properties": {"CPUWeight": "5"}}
    step, nothing = Step("scheduling", "schedule", needs, ""), cast("Any", None)
    assert scheduling.FEATURE.values(step) == [["cpu.weight", "5"]]
    assert scheduling.FEATURE.properties(step, nothing, nothing) == {"CPUWeight": "5"}
