"""Lifetimes on the real kernel: restarts keep the RMID, classes change, adoption moves threads, prunes are repaired."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hosts.processes import is_headless

from kernel.bundles import HEADLESS, HOST_USR
from kernel.containers import Containers
from kernel.groups import RENAMES, Resctrl, place_of
from kernel.installed import Installed
from kernel.pods import UID, KubernetesPod
from kernel.runtimes import wait_until

pytestmark = pytest.mark.only(driver="cgroupfs")
RESTARTS = 10
PROCESSES = 200


@contextmanager
def headless(containers: Containers) -> Iterator[int]:
    """Start container c0, whose init's main thread ends, and end it: runc and crun call it stopped already."""
    pid = containers.start("c0", HEADLESS, mounts=[HOST_USR])
    wait_until(lambda: is_headless(pid), "its main thread has ended")
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        containers.runtime.wait_stopped("c0")


def released(installed: Installed) -> list[str]:
    """Return the ids of the objects that a reconcile releases."""
    items = json.loads(installed.reconcile("--json").stdout)["items"]
    return [item["id"] for item in items if item["event"] == "released"]


def test_pod_of_four_containers_keeps_rmid_over_ten_restarts(pod: KubernetesPod, resctrl: Resctrl) -> None:
    names = [f"c{number}" for number in range(4)]
    for name in names:
        pod.start(name)
    group = resctrl.path(group=UID)
    made = os.stat(group).st_ino
    for number in range(RESTARTS):
        name = names[number % len(names)]
        pod.end(name)
        pid = pod.start(name)
        assert place_of(pid).group == UID
    assert os.stat(group).st_ino == made, "the group was created again, so its counters restarted"
    for name in names:
        pod.end(name)
    assert os.path.isdir(group), "the pod lives, without containers"
    for folder in (*pod.cgroup.glob("*/"), pod.cgroup):
        folder.rmdir()
    assert released(pod.installed) == [UID]
    assert list(resctrl.groups()) == []


def test_one_of_two_containers_changes_class_and_other_stays(pod: KubernetesPod, resctrl: Resctrl) -> None:
    gold, silver = resctrl.make("gold"), resctrl.make("silver")
    del gold, silver
    stays = pod.start("stays", rdt_class="gold")
    moves = pod.start("moves", rdt_class="gold")
    assert place_of(stays) == place_of(moves)
    for tid in pod.threads(moves):
        resctrl.join(tid, "silver")
    pod.installed.reconcile()
    assert (place_of(moves).rdt_class, place_of(moves).group) == ("silver", UID)
    assert (place_of(stays).rdt_class, place_of(stays).group) == ("gold", UID)


def test_pod_that_changes_class_keeps_its_group(pod: KubernetesPod, resctrl: Resctrl) -> None:
    resctrl.make("gold")
    resctrl.make("silver")
    pid = pod.start("one", rdt_class="gold")
    made = os.stat(resctrl.path("gold", UID)).st_ino
    counted = pod.installed.total_bytes(UID)
    for tid in pod.threads(pid):
        resctrl.join(tid, "silver")
    pod.installed.reconcile()
    assert (place_of(pid).rdt_class, place_of(pid).group) == ("silver", UID)
    if RENAMES:
        assert not os.path.exists(resctrl.path("gold", UID))
        assert os.stat(resctrl.path("silver", UID)).st_ino == made
    else:  # another group and another RMID; both are counted together
        assert os.stat(resctrl.path("gold", UID)).st_ino == made
        assert resctrl.tasks("gold", UID) == set()
    assert pod.installed.total_bytes(UID) >= counted
    pod.end("one")
    pod.cgroup.rmdir()
    assert released(pod.installed) == [UID]
    assert resctrl.names() == ["gold", "silver"]


def test_fork_bomb_is_completely_in_group_after_adoption(pod: KubernetesPod, resctrl: Resctrl) -> None:
    # Each of these lives for a moment and is followed by the next, so that some are always just being born.
    churn = "while :; do sleep 0.01; done"
    command = f"i=0; while [ $i -lt {PROCESSES - 20} ]; do sleep 1000 & i=$((i+1)); done; "
    command += f"i=0; while [ $i -lt 10 ]; do ({churn}) & i=$((i+1)); done; wait"
    pid = pod.start("bomb", command, hooks={})
    wait_until(lambda: len(pod.threads(pid)) >= PROCESSES - 20, "the bomb has gone off")
    pod.installed.reconcile()
    for tid in pod.threads(pid):
        try:
            assert place_of(tid).group == UID
        except (FileNotFoundError, ProcessLookupError):
            continue
    assert len(pod.threads(pid) & resctrl.tasks(group=UID)) >= PROCESSES - 20


def test_exec_process_is_moved_into_group(pod: KubernetesPod) -> None:
    pid = pod.start("c0")
    pod.runtime.command("exec", "--detach", "c0", "/bin/sleep", "1000")
    wait_until(lambda: len(pod.threads(pid)) == 2, "the second process runs")  # init and it
    outside = {tid for tid in pod.threads(pid) if place_of(tid).group != UID}
    assert len(outside) == 1, "facts: what enters later is not in its container's group"
    pod.installed.reconcile()
    assert all(place_of(tid).group == UID for tid in pod.threads(pid))


def test_remounted_resctrl_gets_groups_again(pod: KubernetesPod, resctrl: Resctrl) -> None:
    pid = pod.start("c0")
    subprocess.run(["umount", resctrl.root], check=True)
    subprocess.run(["mount", "-t", "resctrl", "resctrl", resctrl.root], check=True)
    assert place_of(pid).group == ""
    pod.installed.reconcile()
    assert place_of(pid).group == UID


def test_kernel_keeps_ended_main_thread_in_its_group(pod: KubernetesPod, resctrl: Resctrl) -> None:
    with headless(pod) as pid:
        (other,) = pod.threads(pid)
        assert other != pid, "facts: cgroup.threads lacks it"
        assert {pid, other} <= resctrl.tasks(group=UID), "facts: tasks has it"
        assert place_of(pid).group == UID
        resctrl.make("gold")
        resctrl.join(pid, "gold")  # facts: it can still be moved, alone
        assert (place_of(pid).rdt_class, place_of(other).rdt_class) == ("gold", "")
        pod.installed.reconcile()
        assert (place_of(other).rdt_class, place_of(other).group) == ("", UID)
        assert not os.path.exists(resctrl.path("gold", UID)), "an ended thread needs no group"


def test_pod_without_main_thread_keeps_its_group_and_follows_its_class(pod: KubernetesPod, resctrl: Resctrl) -> None:
    with headless(pod) as pid:
        (other,) = pod.threads(pid)
        for _ in range(2):
            assert released(pod.installed) == []
        resctrl.make("gold")
        resctrl.join(other, "gold")
        pod.installed.reconcile()
        assert (place_of(other).rdt_class, place_of(other).group) == ("gold", UID)
        assert released(pod.installed) == []


def test_container_without_main_thread_keeps_its_group(
    containers: Containers, installed: Installed, resctrl: Resctrl
) -> None:
    with headless(containers) as pid:
        folder = resctrl.path(group=place_of(pid).group)
        for _ in range(2):
            assert released(installed) == []
            assert os.path.isdir(folder)
    containers.runtime.delete("c0")
    assert not os.path.isdir(folder)
