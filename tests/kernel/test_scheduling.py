"""Scheduling and block I/O classes on a real kernel: inheritance by a container's children, and persistence."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kernel.installed import Installed
from kernel.runtimes import Runtime, run, wait_until

SCHEDULING = "class.scheduling.resctrl-hooks.io"
BLOCKIO = "class.blockio.resctrl-hooks.io"
CHILD = ["/bin/sh", "-c", "sleep 1000 & echo $! > /dev/child; wait"]


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(
        str(tmp_path / "installed"),
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


def create(runtime: Runtime, bundle: Callable[..., str], installed: Installed, name: str, **notes: str) -> int:
    annotations = {key.replace("_", "."): value for key, value in notes.items()}
    linux = {"cgroupsPath": runtime.cgroups_path(name)}
    made = bundle(name, CHILD, hooks=installed.hooks, annotations=annotations, linux=linux)
    runtime.create(name, made)
    return runtime.pid(name)


def folder_of(pid: int) -> Path:
    return Path("/sys/fs/cgroup") / Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::/")


def holder(pid: int, name: str) -> Path:
    """Return the file of a container's cgroup, or under systemd of the scope that crun's one is in."""
    folder = folder_of(pid)
    return folder / name if (folder / name).exists() else folder.parent / name


def child_of(pid: int) -> int:
    """Return the one process that the container's command has started, by its pid here."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    wait_until(lambda: path.read_text().split(), "the command has a child")
    return int(path.read_text().split()[0])


def test_child_inherits_policy_and_nice(runtime: Runtime, bundle: Callable[..., str], installed: Installed) -> None:
    pid = create(runtime, bundle, installed, "s1", **{SCHEDULING: "background"})
    runtime.start("s1")
    child = child_of(pid)
    assert os.sched_getscheduler(child) == os.SCHED_BATCH, installed.said()
    assert os.getpriority(os.PRIO_PROCESS, child) == 7
    assert holder(pid, "cpu.weight").read_text().strip() == "20"
    assert holder(pid, "cpu.max").read_text().strip() == "50000 100000"


def test_real_time_and_memory_protection_apply(
    runtime: Runtime, bundle: Callable[..., str], installed: Installed
) -> None:
    pid = create(runtime, bundle, installed, "s2", **{SCHEDULING: "control"})
    runtime.start("s2")
    child = child_of(pid)
    assert (os.sched_getscheduler(child), os.sched_getparam(child).sched_priority) == (os.SCHED_FIFO, 5)
    assert holder(pid, "memory.low").read_text().strip() == str(8 << 20)


def test_idle_policy_and_io_class_apply(runtime: Runtime, bundle: Callable[..., str], installed: Installed) -> None:
    pid = create(runtime, bundle, installed, "s3", **{SCHEDULING: "idle"})
    runtime.start("s3")
    assert holder(pid, "cpu.idle").read_text().strip() == "1", installed.said()
    assert run(["ionice", "-p", str(child_of(pid))]).strip() == "idle"


def test_io_limits_apply_to_real_device(runtime: Runtime, bundle: Callable[..., str], installed: Installed) -> None:
    pid = create(runtime, bundle, installed, "b1", **{BLOCKIO: "slow"})
    lines = holder(pid, "io.max").read_text().splitlines()
    disks = [path for path in Path("/sys/block").iterdir() if path.name.startswith("vd")]
    wanted = {f"{(disk / 'dev').read_text().strip()} rbps=1000000 wbps=max riops=max wiops=100" for disk in disks}
    assert set(lines) == wanted, installed.said()
    # The limits apply: 3 MiB past the page cache take a container two seconds or more.
    disk = min(disk.name for disk in disks)
    before = time.monotonic()
    # Opened outside: runc does not permit devices that are not in the container's specification.
    read = (
        f"exec 3</dev/{disk}; echo $$ > {folder_of(pid)}/cgroup.procs; dd of=/dev/null bs=1M count=3 iflag=direct <&3"
    )
    run(["/bin/sh", "-c", read])
    assert time.monotonic() - before > 1.5


def test_values_undone_by_update_are_repaired(
    runtime: Runtime, bundle: Callable[..., str], installed: Installed
) -> None:
    pid = create(runtime, bundle, installed, "u1", **{SCHEDULING: "background", BLOCKIO: "slow"})
    runtime.start("u1")
    weight, io_max = holder(pid, "cpu.weight"), holder(pid, "io.max")
    limits = io_max.read_text()
    runtime.command("update", "--cpu-share", "2048", "u1")
    io_max.write_text(f"{limits.split()[0]} rbps=max wiops=max")
    installed.reconcile()
    assert weight.read_text().strip() == "20"
    assert io_max.read_text() == limits


@pytest.mark.parametrize("driver", [pytest.param("systemd", marks=pytest.mark.systemd)])
def test_daemon_reload_keeps_values(runtime: Runtime, bundle: Callable[..., str], installed: Installed) -> None:
    pid = create(runtime, bundle, installed, "r1", **{SCHEDULING: "background", BLOCKIO: "slow"})
    files = [holder(pid, name) for name in ("cpu.weight", "cpu.max", "io.max")]
    before = [file.read_text() for file in files]
    run(["systemctl", "daemon-reload"])
    assert [file.read_text() for file in files] == before
    assert before[0].strip() == "20"
