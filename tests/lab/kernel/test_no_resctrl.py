"""A node whose kernel has no resctrl: containers are recorded without a word, and one line gives the reason."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.bundles import FIRST_INSTRUCTION
from kernel.groups import Place, parse_place, place_of
from kernel.pods import KubernetesPod
from kernel.runtimes import run

pytestmark = pytest.mark.only(driver="cgroupfs", runtime_name="crun")
ABSENT = "/absent/sys/fs/resctrl"
FILE_SYSTEMS = Path("/proc/filesystems")


@pytest.fixture
def without_type(tmp_path: Path) -> Iterator[None]:
    """Hide resctrl in the kernel's list of file systems."""
    lines = FILE_SYSTEMS.read_text().splitlines(keepends=True)
    others = tmp_path / "filesystems"
    others.write_text("".join(line for line in lines if line.split()[-1] != "resctrl"))
    run(["mount", "--bind", str(others), str(FILE_SYSTEMS)])
    yield
    run(["umount", str(FILE_SYSTEMS)])


@pytest.mark.parametrize("policy", ["ignore", "fail"])
def test_pod_is_recorded_and_judged_and_the_reason_is_logged_once(
    pod: KubernetesPod, without_type: None, policy: str
) -> None:
    pod.installed.configure(resctrlPath=ABSENT, failurePolicy=policy)
    assert parse_place(pod.run("c0", FIRST_INSTRUCTION)) == Place("", "")
    assert place_of(pod.start("c1")) == Place("", "")
    assert pod.installed.said() == ""
    for _ in range(2):
        pod.installed.reconcile()
    (line,) = pod.installed.said().splitlines()
    assert "this node has no resctrl" in line
    assert set(pod.installed.states().values()) == {"no-rdt"}
    assert json.loads(pod.installed.prints("diagnose", "--for", "5s", "-o", "json"))["kind"] == "DiagnosisList"


def test_mount_that_is_missing_is_a_failure_where_the_kernel_has_resctrl(pod: KubernetesPod) -> None:
    pod.installed.configure(resctrlPath=ABSENT)
    assert place_of(pod.start("c0")) == Place("", "")
    assert f"resctrl is not mounted at {ABSENT}" in pod.installed.said()
    assert pod.installed.reconcile(check=False).returncode == 1
