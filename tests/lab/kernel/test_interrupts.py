"""Interrupts of the real kernel: they leave exclusive CPUs, return when their container ends, and survive kills."""

import os
import random
import re
import subprocess
import time
from pathlib import Path

import pytest

from kernel.cgroups import value
from kernel.containers import Containers
from kernel.installed import Installed
from kernel.test_placement import CPUS, PLACED, SEE, expand, seen

HOUSES = ("placement",)
pytestmark = [pytest.mark.guest(cpus=8, numa=4), pytest.mark.only(driver="cgroupfs", runtime_name="crun"), PLACED]
IRQS = Path("/proc/irq")
KILLS = int(os.environ.get("INTERRUPT_KILLS", "6"))


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


def quiet(containers: Containers, name: str) -> int:
    wanted = {CPUS: "exclusive:2", "irq-load-balancing.crio.io": "disable"}
    pid = containers.create(name, SEE, annotations=wanted, resources={"cpu": {"shares": 2048}})
    containers.runtime.start(name)
    return pid


def test_interrupts_leave_exclusive_cpus_and_return(containers: Containers, installed: Installed) -> None:
    before = affinities()
    used = [number for number in before if any(path.is_dir() for path in IRQS.glob(f"{number}/*"))]
    movable = [number for number in used if can_move(number)]
    assert movable
    own = set(expand(seen(quiet(containers, "i1"))[0]))
    during = affinities()
    assert [number for number in movable if set(expand(during[number])) & own] == [], installed.said()
    assert int(during["default"].replace(",", ""), 16) & sum(1 << cpu for cpu in own) == 0
    assert [number for number in movable if during[number] != before[number]]
    stuck = [number for number in used if number not in movable]
    assert {number: during[number] for number in stuck} == {number: before[number] for number in stuck}
    assert re.search(r"cannot move \d+ interrupts \((EIO|EPERM), managed by the kernel\): ", installed.said())
    containers.end("i1")
    assert affinities() == before


def test_interrupts_and_cpusets_return_after_kills_at_random_moments(
    containers: Containers, installed: Installed
) -> None:
    before = affinities()
    for number in range(KILLS):
        name = f"k{number}"
        pid = quiet(containers, name)
        assert affinities() != before, installed.said()
        assert len(expand(value(pid, "cpuset.cpus.effective"))) == 2
        containers.runtime.kill(name)  # without poststop
        reconcile = subprocess.Popen(
            installed.command("reconcile"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(random.uniform(0.0, 2.0))
        reconcile.kill()
        reconcile.wait()
    installed.reconcile()
    assert affinities() == before
    shared = containers.start("s1", SEE, annotations={CPUS: "shared"}, resources={"cpu": {"shares": 512}})
    assert len(expand(seen(shared)[0])) > 1
