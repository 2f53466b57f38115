"""One program tells systemd of all that a scope is given; a daemon-reload and the runtime's update leave it."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.cgroups import file_of, value
from kernel.containers import Containers
from kernel.installed import Installed
from kernel.runtimes import run
from kernel.test_memtierd import CLASS
from kernel.test_placement import CPUS
from kernel.test_scheduling import BLOCKIO, CHILD, SCHEDULING

HOUSES = ("placement",)
SYSTEMCTL = "/usr/bin/systemctl"
ASKED = {CLASS: "small", "memory.high.memtierd.nri.io": "64M", SCHEDULING: "small", BLOCKIO: "slow", CPUS: "shared"}
IN_FORCE = {
    "memory.swap.max": "0",
    "memory.high": str(64 << 20),
    "memory.low": str(8 << 20),
    "cpu.weight": "20",
    "cpu.max": "50000 100000",
}
ALLOWED = {"enabled": True, "allow": {"": ["*"]}}
SMALL = {"cpuWeight": 20, "cpuMax": "50000 100000", "memoryLow": "8M"}
# All features with systemd properties.
pytestmark = pytest.mark.settings(
    monitoring={"enabled": False},
    failurePolicy="fail",
    placement=ALLOWED,
    scheduling={**ALLOWED, "classes": {"small": SMALL}},
    blockio={**ALLOWED, "classes": {"slow": [{"devices": ["/dev/vd?"], "throttleReadBps": "1M"}]}},
    memory={"allowLimits": {"": ["*"]}},
    classes=[{"name": "small", "allowswap": False}],
)


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Path]:
    """Return the calls of systemctl, one line each, recorded by a replacement of it."""
    real, counting, found = tmp_path / "systemctl.real", tmp_path / "systemctl", tmp_path / "calls"
    shutil.copy(SYSTEMCTL, real)
    counting.write_text(f'#!/bin/sh\necho "$*" >> {found}\nexec {real} "$@"\n')
    counting.chmod(0o755)
    found.touch()
    subprocess.run(["mount", "--bind", counting, SYSTEMCTL], check=True)
    yield found
    subprocess.run(["umount", SYSTEMCTL], check=True)


@pytest.mark.only(driver="systemd")
def test_all_features_share_one_call_that_daemon_reload_and_update_keep(
    containers: Containers, installed: Installed, calls: Path
) -> None:
    pid = containers.create("all", CHILD, annotations=ASKED)
    said = [line for line in calls.read_text().splitlines() if line.startswith("set-property")]
    assert len(said) == 1, said
    assert {"AllowedCPUs", "IOAccounting", "CPUWeight", "CPUQuota", "MemoryLow", "MemoryHigh", "MemorySwapMax"} <= set(
        re.findall(r" (\w+)=", said[0])
    )

    def assert_in_place() -> None:
        assert {name: value(pid, name) for name in IN_FORCE} == IN_FORCE, installed.said()
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
