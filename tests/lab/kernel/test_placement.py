"""Placement on a kernel with two packages and four NUMA nodes: CPUs, memory nodes and interrupts."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from kernel.installed import Installed
from kernel.pods import Containers
from kernel.runtimes import file_of, value, wait_until
from resctrl_hooks.core.node.host.cpulist import members, parse_list
from resctrl_hooks.core.node.host.topology_sysfs import read_topology

HOUSES = ("placement",)
PLACED = pytest.mark.settings(
    monitoring={"enabled": False}, placement={"enabled": True, "allow": {"": ["*"]}, "failurePolicy": "fail"}
)
pytestmark = [pytest.mark.guest(cpus=8, numa=4), PLACED]
CPUS = "cpus.placement.resctrl-hooks.io"
SEE = ["/bin/sh", "-c", "grep -E 'Cpus_allowed_list|Mems_allowed_list' /proc/self/status > /dev/seen; sleep 1000"]


def create(containers: Containers, name: str, kind: str, milli: int = 0) -> int:
    """Create one with a memory limit: without one it is not bound to memory nodes."""
    resources = {"cpu": {"shares": milli * 1024 // 1000} if milli else {}, "memory": {"limit": 64 << 20}}
    return containers.create(name, SEE, annotations={CPUS: kind}, resources=resources)


def start(containers: Containers, name: str, kind: str, milli: int = 0) -> int:
    pid = create(containers, name, kind, milli)
    containers.runtime.start(name)
    return pid


def seen(pid: int) -> tuple[str, str]:
    """Return the CPUs and memory nodes that the container's command had at its start."""
    path = Path(f"/proc/{pid}/root/dev/seen")
    wait_until(lambda: path.exists() and path.read_text().count("\n") == 2, "the container has looked")
    cpus, mems = (line.split()[1] for line in path.read_text().splitlines())
    return cpus, mems


def effective(pid: int) -> str:
    return value(pid, "cpuset.cpus.effective")


def allowed(pid: int) -> str:
    found = re.search(r"Cpus_allowed_list:\s*(\S+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return found[1]


def test_first_instruction_runs_on_assigned_cpus_and_others_follow(
    containers: Containers, installed: Installed
) -> None:
    nodes = read_topology("/sys").nodes
    assert [node.cpus for node in nodes] == [0b11, 0b1100, 0b110000, 0b11000000]
    assert all(node.memory > 500 << 20 for node in nodes)
    first = create(containers, "p1", "shared", 500)
    assert effective(first) == "0-1", installed.said()
    containers.runtime.start("p1")
    assert seen(first) == ("0-1", "0")
    second = start(containers, "p2", "exclusive:1", 1000)
    own, memory = seen(second)
    assert (own, memory) == ("2", "1")  # the part with the most room, another than the first one's
    third = start(containers, "p3", "exclusive:4", 4000)
    taken, _ = seen(third)
    assert taken == "4-7"
    fourth = start(containers, "p4", "exclusive:1", 1000)
    assert seen(fourth)[0] in ("0", "1", "3")
    if seen(fourth)[0] in ("0", "1"):
        assert allowed(first) == effective(first) == {"0": "1", "1": "0"}[seen(fourth)[0]]
    containers.end("p4")
    assert allowed(first) == effective(first) == "0-1"


def expand(text: str) -> list[int]:
    return members(parse_list(text))


def test_reconcile_repairs_overwritten_cpusets(containers: Containers, installed: Installed) -> None:
    pid = start(containers, "w1", "exclusive:2", 2000)
    before = effective(pid)
    cpuset = file_of(pid, "cpuset.cpus")
    # crun's leaf under systemd can't have more than the scope around it, so there it is taken less.
    widest = (cpuset.parent.parent / "cpuset.cpus.effective").read_text().strip()
    cpuset.write_text(widest if widest != before else before.partition("-")[0])
    assert effective(pid) != before
    installed.reconcile()
    assert effective(pid) == before


def test_offline_cpus_are_replaced(containers: Containers, installed: Installed) -> None:
    own = create(containers, "h1", "exclusive:1", 1000)
    shared = start(containers, "h2", "shared", 500)
    assert (effective(own), 0 in expand(effective(shared))) == ("0", False)
    try:
        switch(range(1, 8), on=False)
        done = installed.reconcile(check=False)
        assert done.returncode == 1, done.stdout
        assert "no shared CPUs left: 1 containers run on exclusive CPUs of other containers" in installed.said()
        assert (effective(own), effective(shared)) == ("0", "0")
    finally:
        switch(range(1, 8), on=True)
    installed.reconcile()
    assert (effective(own), 0 in expand(effective(shared))) == ("0", False)
    try:
        switch(range(4, 8), on=False)
        taken = start(containers, "h3", "exclusive:1", 1000)
        before = seen(taken)[0]
        switch([int(before)], on=False)
        installed.reconcile()
        assert effective(taken) != before
        assert len({effective(taken), effective(own), effective(shared)}) == 3
    finally:
        switch(range(1, 8), on=True)


def switch(cpus: Iterable[int], *, on: bool) -> None:
    """Take CPUs offline or back, until cpusets have followed."""
    for cpu in cpus:
        Path(f"/sys/devices/system/cpu/cpu{cpu}/online").write_text(str(int(on)))
    online = set(expand(Path("/sys/devices/system/cpu/online").read_text().strip()))
    root = Path("/sys/fs/cgroup/cpuset.cpus.effective")
    wait_until(lambda: set(expand(root.read_text().strip())) == online, "the root's cpuset follows")


IRQS = Path("/proc/irq")


def affinities() -> dict[str, str]:
    found = {path.parent.name: path.read_text().strip() for path in IRQS.glob("*/smp_affinity_list")}
    return {**found, "default": (IRQS / "default_smp_affinity").read_text().strip()}


def can_move(number: str) -> bool:
    """Return whether the kernel lets an interrupt have the CPUs that it has: it refuses each write to a managed one."""
    path = IRQS / number / "smp_affinity_list"
    try:
        path.write_text(path.read_text())
    except OSError:
        return False
    return True


@pytest.mark.only(driver="cgroupfs", runtime_name="crun")
def test_interrupts_leave_exclusive_cpus_and_return(containers: Containers, installed: Installed) -> None:
    before = affinities()
    used = [number for number in before if any(path.is_dir() for path in IRQS.glob(f"{number}/*"))]
    movable = [number for number in used if can_move(number)]
    assert movable
    wanted = {CPUS: "exclusive:2", "irq-load-balancing.crio.io": "disable"}
    own = set(expand(seen(containers.start("i1", SEE, annotations=wanted, resources={"cpu": {"shares": 2048}}))[0]))
    during = affinities()
    assert [number for number in movable if set(expand(during[number])) & own] == [], installed.said()
    assert int(during["default"].replace(",", ""), 16) & sum(1 << cpu for cpu in own) == 0
    assert [number for number in movable if during[number] != before[number]]
    stuck = [number for number in used if number not in movable]
    assert {number: during[number] for number in stuck} == {number: before[number] for number in stuck}
    assert re.search(r"cannot move \d+ interrupts \((EIO|EPERM), managed by the kernel\): ", installed.said())
    containers.end("i1")
    assert affinities() == before
