"""Limits of running pods on a real kernel: another class at once, for all that starts and enters, with all bytes."""

import subprocess
import sys
import time
from pathlib import Path
from random import Random

from kernel.counted.conftest import COUNTED, EACH_ONCE
from kernel.counted.truth import Comparison, Stepped, copy, in_steps
from kernel.groups import Place, Resctrl, place_of
from kernel.installed import Installed, resctrl_hook
from kernel.pods import KubernetesPod
from kernel.runtimes import wait_until

HOUSES = ("observe",)
pytestmark = COUNTED
FORKS = "while :; do /bin/true; sleep 0.1; done"
KILLS = 3


def places(pod: KubernetesPod, pid: int) -> set[Place]:
    """Return the places of a container's threads that are there now."""
    found = set()
    for task in pod.threads(pid):
        try:
            found.add(place_of(task))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def moved(pod: KubernetesPod, pid: int, rdt_class: str) -> None:
    """Wait until a container is in a class: a child whose fork the kernel had begun has the former class once."""
    wait_until(lambda: places(pod, pid) == {Place(rdt_class, pod.uid)}, f"all threads are in {rdt_class or 'the root'}")


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
    before = comparison.check(pod.uid, "before")
    for words, place in (("limit", Place("batch", pod.uid)), ("unlimit", Place("", pod.uid))):
        installed.prints(words, pod.uid, *(["--class", "batch"] if words == "limit" else []))
        assert places(pod, pid) == {place}
        container.step()
        now = comparison.check(pod.uid, f"after {words}", rdt_class=place.rdt_class)
        assert now > before
        before = now
    assert limits(installed) == []


@EACH_ONCE
def test_what_starts_and_forks_in_a_limited_pod_is_limited(
    pod: KubernetesPod, installed: Installed, resctrl: Resctrl, processor: str
) -> None:
    resctrl.make("batch")
    pid = pod.start("c1", FORKS)
    installed.prints("limit", pod.uid, "--class", "batch")
    moved(pod, pid, "batch")
    for _ in range(20):
        assert places(pod, pid) <= {Place("batch", pod.uid)}
    later = pod.start("c2", FORKS)
    assert places(pod, later) <= {Place("batch", pod.uid)}
    installed.reconcile()
    assert places(pod, pid) | places(pod, later) == {Place("batch", pod.uid)}
    installed.prints("unlimit", pod.uid)
    wait_until(lambda: places(pod, pid) | places(pod, later) == {Place("", pod.uid)}, "all threads are back")
    installed.reconcile()
    assert places(pod, later) <= {Place("", pod.uid)}


@EACH_ONCE
def test_class_of_a_limit_ends_with_it_and_without_a_free_one_the_others_are_named(
    pod: KubernetesPod, installed: Installed, resctrl: Resctrl, processor: str
) -> None:
    pid = pod.start("c1", FORKS)
    installed.prints("limit", pod.uid, "--mb", "30")
    (name,) = resctrl.classes()
    moved(pod, pid, name)
    assert "=30" in resctrl.read(name, "schemata")
    installed.prints("unlimit", pod.uid)
    assert resctrl.classes() == []
    for number in range(resctrl.closids - 1):
        resctrl.make(f"taken{number}")
    refused = resctrl_hook("--config", installed.config, "limit", pod.uid, "--mb", "30")
    assert refused.exit_code == 1
    assert "taken0" in refused.output
    installed.prints("limit", pod.uid, "--class", "taken0")
    resctrl.rmdir(resctrl.path("taken0"))
    installed.reconcile(check=False)
    assert resctrl_hook("--config", installed.config, "unlimit", pod.uid).exit_code in (0, 1)
    installed.reconcile()
    wait_until(lambda: places(pod, pid) == {Place("", pod.uid)}, "the pod has a group in the root class")
    assert limits(installed) == []


@EACH_ONCE
def test_killed_command_leaves_no_limit(
    pod: KubernetesPod, installed: Installed, resctrl: Resctrl, processor: str
) -> None:
    pid = pod.start("c1", FORKS)
    weight = pod.cgroup / "cpu.weight"
    words = [sys.executable, "-m", "resctrl_hooks", "--config", str(installed.config), "limit", pod.uid]
    begun = time.monotonic()
    subprocess.run([*words, "--mb", "30", "--cpu-weight", "10", "--for", "1s"], check=True)
    usual, chance = time.monotonic() - begun, Random(1)
    assert int(weight.read_text()) == 10
    for _ in range(KILLS):
        installed.prints("unlimit", pod.uid)
        process = subprocess.Popen([*words, "--mb", "30", "--cpu-weight", "10"])
        time.sleep(usual * chance.uniform(0.5, 1.0))
        process.kill()
        process.wait()
        installed.reconcile()
        if limits(installed):  # it had ended before the kill
            installed.prints("unlimit", pod.uid)
        assert places(pod, pid) <= {Place("", pod.uid)}
        assert int(weight.read_text()) == 100
        assert resctrl.classes() == []
        assert not Path(installed.state, "temporary-values.json").exists()
