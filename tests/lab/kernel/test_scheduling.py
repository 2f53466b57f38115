"""Scheduling and block I/O classes on a real kernel: inheritance by a container's children, and persistence."""

import os
import time
from pathlib import Path

import pytest

from kernel.cgroups import cgroup_of, file_of, value
from kernel.containers import Containers
from kernel.installed import Installed
from kernel.runtimes import run, wait_until
from resctrl_hooks.core.node.watch.writes import Writes

SCHEDULING = "class.scheduling.resctrl-hooks.io"
BLOCKIO = "class.blockio.resctrl-hooks.io"
CHILD = ["/bin/sh", "-c", "sleep 1000 & echo $! > /dev/child; wait"]
pytestmark = pytest.mark.settings(
    monitoring={"enabled": False},
    failurePolicy="fail",
    scheduling={
        "enabled": True,
        "allow": {"": ["*"]},
        "classes": {
            "background": {"policy": "batch", "nice": 7, "cpuWeight": 20, "cpuMax": "50000 100000"},
            "control": {"policy": "fifo", "priority": 5, "memoryLow": "8M"},
            "idle": {"cpuIdle": True, "ioClass": "idle"},
        },
    },
    blockio={
        "enabled": True,
        "allow": {"": ["*"]},
        "classes": {"slow": [{"devices": ["/dev/vd?"], "throttleReadBps": "1M", "throttleWriteIops": 100}]},
    },
)


def child_of(pid: int) -> int:
    """Return the one process that the container's command has started, by its pid here."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    wait_until(lambda: path.read_text().split(), "the command has a child")
    return int(path.read_text().split()[0])


def test_child_inherits_policy_and_nice(containers: Containers, installed: Installed) -> None:
    pid = containers.start("s1", CHILD, annotations={SCHEDULING: "background"})
    child = child_of(pid)
    assert os.sched_getscheduler(child) == os.SCHED_BATCH, installed.said()
    assert os.getpriority(os.PRIO_PROCESS, child) == 7
    assert value(pid, "cpu.weight") == "20"
    assert value(pid, "cpu.max") == "50000 100000"


def test_real_time_and_memory_protection_apply(containers: Containers, installed: Installed) -> None:
    pid = containers.start("s2", CHILD, annotations={SCHEDULING: "control"})
    child = child_of(pid)
    assert (os.sched_getscheduler(child), os.sched_getparam(child).sched_priority) == (os.SCHED_FIFO, 5)
    assert value(pid, "memory.low") == str(8 << 20)


def test_idle_policy_and_io_class_apply(containers: Containers, installed: Installed) -> None:
    pid = containers.start("s3", CHILD, annotations={SCHEDULING: "idle"})
    assert value(pid, "cpu.idle") == "1", installed.said()
    assert run(["ionice", "-p", str(child_of(pid))]).strip() == "idle"


def test_io_limits_apply_to_real_device(containers: Containers, installed: Installed) -> None:
    pid = containers.create("b1", CHILD, annotations={BLOCKIO: "slow"})
    lines = file_of(pid, "io.max").read_text().splitlines()
    disks = [path for path in Path("/sys/block").iterdir() if path.name.startswith("vd")]
    wanted = {f"{(disk / 'dev').read_text().strip()} rbps=1000000 wbps=max riops=max wiops=100" for disk in disks}
    assert set(lines) == wanted, installed.said()
    # The limits apply: 3 MiB past the page cache take a container two seconds or more.
    disk = min(disk.name for disk in disks)
    before = time.monotonic()
    # Opened outside: runc does not permit devices that are not in the container's specification.
    read = (
        f"exec 3</dev/{disk}; echo $$ > {cgroup_of(pid)}/cgroup.procs; dd of=/dev/null bs=1M count=3 iflag=direct <&3"
    )
    run(["/bin/sh", "-c", read])
    assert time.monotonic() - before > 1.5


def test_values_undone_by_update_are_repaired(containers: Containers, installed: Installed) -> None:
    pid = containers.start("u1", CHILD, annotations={SCHEDULING: "background", BLOCKIO: "slow"})
    weight, io_max = file_of(pid, "cpu.weight"), file_of(pid, "io.max")
    limits = io_max.read_text()
    containers.runtime.command("update", "--cpu-share", "2048", "u1")
    io_max.write_text(f"{limits.split()[0]} rbps=max wiops=max")
    installed.reconcile()
    assert weight.read_text().strip() == "20"
    assert io_max.read_text() == limits


def test_kernel_reports_update_and_no_limit_without_one(containers: Containers) -> None:
    pid = containers.start("w1", CHILD)
    writes = Writes()
    writes.watch([str(file_of(pid, "cpu.weight").parent)])
    (cgroup_of(pid) / "cgroup.freeze").write_text("0")
    file_of(pid, "memory.max").read_text()
    assert not (writes.happened() and writes.take())
    containers.runtime.command("update", "--cpu-share", "2048", "w1")
    wait_until(writes.happened, "the update is reported; with the systemd driver systemd writes it")
    assert writes.take()
