"""Memory limits, scheduling and block I/O on a real cgroup v2, with real disks, runtimes and systemd."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.memtierd import CLASS, program

from kernel.bundles import NAMESPACES
from kernel.groups import Resctrl
from kernel.installed import Installed
from kernel.pods import Containers
from kernel.runtimes import cgroup_of, file_of, run, value, wait_until
from kernel.test_placement import CPUS
from resctrl_hooks.core.node.watch.writes import Writes

HOUSES = ("placement",)
ALLOWED = {"enabled": True, "allow": {"": ["*"]}}

SWAP, HIGH = "memory.swap.max.memtierd.nri.io", "memory.high.memtierd.nri.io"
CLASSES = [{"name": "noswap", "allowswap": False}, {"name": "swap", "allowswap": True}]
# These tests need no RMID.
MEMORY = pytest.mark.settings(monitoring={"enabled": False}, classes=CLASSES, memory={"allowLimits": {"*": ["*"]}})


@MEMORY
@pytest.mark.parametrize(
    "annotations, swap, high",
    [
        ({CLASS: "noswap"}, "0", "max"),
        ({CLASS: "swap"}, "max", "max"),
        ({}, str(8 << 20), "max"),
        ({CLASS: "noswap", SWAP: "16M", HIGH: "64M"}, str(16 << 20), str(64 << 20)),
    ],
)
def test_limits_apply_before_first_instruction(
    containers: Containers, installed: Installed, annotations: dict[str, str], swap: str, high: str
) -> None:
    # The runtime's own setting: memory.swap.max of 8 MiB.
    memory = {"limit": 128 << 20, "swap": 136 << 20}
    pid = containers.create("m1", annotations=annotations, resources={"memory": memory})
    before = value(pid, "memory.swap.max"), value(pid, "memory.high")
    containers.runtime.start("m1")
    assert (value(pid, "memory.swap.max"), value(pid, "memory.high")) == before
    above = cgroup_of(pid).parent
    if above.name.endswith(".scope"):
        # The scope above crun's own cgroup must also permit a class's limit. (By default crun gives the scope memory
        # and swap together as its swap.)
        assert (above / "memory.swap.max").read_text().strip() == (str(136 << 20) if swap == str(8 << 20) else swap)
    assert before == (swap, high), installed.said()


SCHEDULING = "class.scheduling.resctrl-hooks.io"
BLOCKIO = "class.blockio.resctrl-hooks.io"
CHILD = ["/bin/sh", "-c", "sleep 1000 & echo $! > /dev/child; wait"]
CONTROL = {"policy": "fifo", "priority": 5, "memoryLow": "8M"}
SLOW = {"devices": ["/dev/vd?"], "throttleReadBps": "1M", "throttleWriteIops": 100}
CLASSED = pytest.mark.settings(
    monitoring={"enabled": False},
    failurePolicy="fail",
    scheduling={**ALLOWED, "classes": {"control": CONTROL, "idle": {"cpuIdle": True, "ioClass": "idle"}}},
    blockio={**ALLOWED, "classes": {"slow": [SLOW]}},
)


def child_of(pid: int) -> int:
    """Return the one process that the container's command has started, by its pid here."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    wait_until(lambda: path.read_text().split(), "the command has a child")
    return int(path.read_text().split()[0])


@CLASSED
def test_real_time_memory_protection_and_idle_policies_apply(containers: Containers, installed: Installed) -> None:
    pid = containers.start("s2", CHILD, annotations={SCHEDULING: "control"})
    both = (pid, child_of(pid))

    def assert_real_time() -> None:
        for one in both:
            assert (os.sched_getscheduler(one), os.sched_getparam(one).sched_priority) == (os.SCHED_FIFO, 5)

    assert_real_time()
    assert value(pid, "memory.low") == str(8 << 20)
    for one in both:
        os.sched_setscheduler(one, os.SCHED_OTHER, os.sched_param(0))
    installed.reconcile()
    assert_real_time()
    pid = containers.start("s3", CHILD, annotations={SCHEDULING: "idle"})
    assert value(pid, "cpu.idle") == "1", installed.said()
    assert run(["ionice", "-p", str(child_of(pid))]).strip() == "idle"


