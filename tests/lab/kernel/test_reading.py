"""Counters read by the library, compared with the kernel's files."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.groups import LIMBO_SECONDS, RENAMES, Resctrl
from kernel.runtimes import wait_until
from resctrl_hooks import Monitor
from resctrl_hooks.core.node.errors import RMIDsBusyError
from resctrl_hooks.core.node.resctrl.counter_files import read_group
from resctrl_hooks.core.node.resctrl.counters import CUMULATIVE, WAITING, Reading

KEY = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
TOTAL = "mon_L3_00/mbm_total_bytes"
pytestmark = pytest.mark.guest(cpus=2)  # two L3 domains


@pytest.fixture
def monitor(resctrl: Resctrl, tmp_path: Path) -> Monitor:
    return Monitor(resctrl.root, state_dir=str(tmp_path / "state"))


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that is busy, so that its group counts."""
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as process:
        yield process
        process.kill()


def made(monitor: Monitor, rdt_class: str = "") -> str:
    """Return the key's group, once an RMID is out of limbo; its folder."""
    deadline = time.monotonic() + LIMBO_SECONDS
    while True:
        try:
            return monitor.ensure_group(KEY, rdt_class).path
        except RMIDsBusyError:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def by_path(readings: list[Reading]) -> dict[str, float]:
    """Values by domain and counter; every one must have one."""
    found = {}
    for reading in readings:
        assert reading.value is not None, reading
        found[f"{reading.domain.folder}/{reading.counter.name}"] = reading.value
    return found


def by_hand(group: str) -> dict[str, int]:
    """Return all counters of a group, file by file."""
    root = Path(group) / "mon_data"
    return {str(path.relative_to(root)): int(path.read_text()) for path in root.glob("*/*")}


def grown(group: str, least: int) -> None:
    """Wait until a group has counted so much."""
    wait_until(lambda: by_hand(group)[TOTAL] > least, f"it has counted more than {least} bytes")


def test_values_lie_between_two_manual_readings(monitor: Monitor, worker: subprocess.Popen[bytes]) -> None:
    group = made(monitor)
    monitor.assign_pid(KEY, worker.pid)
    grown(group, 0)
    before = by_hand(group)
    found = monitor.read(KEY)
    after = by_hand(group)
    assert by_path(found).keys() == before.keys()
    for reading in found:
        path = f"{reading.domain.folder}/{reading.counter.name}"
        low, high = sorted((before[path], after[path]))
        assert reading.value is not None
        assert low <= reading.value <= high
        assert reading.kind == CUMULATIVE or reading.counter.name == "llc_occupancy"


def test_two_classes_of_pod_are_summed(monitor: Monitor, resctrl: Resctrl) -> None:
    resctrl.make("gold")
    groups = [made(monitor), made(monitor, "gold")]
    for group in groups:
        grown(group, 0)
    before = [by_hand(group) for group in groups]
    found = by_path(monitor.read(KEY))
    after = [by_hand(group) for group in groups]
    for path in (TOTAL, "mon_L3_01/mbm_local_bytes"):
        assert sum(values[path] for values in before) <= found[path] <= sum(values[path] for values in after)


def test_recreated_group_causes_no_jump(monitor: Monitor, resctrl: Resctrl) -> None:
    group = made(monitor)
    grown(group, 1_000_000)
    first = by_path(monitor.read(KEY))[TOTAL]
    os.rmdir(group)
    waiting = monitor.read(KEY)
    assert {reading.state for reading in waiting} == {WAITING}
    assert by_path([reading for reading in waiting if reading.counter.name != "llc_occupancy"])[TOTAL] == first
    made(monitor)
    second = by_path(monitor.read(KEY))[TOTAL]
    high = first + by_hand(group)[TOTAL]
    assert first <= second <= high
    grown(group, int(first) + 1_000_000)  # further than the old one was, so that only its identity tells
    low = first + by_hand(group)[TOTAL]
    assert by_path(monitor.read(KEY))[TOTAL] >= low


@pytest.mark.parametrize("again", ["removed and made", "renamed"])
def test_inode_distinguishes_new_from_renamed_group(monitor: Monitor, resctrl: Resctrl, again: str) -> None:
    group = made(monitor)
    identity, _ = read_group(group, [])
    if again == "renamed":
        if not RENAMES:
            pytest.xfail("rename answers EPERM before Linux 6.5")
        resctrl.make("gold")
        moved = resctrl.path("gold", KEY)
        os.rename(group, moved)
        assert read_group(moved, [])[0] == identity
    else:
        os.rmdir(group)
        made(monitor)
        assert read_group(group, [])[0] != identity


def test_group_moved_to_another_class_continues_counting(monitor: Monitor, resctrl: Resctrl) -> None:
    if not RENAMES:
        pytest.xfail("rename answers EPERM before Linux 6.5")
    group = made(monitor)
    grown(group, 1_000_000)
    first = by_path(monitor.read(KEY))[TOTAL]
    resctrl.make("gold")
    os.rename(group, resctrl.path("gold", KEY))
    second = by_path(monitor.read(KEY))[TOTAL]
    assert first <= second <= by_hand(resctrl.path("gold", KEY))[TOTAL]
    classes = {reading.rdt_class for reading in monitor.read(KEY, by_class=True)}
    assert classes == {"", "gold"}
