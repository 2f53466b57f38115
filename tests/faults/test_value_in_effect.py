"""A value is in effect only if it reads so: every writer notices another value of the kernel's, and a refusal."""

import errno
import os
import posix
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Host, always, raising
from hosts.kernel_values import AfterWrites, Writer, after_writes, check_refused

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.features import scheduling
from resctrl_hooks.core.node.host import cgroup
from resctrl_hooks.core.rdt.classes import Classes

__all__ = ("after_writes",)


def classes(host: Host) -> str:
    host.add_class("bronze")
    info = host.resctrl / "info/MB"
    info.mkdir()
    for name, value in (("min_bandwidth", 10), ("bandwidth_gran", 10), ("num_closids", 8)):
        (info / name).write_text(f"{value}\n")
    for folder in (host.resctrl, host.resctrl / "bronze"):
        (folder / "schemata").write_text("MB:0=100\n")
    context = host.context()
    context.ledger.prepare()
    found = Classes(context.monitor.resctrl, {"bronze": {"MB": 40}}, context.ledger, context.proc)
    (report,) = found.apply()
    return f"{report.state} {report.problems}"


def of_cgroup(name: str) -> Callable[[Host], str]:
    """Return a writer of a cgroup's value."""

    def write(host: Host) -> str:
        (host.cgroup / name).write_text("max")
        cgroup.write_value(str(host.cgroup), name, "20480")
        return ""

    return write


WRITERS = {
    "bandwidth by rdt apply": Writer(classes, "bronze/schemata", "MB:0=70\n", "differs ['MB"),
    "memory.high": Writer(of_cgroup("memory.high"), "memory.high", "8192", "set memory.high to '8192'"),
    "memory.swap.max": Writer(of_cgroup("memory.swap.max"), "memory.swap.max", "0", "set memory.swap.max to '0'"),
    "cpu.weight": Writer(of_cgroup("cpu.weight"), "cpu.weight", "100", "set cpu.weight to '100'"),
    "io.max": Writer(of_cgroup("io.max"), "io.max", "", "set io.max to ''"),
}


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_refused_value_is_reported(host: Host, after_writes: AfterWrites, writer: Writer) -> None:
    check_refused(host, after_writes, writer)


@pytest.mark.parametrize(
    "answer, told",
    [
        (always(None), "the kernel did not schedule process"),
        (raising(OSError(errno.EPERM, "no")), "EPERM"),
        (raising(OSError(errno.EINVAL, "no")), "EINVAL"),
    ],
)
def test_process_that_the_kernel_does_not_schedule_is_reported(
    host: Host, monkeypatch: pytest.MonkeyPatch, answer: Any, told: str
) -> None:
    monkeypatch.setattr(posix, "setpriority", answer)
    container: Any = SimpleNamespace(pid=os.getpid(), threads=lambda _: [os.getpid()])
    step = Step("scheduling", "schedule", {"process": {"nice": 7}, "values": []}, "")
    context = host.context()
    context.proc = "/proc"
    with pytest.raises(HookError, match=told):
        scheduling.FEATURE.apply(step, container, None, context)  # type: ignore[arg-type]  # no lock is needed