@CLASSED
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
    enter = f"exec 3</dev/{disk}; echo $$ > {cgroup_of(pid)}/cgroup.procs"
    run(["/bin/sh", "-c", f"{enter}; dd of=/dev/null bs=1M count=3 iflag=direct <&3"])
    assert time.monotonic() - before > 1.5


@CLASSED
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


ASKED = {CLASS: "small", "memory.high.memtierd.nri.io": "64M", SCHEDULING: "small", BLOCKIO: "slow", CPUS: "shared"}
SMALL = {"cpuWeight": 20, "cpuMax": "50000 100000", "memoryLow": "8M"}
SMALLER = pytest.mark.settings(
    monitoring={"enabled": False},
    failurePolicy="fail",
    placement=ALLOWED,
    scheduling={**ALLOWED, "classes": {"small": SMALL}},
    blockio={**ALLOWED, "classes": {"slow": [SLOW]}},
    memory={"allowLimits": {"": ["*"]}},
    classes=[{"name": "small", "allowswap": False}],
)


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Path]:
    """Return the calls of systemctl, one line each, recorded by a replacement of it."""
    real, counting, found = (tmp_path / name for name in ("systemctl.real", "systemctl", "calls"))
    shutil.copy("/usr/bin/systemctl", real)
    program(counting, f'#!/bin/sh\necho "$*" >> {found}\nexec {real} "$@"\n')
    found.touch()
    subprocess.run(["mount", "--bind", counting, "/usr/bin/systemctl"], check=True)
    yield found
    subprocess.run(["umount", "/usr/bin/systemctl"], check=True)


@SMALLER
@pytest.mark.only(driver="systemd")
def test_all_features_share_one_call_that_daemon_reload_and_update_keep(
    containers: Containers, installed: Installed, calls: Path
) -> None:
    pid = containers.create("all", CHILD, annotations=ASKED)
    said = [line for line in calls.read_text().splitlines() if line.startswith("set-property")]
    assert len(said) == 1, said
    wanted = {"AllowedCPUs", "IOAccounting", "CPUWeight", "CPUQuota", "MemoryLow", "MemoryHigh", "MemorySwapMax"}
    assert wanted <= {*re.findall(r" (\w+)=", said[0])}

    def assert_in_place() -> None:
        names = ("memory.swap.max", "memory.high", "memory.low", "cpu.weight", "cpu.max")
        values = ["0", str(64 << 20), str(8 << 20), "20", "50000 100000"]
        assert [value(pid, name) for name in names] == values, installed.said()
        assert value(pid, "cpuset.cpus") == "0"
        assert "rbps=1000000" in file_of(pid, "io.max").read_text()

    assert_in_place()
    run(["systemctl", "daemon-reload"])
    assert_in_place()
    containers.runtime.command("update", "--memory", str(300 << 20), "all")
    assert_in_place()
    calls.write_text("")
    file_of(pid, "cpu.weight").write_text("100")  # a value undone by hand is repaired, and no other is sent
    installed.reconcile()
    assert_in_place()
    (again,) = [line for line in calls.read_text().splitlines() if line.startswith("set-property")]
    assert "CPUWeight=20" in again
    assert "MemoryHigh" not in again


INIT = """
# as systemd does it
mkdir /sys/fs/cgroup/init.scope /sys/fs/cgroup/svc
sleep 1000 &
echo $! > /sys/fs/cgroup/svc/cgroup.procs
echo $$ > /sys/fs/cgroup/init.scope/cgroup.procs
sleep 1000 &
touch /dev/moved
wait
"""


def test_unseen_container_is_adopted_with_all_cgroups(
    containers: Containers, installed: Installed, resctrl: Resctrl
) -> None:
    namespaces = [{"type": kind} for kind in (*NAMESPACES, "cgroup")]
    mount = {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["nosuid", "rw"]}
    pid = containers.start("below1", INIT, hooks={}, mounts=[mount], namespaces=namespaces)
    wait_until(lambda: os.path.exists(f"/proc/{pid}/root/dev/moved"), "the init has moved")
    installed.reconcile()
    assert cgroup_of(pid).name == "init.scope"
    files = cgroup_of(pid).parent.rglob("cgroup.procs")
    everybody = {int(one) for file in files for one in file.read_text().split()}
    assert len(everybody) == 3
    assert resctrl.tasks("mon_groups/below1") == everybody, installed.said()
