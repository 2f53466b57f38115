"""Totals while resctrl is mounted again: the kernel gives the new groups the identities of the earlier ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel.counted.conftest import COUNTED, EACH_ONCE
from kernel.counted.said import TOTAL
from kernel.counted.truth import ROOT, mounted_with
from kernel.groups import Resctrl
from resctrl_hooks import Monitor
from resctrl_hooks.core.node.resctrl.counter_totals import ended

pytestmark = COUNTED
KEY = "job"
COPIES = (20, 60, 10)  # MiB in each mount; the second mount's count exceeds the first one's


def copy(monitor: Monitor, mebibytes: int) -> int:
    """Copy so much in the key's group, and return the group's count by the kernel."""
    work = f"import sys; sys.stdin.read(); data = bytearray({mebibytes} << 20); data[:] = bytes(data)"
    with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE) as process:
        monitor.assign_pid(KEY, process.pid)
    assert process.returncode == 0
    files = Path(ROOT, "mon_groups", KEY, "mon_data").glob(f"*/{TOTAL}")
    return sum(int(file.read_text()) for file in files)


def total(monitor: Monitor) -> int:
    return int(sum(one.value or 0 for one in monitor.read(KEY) if one.counter.name == TOTAL))


@EACH_ONCE
@pytest.mark.parametrize("shared", [False, True])
def test_total_after_each_mount_is_exact_or_reported_as_less(
    resctrl: Resctrl, tmp_path: Path, processor: str, runtime_name: str, *, shared: bool
) -> None:
    monitor = Monitor(ROOT, state_dir=str(tmp_path))
    identities, truth, last = set(), 0, 0
    for mebibytes in COPIES:
        with mounted_with("debug"):
            if shared:
                resctrl.make(group=KEY)
            assert monitor.ensure_group(KEY).origin == ("shared" if shared else "created")
            found = os.stat(resctrl.path(group=KEY))
            identities.add((found.st_dev, found.st_ino))
            truth += copy(monitor, mebibytes)
            now = total(monitor)
            assert last < now <= truth
            assert now == truth or (shared and KEY in ended(monitor, KEY))
            assert now == total(monitor), "the group stands still"
            last = now
    assert len(identities) == 1, "the kernel no longer uses identities again"
