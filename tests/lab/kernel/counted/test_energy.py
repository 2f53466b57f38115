"""Energy per pod on the kernel's own AET code is the processor's ledger's; one joule is a million accesses."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kernel.counted.conftest import COUNTED, on
from kernel.counted.truth import ROOT, Comparison, Stepped, at_rest, copy, in_steps
from kernel.groups import Resctrl
from kernel.installed import Installed, resctrl_hook
from kernel.pods import KubernetesPod

pytestmark = COUNTED
ENERGY = on(pytest.param("Intel, energy in microjoules", marks=pytest.mark.guest(cpus=4, aet=1)))
HERE, THERE = 0, 2  # A processor of each package
ACCESS = 64  # the ledger's bytes of one access
METRIC = "perf_core_energy_joules_total{"
MICROJOULE = 1e-6  # the energy of one access
EXACT = 1e-5  # the device counts in steps of 2^-18 J, and the kernel prints six decimals


def real(comparison: Comparison, rmid: int) -> list[int]:
    """Microjoules of an RMID in each package since the test began, once it is at rest."""
    return [moved // ACCESS for moved in at_rest(comparison.truth, rmid)]


def check(comparison: Comparison, pod: KubernetesPod, what: str, true: int) -> None:
    """Hold a pod's energy, as the library and the commands report it, to the truth in microjoules."""
    readings = comparison.installed.context().monitor.read(pod.uid)
    (shown,) = comparison.installed.items("show", pod.uid)
    lines = comparison.installed.prints("metrics").splitlines()
    for joules in (
        sum(one.value or 0 for one in readings if one.counter.name == "core_energy"),
        sum(one["value"] for one in shown["totals"] if one["counter"] == "core_energy"),
        sum(float(line.split()[-1]) for line in lines if line.startswith(METRIC) and pod.uid in line),
    ):
        comparison.hold(what, round(joules * 1e6), true)


def working(pod: KubernetesPod, steps: int) -> tuple[int, Stepped]:
    """Return a container that copies 20 MiB in each step."""
    pid = pod.start(f"c{pod.uid[0]}", in_steps(*[copy(20)] * steps))
    Stepped(pid).rest()
    return pid, Stepped(pid)


@ENERGY
def test_energy_of_pods_in_two_packages_before_first_read_is_counted(
    pods: list[KubernetesPod], comparison: Comparison
) -> None:
    for pod, where in zip(pods, ([HERE], [THERE], [HERE, THERE]), strict=False):
        pid, container = working(pod, len(where))
        for cpu in where:
            os.sched_setaffinity(pid, {cpu})
            container.step()
        true = real(comparison, comparison.rmid(pod.uid))  # at rest
        for package, moved in enumerate(comparison.truth.ever(comparison.rmid(pod.uid))):
            file = Path(ROOT, "mon_groups", pod.uid, f"mon_data/mon_PERF_PKG_{package:02d}/core_energy")
            text = file.read_text().strip()
            joules = 0 if text == "Unavailable" else float(text)
            assert abs(joules - moved / ACCESS * MICROJOULE) < EXACT
        check(comparison, pod, f"works on CPUs {where}", sum(true))


@ENERGY
def test_energy_of_a_handover_is_split_between_giver_and_taker(
    no_rmid_left: Callable[[], object], pods: list[KubernetesPod], comparison: Comparison
) -> None:
    installed = comparison.installed
    installed.configure(monitoring={"priority": [{"namespaces": ["urgent"], "value": 10}]})
    low, high = pods[:2]
    pid, giver = working(low, 2)
    os.sched_setaffinity(pid, {HERE})
    giver.step()
    rmid = comparison.rmid(low.uid)
    first = sum(real(comparison, rmid))
    check(comparison, low, "works in package 0 and loses its RMID to another pod", first)
    no_rmid_left()
    pid = high.start("taker", in_steps(copy(20)), annotations={"io.kubernetes.pod.namespace": "urgent"})
    assert comparison.rmid(high.uid) == rmid, installed.said()
    taker = Stepped(pid)
    taker.rest()
    os.sched_setaffinity(pid, {THERE})
    taker.step()
    giver.step()  # without an RMID: this energy belongs to no pod
    check(comparison, low, "works on without an RMID", first)
    check(comparison, high, "gets the RMID and works in package 1", sum(real(comparison, rmid)) - first)


@ENERGY
def test_energy_of_a_limited_pod_stays_and_counts_on(pods: list[KubernetesPod], comparison: Comparison) -> None:
    pod, installed = pods[0], comparison.installed
    Resctrl(ROOT).make("batch")
    pid, container = working(pod, 3)
    os.sched_setaffinity(pid, {THERE})
    for words, rdt_class in ((), ""), (("limit", pod.uid, "--class", "batch"), "batch"), (("unlimit", pod.uid), ""):
        container.step()
        if words:
            installed.prints(*words)
        true = sum(real(comparison, comparison.rmid(pod.uid, rdt_class)))
        check(comparison, pod, f"works and {' '.join(words)}", true)


RMIDS = 5


@pytest.mark.guest(cpus=4, aet=1, perf_rmids=RMIDS, arguments="rdt=energy,perf")
def test_performance_events_with_few_rmids_limit_all_groups(tmp_path: Path) -> None:
    resctrl, installed = Resctrl(ROOT), Installed(str(tmp_path / "host"))
    numbers = {name: int(Path(ROOT, "info", name, "num_rmids").read_text()) for name in ("PERF_PKG_MON", "L3_MON")}
    assert numbers["PERF_PKG_MON"] == RMIDS < numbers["L3_MON"]
    try:
        for number in range(RMIDS - 1):
            os.mkdir(resctrl.folder("", f"g{number}"))
        with pytest.raises(OSError, match="No space left"):
            os.mkdir(resctrl.folder("", "one-more"))
        listed = json.loads(installed.prints("list", "-o", "json"))
        assert (listed["rmids"]["total"], listed["rmids"]["free"]) == (RMIDS, 0)
        found = json.loads(resctrl_hook("--config", installed.config, "doctor", "--json").stdout)["items"]
        texts = [one["text"] for one in found if one["check"] == "energy"]
        assert any(f"have {RMIDS} RMIDs and L3_MON has {numbers['L3_MON']}" in text for text in texts), texts
    finally:
        resctrl.clean()
