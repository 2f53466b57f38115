"""Lifetimes on the real kernel: restarts keep the RMID, classes change, adoption moves threads."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hosts.processes import is_headless

from kernel.bundles import HEADLESS, HOST_USR
from kernel.groups import RENAMES, Place, Resctrl, place_of
from kernel.installed import Installed
from kernel.pods import UID, Containers, Hooks, KubernetesPod
from kernel.runtimes import Failed, wait_until
from resctrl_hooks.core.inventory.gather import gather
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.core.node.resctrl.rmids import total_closids, total_rmids

pytestmark = pytest.mark.only(driver="cgroupfs")
RESTARTS, PROCESSES = 10, 200


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
    items = json.loads(installed.reconcile("--json").stdout)["items"]
    return [item["id"] for item in items if item["event"] == "released"]


def test_pod_of_four_containers_keeps_rmid_over_ten_restarts(pod: KubernetesPod, resctrl: Resctrl) -> None:
    names = [f"c{number}" for number in range(4)]
    for name in names:
        pod.start(name)
    group = resctrl.folder(group=UID)
    made = os.stat(group).st_ino
    for number in range(RESTARTS):
        name = names[number % len(names)]
        pod.end(name)
        assert place_of(pod.start(name)).group == UID
    assert os.stat(group).st_ino == made, "the group was created again, so its counters restarted"
    for name in names:
        pod.end(name)
    assert os.path.isdir(group), "the pod lives, without containers"
    for folder in (*pod.cgroup.glob("*/"), pod.cgroup):
        folder.rmdir()
    assert released(pod.installed) == [UID]
    assert list(resctrl.groups()) == []


def test_container_that_cannot_be_created_leaves_nothing(pod: KubernetesPod) -> None:
    pod.start("c1")
    with pytest.raises(Failed):
        pod.start("c0", ["/no/such/program"])
    pod.runtime.delete("c0", force=True, check=False)
    pod.installed.reconcile()
    (listed,) = pod.installed.items("list")
    assert (listed["state"], len(listed["containers"])) == ("assigned", 1)


def test_pod_that_changes_class_keeps_its_group(pod: KubernetesPod, resctrl: Resctrl) -> None:
    resctrl.make("gold", "silver")
    pid = pod.start("one", rdt_class="gold")
    made = os.stat(resctrl.folder("gold", UID)).st_ino
    counted = pod.installed.total_bytes(UID)
    for tid in pod.threads(pid):
        resctrl.join(tid, "silver")
    pod.installed.reconcile()
    assert (place_of(pid).rdt_class, place_of(pid).group) == ("silver", UID)
    if RENAMES:
        assert not os.path.exists(resctrl.folder("gold", UID))
        assert os.stat(resctrl.folder("silver", UID)).st_ino == made
    else:  # another group and another RMID; both are counted together
        assert os.stat(resctrl.folder("gold", UID)).st_ino == made
        assert resctrl.tasks(f"gold/mon_groups/{UID}") == set()
    assert pod.installed.total_bytes(UID) >= counted
    pod.end("one")
    pod.cgroup.rmdir()
    assert released(pod.installed) == [UID]
    assert resctrl.present() == ["gold", "silver"]


def test_fork_bomb_is_completely_in_group_after_adoption(pod: KubernetesPod, resctrl: Resctrl) -> None:
    # Each of these lives for a moment and is followed by the next, so that some are always just being born.
    churn = "while :; do sleep 0.01; done"
    command = f"i=0; while [ $i -lt {PROCESSES - 20} ]; do sleep 1000 & i=$((i+1)); done; "
    command += f"i=0; while [ $i -lt 10 ]; do ({churn}) & i=$((i+1)); done; wait"
    pid = pod.start("bomb", command, hooks={})
    wait_until(lambda: len(pod.threads(pid)) >= PROCESSES - 20, "the bomb has gone off")
    pod.installed.reconcile()
    for tid in pod.threads(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            assert place_of(tid).group == UID
    assert len(pod.threads(pid) & resctrl.tasks(f"mon_groups/{UID}")) >= PROCESSES - 20


def test_kernel_keeps_ended_main_thread_in_its_group(pod: KubernetesPod, resctrl: Resctrl) -> None:
    with headless(pod) as pid:
        (other,) = pod.threads(pid)
        assert other != pid, "facts: cgroup.threads lacks it"
        assert {pid, other} <= resctrl.tasks(f"mon_groups/{UID}"), "facts: tasks has it"
        assert place_of(pid).group == UID
        resctrl.make("gold")
        resctrl.join(pid, "gold")  # facts: it can still be moved, alone
        assert (place_of(pid).rdt_class, place_of(other).rdt_class) == ("gold", "")
        pod.installed.reconcile()
        assert (place_of(other).rdt_class, place_of(other).group) == ("", UID)
        assert not os.path.exists(resctrl.folder("gold", UID)), "an ended thread needs no group"


def test_container_without_main_thread_keeps_its_group(
    containers: Containers, installed: Installed, resctrl: Resctrl
) -> None:
    with headless(containers) as pid:
        folder = resctrl.folder(group=place_of(pid).group)
        for _ in range(2):
            assert released(installed) == []
            assert os.path.isdir(folder)
    containers.runtime.delete("c0")
    assert not os.path.isdir(folder)


@pytest.mark.settings(rdt={"enabled": True, "allow": {"": ["gold"]}, "failurePolicy": "fail"})
def test_class_is_joined_before_group(containers: Containers, installed: Installed, resctrl: Resctrl) -> None:
    resctrl.make("gold")
    pid = containers.create("c1", annotations={"class.rdt.resctrl-hooks.io": "gold"})
    (key,) = [path.name for path in Path(resctrl.folder("gold"), "mon_groups").iterdir()]
    threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
    assert {place_of(thread) for thread in threads} == {Place("gold", key)}, installed.said()
    assert len(threads) > (containers.runtime.name == "runc")
    containers.runtime.start("c1")
    assert place_of(pid) == Place("gold", key)


OWN_CLASS = {"l3CacheSchema": "L3:0=f"}
KINDS: dict[str, list[dict[str, Any]]] = {
    "runc": [OWN_CLASS],
    "crun": [{"closID": "team", "enableMonitoring": True}, OWN_CLASS, {"enableMonitoring": True}],
}
"""Values of `linux.intelRdt` for which a runtime creates a class or a group."""


def test_classes_and_groups_of_a_runtime_are_counted_as_its_own(
    containers: Containers, context: Context, resctrl: Resctrl
) -> None:
    resctrl.make("team")
    for number, kind in enumerate(KINDS[containers.runtime.name]):
        hooks: Hooks | None = {} if number else None  # one calls the hook; reconcile finds the others
        containers.create(f"{number:064x}", hooks=hooks, intelRdt=kind)
    account = gather(context).account
    assert account is not None
    assert sum(account.rmids.values()) == total_rmids(context.monitor.resctrl), account.as_line()
    assert sum(account.closids.values()) == total_closids(context.monitor.resctrl), account.as_line()
    owners = {"group" if one.group else "class" for one in account.of("runtimes")}
    assert owners == ({"class"} if containers.runtime.name == "runc" else {"class", "group"}), account
    reconcile(context, Options(wait=False))
    containers.runtime.clean()
    reconcile(context, Options(wait=False))
    assert resctrl.present() == ["team"]
