"""Swap and memory limits on a real cgroup v2, with real swap, runtimes and systemd."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kernel.cgroups import cgroup_of, value
from kernel.containers import Containers
from kernel.installed import Installed
from kernel.runtimes import wait_until

CLASS, SWAP, HIGH = "class.memtierd.nri.io", "memory.swap.max.memtierd.nri.io", "memory.high.memtierd.nri.io"
CLASSES = [
    {"name": "noswap", "allowswap": False},
    {"name": "swap", "allowswap": True},
]
SAMPLE = Path(__file__).parents[2] / "fixtures/nri-memtierd.yaml"
FILL = "dd if=/dev/zero of=/dev/filled bs=1M count=48 2>/dev/null; echo filled >/dev/done; sleep 1000"
"""A container's command that takes 48 MiB of memory that can be swapped but not dropped."""
# These tests need no RMID.
pytestmark = pytest.mark.settings(monitoring={"enabled": False}, classes=CLASSES, memory={"allowLimits": {"*": ["*"]}})


@pytest.fixture
def swap_device() -> Iterator[None]:
    """128 MiB of swap space, on the disk: the temporary folder may be a tmpfs, which can't hold it."""
    path = "/var/tmp/swap"
    with open(path, "wb") as out:
        os.posix_fallocate(out.fileno(), 0, 128 << 20)
    os.chmod(path, 0o600)
    subprocess.run(["mkswap", path], check=True, capture_output=True)
    subprocess.run(["swapon", path], check=True)
    yield
    subprocess.run(["swapoff", path], check=True)
    os.unlink(path)


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
    containers: Containers,
    installed: Installed,
    annotations: dict[str, str],
    swap: str,
    high: str,
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


@pytest.mark.parametrize("name", ["swap", "noswap"])
def test_process_is_reclaimed_at_its_limit(
    containers: Containers, installed: Installed, swap_device: None, name: str
) -> None:
    pid = containers.start(f"r-{name}", FILL, annotations={CLASS: name})
    done = Path(f"/proc/{pid}/root/dev/done")
    wait_until(done.exists, "the container has filled its memory")
    with contextlib.suppress(OSError) if name == "noswap" else contextlib.nullcontext():
        # EAGAIN if less could be reclaimed than asked for, which it must not be where swapping is allowed.
        (cgroup_of(pid) / "memory.reclaim").write_text("24M")
    swapped = int(value(pid, "memory.swap.current"))
    assert swapped > 8 << 20 if name == "swap" else swapped == 0


def test_plugin_sample_works_unchanged(containers: Containers, installed: Installed) -> None:
    sample = yaml.safe_load(SAMPLE.read_text())
    installed.configure(
        **sample, monitoring={"enabled": False}, memtierd={"failurePolicy": "ignore"}, memory={"failurePolicy": "fail"}
    )
    pid = containers.create("s1", annotations={CLASS: "swap-idle-data"})
    assert value(pid, "memory.swap.max") == "max"
    assert "CONFIG_IDLE_PAGE_TRACKING" in installed.said() or "program memtierd" in installed.said()
