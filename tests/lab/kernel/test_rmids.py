"""RMIDs run out in two ways: all are in use (ENOSPC), or those that were freed are still in limbo (EBUSY).

The kernel's answers are in tests/lab/conformance/test_ids.py; here are the containers that get them.
"""

import errno
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.groups import Place, Resctrl, place_of
from kernel.installed import Staged
from kernel.pods import UID, KubernetesPod
from kernel.runtimes import wait_until

pytestmark = pytest.mark.only(driver="cgroupfs")


def fill(resctrl: Resctrl, count: int) -> list[str]:
    """Take `count` RMIDs, the root group having the first."""
    return [resctrl.make(group=f"pod{number}") for number in range(count)]


@pytest.fixture
def installed(tmp_path: Path) -> Staged:
    return Staged(str(tmp_path / "host"))


def refusal(resctrl: Resctrl) -> int:
    """Make groups pod0, pod1, … until the kernel refuses: with which errno."""
    for number in itertools.count():
        try:
            os.mkdir(resctrl.path(group=f"pod{number}"))
        except OSError as error:
            return error.errno or 0
    raise AssertionError


def nothing_is_left(pod: KubernetesPod) -> None:
    """End the container, of which poststop leaves nothing, then the pod, of which reconcile leaves nothing."""
    pod.end("c0")
    assert not {"c0", "c-c0"} & {os.path.basename(record) for record in pod.installed.records()}
    pod.remove()
    pod.installed.reconcile()
    assert pod.installed.records() == []


def waits(pod: KubernetesPod) -> bool:
    return f"waiting/{UID}" in pod.installed.records()


@pytest.mark.guest(rmids=4)
def test_container_starts_without_rmid_and_gets_one_later(pod: KubernetesPod, resctrl: Resctrl) -> None:
    others = fill(resctrl, 3)
    pid = pod.start("c0", "sleep 1000 & wait")
    wait_until(lambda: len(pod.threads(pid)) == 2, "its child runs")
    assert place_of(pid) == Place("", "")
    assert waits(pod)
    assert "Out of RMIDs" in pod.installed.said()
    os.rmdir(others[0])
    wait_until(lambda: not pod.installed.reconcile(check=False).returncode, "reconcile finds an RMID out of limbo")
    assert {place_of(tid) for tid in pod.threads(pid)} == {Place("", UID)}
    assert not waits(pod)
    nothing_is_left(pod)
    assert sorted(resctrl.groups()) == sorted(others[1:])


@pytest.mark.guest(rmids=4)
def test_ended_pod_makes_room(pod: KubernetesPod, resctrl: Resctrl) -> None:
    pod.start("c0")
    pod.end("c0")
    pod.remove()
    fill(resctrl, 2)
    other = KubernetesPod("7b1d2c64-55e1-4c0b-8f0a-6e2f9b4d8a02", pod.runtime, pod.installed, pod._make_bundle)
    try:
        pid = other.start("c1")
        assert not os.path.exists(resctrl.path(group=UID))
        # Its RMID is in limbo for a second or more, and no hook sleeps.
        wait_until(lambda: not pod.installed.reconcile(check=False).returncode, "reconcile finds an RMID out of limbo")
        assert place_of(pid) == Place("", other.uid)
    finally:
        other.remove()


@pytest.fixture
def for_ever(resctrl: Resctrl) -> Iterator[None]:
    """No RMID comes out of limbo: any occupancy is too much to reuse one."""
    threshold = Path(resctrl.root, "info/L3_MON/max_threshold_occupancy")
    kept = threshold.read_text()
    threshold.write_text("0\n")
    yield
    threshold.write_text(kept)


@pytest.mark.guest(rmids=4, occupancy=3)
@pytest.mark.usefixtures("for_ever")
def test_container_starts_while_all_rmids_are_in_limbo(pod: KubernetesPod, resctrl: Resctrl) -> None:
    if refusal(resctrl) == errno.ENOSPC:  # the first here: nothing is in limbo yet
        os.rmdir(resctrl.path(group="pod0"))
    pid = pod.start("c0")
    assert place_of(pid) == Place("", "")
    assert waits(pod)
    assert f"errno={errno.EBUSY}" in pod.installed.said()
    assert pod.installed.reconcile(check=False).returncode
    assert waits(pod)
    nothing_is_left(pod)
