"""Limits of running pods on a real kernel: another class at once, for all that starts and enters, with all bytes."""

import contextlib
import os
import signal
import time
from pathlib import Path
from random import Random

import pytest
from hosts.killed_hook import Signal, interrupted

from kernel.counted.conftest import COUNTED, EACH_ONCE, on
from kernel.counted.truth import Comparison, Stepped, copy, in_steps
from kernel.groups import Place, Resctrl, place_of
from kernel.installed import Installed, resctrl_hook
from kernel.pods import KubernetesPod
from kernel.runtimes import wait_until
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.core.node.reconcile.vanished import read_vanished

HOUSES = ("observe",)
pytestmark = COUNTED
FORKS = "while :; do sleep 5 & sleep 0.1; done"
BUSY = "while :; do :; done"
CLUSTERS = on(pytest.param("Intel", marks=pytest.mark.guest(cpus=4, numa=4, snc=2, sparse=1, count=1)))
SCARCE = on(pytest.param("Intel", marks=pytest.mark.guest(cpus=8, numa=2, bandwidth=640, core=320)))


def places(pod: KubernetesPod, *pids: int) -> set[Place]:
    """Return the places of containers' threads that are there now."""
    found = set()
    for task in set().union(*map(pod.threads, pids)):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.add(place_of(task))
    return found


def limits(installed: Installed) -> list[str]:
    return [one["pod"] for one in installed.items("limits")]


@EACH_ONCE
def test_limited_pod_moves_with_all_bytes_and_returns(
    pods: list[KubernetesPod], comparison: Comparison, resctrl: Resctrl, processor: str
) -> None:
    pod, installed = pods[0], comparison.installed
    resctrl.make("batch")
    pid = pod.start("c1", in_steps(*[copy(10)] * 3))
    container = Stepped(pid)
    container.step()
    totals = [comparison.check(pod.uid, "before")]
    for words, rdt_class in (["limit", "--class", "batch"], "batch"), (["unlimit"], ""):
        installed.prints(words[0], pod.uid, *words[1:])
        assert places(pod, pid) == {Place(rdt_class, pod.uid)}
        container.step()
        totals.append(comparison.check(pod.uid, f"after {words[0]}", rdt_class=rdt_class))
        assert totals[-1] > totals[-2]
    assert limits(installed) == []


@CLUSTERS
def test_total_of_a_limited_pod_stays_on_clusters_of_a_socket(
    pod: KubernetesPod, installed: Installed, resctrl: Resctrl, processor: str
) -> None:
    pid = pod.start("c1", in_steps(copy(10), copy(10)))
    container, totals = Stepped(pid), []
    for words in (["limit", "--mb", "30"], ["unlimit"]):
        container.step()
        totals.append(installed.total_bytes(pod.uid))
        installed.prints(words[0], pod.uid, *words[1:])
        assert installed.total_bytes(pod.uid) == totals[-1]
        assert places(pod, pid) == {Place("".join(resctrl.classes()), pod.uid)}
    assert 0 < totals[0] < totals[1]
    assert resctrl.classes() == []


@EACH_ONCE
def test_what_starts_and_forks_in_a_limited_pod_is_limited(
    pod: KubernetesPod, installed: Installed, resctrl: Resctrl, processor: str
) -> None:
    resctrl.make("batch", "gold")
    pid = pod.start("c1", FORKS)
    installed.prints("limit", pod.uid, "--class", "batch")
    for _ in range(20):
        assert places(pod, pid) == {Place("batch", pod.uid)}
    later = pod.start("c2", FORKS, rdt_class="gold")
    installed.reconcile()
    assert places(pod, pid, later) == {Place("batch", pod.uid)}
    installed.prints("unlimit", pod.uid)
    for _ in range(20):
        assert places(pod, pid) == {Place("", pod.uid)}
        assert places(pod, later) == {Place("gold", pod.uid)}


@SCARCE
def test_limited_pod_moves_less_in_the_next_second(
    pod: KubernetesPod, installed: Installed, resctrl: Resctrl, processor: str
) -> None:
    pod.start("c1", BUSY)

    def moved() -> int:
        before = installed.total_bytes(pod.uid)
        time.sleep(1)
        return installed.total_bytes(pod.uid) - before

    usual = max(moved() for _ in range(3))
    installed.prints("limit", pod.uid, "--mb", "10")
    limited = moved()
    print(f"{usual} bytes in a second, {limited} in the one after the limit")
    assert limited < usual / 2
    installed.prints("unlimit", pod.uid)
    wait_until(lambda: moved() > usual / 2, "the pod moves as much as before")


@EACH_ONCE
@pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.nightly)])
def test_killed_command_leaves_no_limit(
    pod: KubernetesPod, installed: Installed, resctrl: Resctrl, processor: str, kills: int
) -> None:
    pid, weight = pod.start("c1", FORKS), pod.cgroup / "cpu.weight"
    words = {"limit": ["limit", pod.uid, "--mb", "30", "--cpu-weight", "10"], "unlimit": ["unlimit", pod.uid]}
    effects, chance, met = {}, Random(1), 0
    for name, command in words.items():
        with interrupted(every := Signal()):
            installed.prints(*command)
        effects[name] = every.count
    for name in chance.choices([*words], k=kills):
        if name == "unlimit":
            installed.prints(*words["limit"])
            assert int(weight.read_text()) == 10
        moment, process = chance.randrange(effects[name]), os.fork()
        if not process:
            with interrupted(Signal(moment)):
                resctrl_hook("--config", installed.config, *words[name])
            os._exit(0)  # the pod had fewer threads to move than before
        killed = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
        met += killed and (resctrl.classes() != [] or int(weight.read_text()) != 100)
        reconcile(installed.context(), Options(wait=False))
        if limits(installed):  # killed after the values of `limit` were written, or before `unlimit` restored any
            assert places(pod, pid) == {Place("".join(resctrl.classes()), pod.uid)}
            installed.prints(*words["unlimit"])
        assert places(pod, pid) == {Place("", pod.uid)}
        assert int(weight.read_text()) == 100
        assert resctrl.classes() == []
        assert not Path(installed.state, "temporary-values.json").exists()
    assert read_vanished(str(installed.state))["total"] == 0, "a killed command is no other program"
    print(f"{kills} kills at {effects} effects, {met} of them met changed values")
    assert met > kills // 4
