"""A change of groupPrefix while a container runs, on a kernel that renames groups and on one that cannot."""

import os
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from kernel.counted.truth import mounted_with, rmid_of
from kernel.groups import RENAMES, Place, Resctrl, place_of
from kernel.pods import UID, KubernetesPod
from kernel.runtimes import wait_until
from resctrl_hooks.core.node.resctrl.renaming import can_rename, rename

pytestmark = [pytest.mark.only(driver="cgroupfs"), pytest.mark.guest(rmids=12, count=1, cpus=1)]
LOAD = "while :; do :; done"


@pytest.fixture(autouse=True)
def with_rmids(resctrl: Resctrl) -> Iterator[None]:
    """Mount resctrl so that it shows RMIDs, if the kernel can; it can since it renames groups."""
    with mounted_with("debug") if RENAMES else nullcontext():
        yield


def kernels_count(resctrl: Resctrl, group: str) -> int:
    folder = f"{resctrl.path(group=group)}/mon_data"
    files = [f"{folder}/{domain}/mbm_total_bytes" for domain in os.listdir(folder) if domain.startswith("mon_L3")]
    total = 0
    for path in files:
        with open(path, encoding="utf-8") as source:
            total += int(source.read())
    return total


def freeze(pod: KubernetesPod, state: str) -> None:
    """Let the pod's counts stand still, or go on."""
    (pod.cgroup / "cgroup.freeze").write_text(state)
    wait_until(lambda: f"frozen {state}" in (pod.cgroup / "cgroup.events").read_text(), f"frozen is {state}")


def test_running_pod_keeps_rmid_and_total_over_a_change_of_prefix(pod: KubernetesPod, resctrl: Resctrl) -> None:
    installed = pod.installed
    pid = pod.start("c0", LOAD)
    wait_until(lambda: installed.total_bytes(UID) > 0, "it has counted")
    freeze(pod, "1")
    rmid = rmid_of(resctrl.path(group=UID)) if RENAMES else 0
    inode, total = os.stat(resctrl.path(group=UID)).st_ino, installed.total_bytes(UID)

    installed.configure(groupPrefix="rh-")
    name = f"rh-{UID}" if RENAMES else UID
    for _ in range(2):
        installed.reconcile()
        assert list(resctrl.groups()) == [resctrl.path(group=name)]
        assert place_of(pid) == Place("", name)
        assert os.stat(resctrl.path(group=name)).st_ino == inode
        assert installed.total_bytes(UID) == total == kernels_count(resctrl, name)
    assert "another program" not in installed.said()
    if RENAMES:
        assert rmid_of(resctrl.path(group=name)) == rmid
    freeze(pod, "0")
    wait_until(lambda: installed.total_bytes(UID) > total, "it counts on")
    second = pod.start("c1")
    assert place_of(second) == Place("", name)
    assert installed.states() == {UID: "assigned"}

    installed.configure(groupPrefix="")
    installed.reconcile()
    assert place_of(pid) == place_of(second) == Place("", UID)
    assert installed.total_bytes(UID) >= total
    for container in ("c0", "c1"):
        pod.end(container)
    pod.remove()
    installed.reconcile()
    assert (list(resctrl.groups()), installed.records()) == ([], [])


@pytest.mark.skipif(not RENAMES, reason="before Linux 6.5 no group can be renamed")
def test_group_that_monitors_cpus_cannot_leave_its_class_and_others_can(resctrl: Resctrl, pod: KubernetesPod) -> None:
    resctrl.make("gold")
    with open(f"{resctrl.make(group='cpus')}/cpus_list", "w", encoding="ascii") as out:
        out.write("0")
    resctrl.make(group="tasks")
    monitor = pod.installed.context().monitor
    monitor.ledger.prepare()
    assert not rename(monitor, "", "cpus", "gold", "cpus")
    assert can_rename(monitor)
    assert rename(monitor, "", "tasks", "gold", "tasks")
