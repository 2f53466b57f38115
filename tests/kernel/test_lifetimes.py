"""Lifetimes on the real kernel: restarts keep the RMID, classes change, adoption moves threads, prunes are repaired."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kernel.groups import RENAMES, Resctrl, place_of
from kernel.installed import Installed
from kernel.pods import UID, KubernetesPod
from kernel.runtimes import Runtime, wait_until
from resctrl_hooks import Monitor

pytestmark = pytest.mark.only(driver="cgroupfs")
SLEEP = "sleep 1000"
RESTARTS = 10
PROCESSES = 200


class Pod(KubernetesPod):
    """A pod whose reconcile is asked for its report."""

    def reconcile(self, *options: str) -> dict[str, Any]:
        """Run it once; its report, without which nothing is wrong any more."""
        command = self.installed.command("reconcile", "--json", *options)
        done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True)
        report: dict[str, Any] = json.loads(done.stdout)
        assert report["ok"], (report, done.stderr)
        return report

    def total_bytes(self) -> float:
        """Return the pod's total memory bandwidth, from the library."""
        readings = Monitor(os.environ["RESCTRL_ROOT"], state_dir=self.installed.state).read(UID)
        return sum(reading.value or 0 for reading in readings if reading.counter.name == "mbm_total_bytes")


def done(report: dict[str, Any], event: str) -> list[str]:
    """Return the ids of the objects that a reconcile changed in this way."""
    return [item["id"] for item in report["items"] if item["event"] == event]


@pytest.fixture
def pod(runtime: Runtime, installed: Installed, bundle: Callable[..., str], resctrl: Resctrl) -> Iterator[Pod]:
    del resctrl  # there before, and cleared after
    made = Pod(UID, runtime, installed, bundle)
    yield made
    made.remove()


def test_pod_of_four_containers_keeps_rmid_over_ten_restarts(pod: Pod, resctrl: Resctrl) -> None:
    names = [f"c{number}" for number in range(4)]
    for name in names:
        pod.start(name, SLEEP)
    group = resctrl.path(group=UID)
    made = os.stat(group).st_ino
    for number in range(RESTARTS):
        name = names[number % len(names)]
        pod.end(name)
        pid = pod.start(name, SLEEP)
        assert place_of(pid).group == UID
    assert os.stat(group).st_ino == made, "the group was created again, so its counters restarted"
    for name in names:
        pod.end(name)
    assert os.path.isdir(group), "the pod lives, without containers"
    for folder in (*pod.cgroup.glob("*/"), pod.cgroup):
        folder.rmdir()
    assert done(pod.reconcile(), "released") == [UID]
    assert list(resctrl.groups()) == []


def test_one_of_two_containers_changes_class_and_other_stays(pod: Pod, resctrl: Resctrl) -> None:
    gold, silver = resctrl.make("gold"), resctrl.make("silver")
    del gold, silver
    stays = pod.start("stays", SLEEP, rdt_class="gold")
    moves = pod.start("moves", SLEEP, rdt_class="gold")
    assert place_of(stays) == place_of(moves)
    for tid in pod.threads(moves):
        resctrl.join(tid, "silver")
    pod.reconcile()
    assert (place_of(moves).rdt_class, place_of(moves).group) == ("silver", UID)
    assert (place_of(stays).rdt_class, place_of(stays).group) == ("gold", UID)


def test_pod_that_changes_class_keeps_its_group(pod: Pod, resctrl: Resctrl) -> None:
    resctrl.make("gold")
    resctrl.make("silver")
    pid = pod.start("one", SLEEP, rdt_class="gold")
    made = os.stat(resctrl.path("gold", UID)).st_ino
    counted = pod.total_bytes()
    for tid in pod.threads(pid):
        resctrl.join(tid, "silver")
    pod.reconcile()
    assert (place_of(pid).rdt_class, place_of(pid).group) == ("silver", UID)
    if RENAMES:
        assert not os.path.exists(resctrl.path("gold", UID))
        assert os.stat(resctrl.path("silver", UID)).st_ino == made
    else:  # another group and another RMID; both are counted together
        assert os.stat(resctrl.path("gold", UID)).st_ino == made
        assert resctrl.tasks("gold", UID) == set()
    assert pod.total_bytes() >= counted
    pod.end("one")
    pod.cgroup.rmdir()
    assert done(pod.reconcile(), "released") == [UID]
    assert {os.path.basename(path) for path in resctrl.groups()} == {"gold", "silver"}


def test_fork_bomb_is_completely_in_group_after_adoption(pod: Pod, resctrl: Resctrl) -> None:
    # Each of these lives for a moment and is followed by the next, so that some are always just being born.
    churn = "while :; do sleep 0.01; done"
    command = f"i=0; while [ $i -lt {PROCESSES - 20} ]; do sleep 1000 & i=$((i+1)); done; "
    command += f"i=0; while [ $i -lt 10 ]; do ({churn}) & i=$((i+1)); done; wait"
    pid = pod.start("bomb", command, hooks={})
    wait_until(lambda: len(pod.threads(pid)) >= PROCESSES - 20, "the bomb has gone off")
    pod.reconcile()
    for tid in pod.threads(pid):
        try:
            assert place_of(tid).group == UID
        except (FileNotFoundError, ProcessLookupError):
            continue
    assert len(pod.threads(pid) & resctrl.tasks(group=UID)) >= PROCESSES - 20


def test_exec_process_is_moved_into_group(pod: Pod) -> None:
    pid = pod.start("c0", SLEEP)
    pod.runtime.command("exec", "--detach", "c0", "/bin/sleep", "1000")
    wait_until(lambda: len(pod.threads(pid)) == 2, "the second process runs")  # init and it
    outside = {tid for tid in pod.threads(pid) if place_of(tid).group != UID}
    assert len(outside) == 1, "facts: what enters later is not in its container's group"
    pod.reconcile()
    assert all(place_of(tid).group == UID for tid in pod.threads(pid))


def test_remounted_resctrl_gets_groups_again(pod: Pod, resctrl: Resctrl) -> None:
    pid = pod.start("c0", SLEEP)
    subprocess.run(["umount", resctrl.root], check=True)
    subprocess.run(["mount", "-t", "resctrl", "resctrl", resctrl.root], check=True)
    assert place_of(pid).group == ""
    pod.reconcile()
    assert place_of(pid).group == UID
