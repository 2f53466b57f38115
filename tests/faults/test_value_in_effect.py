"""A value is in effect only if it reads so: every writer notices another value of the kernel's, and a refusal."""

import errno
import os
import posix
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Host, always, raising
from hosts.cpufreq import ClassHost
from hosts.interrupts import EXCLUSIVE, InterruptHost
from hosts.placed import PlacedHost
from observe.node.guard.node import Node

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.features import scheduling
from resctrl_hooks.core.node.host import cgroup
from resctrl_hooks.core.rdt.classes import Classes
from resctrl_hooks.observe.node.guard.lease import EXPERIMENT, NAME, Lease
from resctrl_hooks.observe.slowdown.trial import Trial

HOUSES = ("placement",)
FULL = {"gold": 20.0, "silver": 20.0, "bronze": 55.0}


def guard(host: Host) -> str:
    node = Node(host)
    found = node.guard()
    node.pass_time(found, FULL, 8)
    lease = host.state / NAME
    return "\n".join([*node.lines, lease.read_text() if lease.exists() else ""])


def trial(host: Host) -> str:
    node = Node(host)
    context = node.context()
    context.ledger.prepare()
    lease = Lease(context.settings.state_dir, context.proc)
    lease.hold(os.getpid(), EXPERIMENT, 15.0)
    Trial(context, lease, "bronze", {"floor": 20}, [(0,)]).set(limited=True)
    return (host.state / NAME).read_text()


def classes(host: Host) -> str:
    node = Node(host)
    (node.root / "info/MB/num_closids").write_text("8\n")
    context = node.context()
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


def cpuset(host: Host) -> str:
    return PlacedHost(host).start("a", 2000, **{"class.placement.resctrl-hooks.io": ""})


def frequencies(host: Host) -> str:
    node = ClassHost(host)
    return node.start("a", 500) + (node.record.read_text() if node.record.exists() else "")


def interrupts(host: Host) -> str:
    node = InterruptHost(host)
    return node.start("a", 2000, **EXCLUSIVE) + (node.record.read_text() if node.record.exists() else "")


WRITERS: dict[str, tuple[Callable[[Host], str], str, str, str]] = {
    "bandwidth by the guard": (guard, "bronze/schemata", "MB:0=70\n", ", 70]"),
    "bandwidth by an experiment": (trial, "bronze/schemata", "MB:0=70\n", "70"),
    "bandwidth by rdt apply": (classes, "bronze/schemata", "MB:0=70\n", "differs ['MB"),
    "memory.high": (of_cgroup("memory.high"), "memory.high", "8192", "set memory.high to '8192'"),
    "memory.swap.max": (of_cgroup("memory.swap.max"), "memory.swap.max", "0", "set memory.swap.max to '0'"),
    "cpu.weight": (of_cgroup("cpu.weight"), "cpu.weight", "100", "set cpu.weight to '100'"),
    "io.max": (of_cgroup("io.max"), "io.max", "", "set io.max to ''"),
    "cpuset": (cpuset, "cpuset.cpus", "0-31", "set cpuset.cpus to '0-31'"),
    "cpufreq": (frequencies, "scaling_min_freq", "900000", '"now": "900000"'),
    "interrupts": (interrupts, "25/smp_affinity_list", "3", '"now": "3"'),
}
"""By name: the writer, which returns what it tells or records; the file's end, the kernel's own value, its trace."""


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[Path], None]], None]:
    """Return a function that lets the kernel do something after each write to files with an ending."""

    def after_writes(ending: str, do: Callable[[Path], None]) -> None:
        write = posix.write

        def written(fd: int, data: bytes) -> int:
            path = Path(os.readlink(f"/proc/self/fd/{fd}"))
            count = write(fd, data)
            if str(path).endswith(f"/{ending}"):
                do(path)
            return count

        monkeypatch.setattr(posix, "write", written)
        # This fake merges schemata by itself.
        monkeypatch.setattr("observe.node.guard.node.Schemata.write", _merge(do, ending))

    return after_writes


def _merge(do: Callable[[Path], None], ending: str) -> Any:
    def write(_: Any, path: str, value: bytes) -> None:
        Path(path).write_bytes(value)
        if path.endswith(f"/{ending}"):
            do(Path(path))

    return write


def told_by(writer: Callable[[Host], str], host: Host) -> str:
    """Return what a writer tells, by its result or its error."""
    try:
        return writer(host)
    except HookError as error:
        return str(error)


@pytest.mark.parametrize("writer, ending, kept, trace", WRITERS.values(), ids=WRITERS)
def test_value_that_the_kernel_keeps_instead_is_told(
    host: Host, kernel: Any, writer: Callable[[Host], str], ending: str, kept: str, trace: str
) -> None:
    kernel(ending, lambda path: path.write_text(kept))
    assert trace in told_by(writer, host)


@pytest.mark.parametrize("writer, ending, kept, trace", WRITERS.values(), ids=WRITERS)
def test_refused_value_is_told(
    host: Host, kernel: Any, writer: Callable[[Host], str], ending: str, kept: str, trace: str
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error", str(path))

    kernel(ending, refuse)
    assert "EIO" in told_by(writer, host)


@pytest.mark.parametrize(
    "answer, told",
    [
        (always(None), "the kernel did not schedule process"),
        (raising(OSError(errno.EPERM, "no")), "EPERM"),
        (raising(OSError(errno.EINVAL, "no")), "EINVAL"),
    ],
)
def test_process_that_the_kernel_does_not_schedule_is_told(
    host: Host, monkeypatch: pytest.MonkeyPatch, answer: Any, told: str
) -> None:
    monkeypatch.setattr(posix, "setpriority", answer)
    container: Any = SimpleNamespace(pid=os.getpid(), threads=lambda _: [os.getpid()])
    step = Step("scheduling", "schedule", {"process": {"nice": 7}, "values": []}, "")
    context = host.context()
    context.proc = "/proc"
    with pytest.raises(HookError, match=told):
        scheduling.FEATURE.apply(step, container, None, context)  # type: ignore[arg-type]  # no lock is needed
