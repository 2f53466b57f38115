"""Energy per pod on the kernel's own AET code matches the processor's ledger; one joule is a million accesses.

Each test's RMIDs may have run before, or not: until then the kernel reports `Unavailable`.
"""

import csv
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernel.counted.conftest import COUNTED
from kernel.counted.said import Comparison
from kernel.counted.steps import Stepped, at_rest, copy, in_steps
from kernel.counted.truth import ROOT
from kernel.groups import Resctrl
from kernel.pods import KubernetesPod

pytestmark = [
    *COUNTED,
    pytest.mark.parametrize(
        "runtime_name, processor",
        [pytest.param("crun", "Intel, energy in microjoules", marks=pytest.mark.guest(cpus=4, aet=1))],
        indirect=["processor"],
    ),
]

HERE, THERE = 0, 2
"""A processor of each package."""
ACCESS = 64
"""The ledger's bytes of one access."""
MICROJOULE = 1e-6
"""The energy of one access."""
EXACT = 1e-5
"""The device counts in steps of 2^-18 J, and the kernel prints six decimals."""


def on(pid: int, cpu: int) -> None:
    """Run a process, and its children, on one processor."""
    os.sched_setaffinity(pid, {cpu})


class Energy:
    """Comparison of the pods' reported energy with the truth."""

    def __init__(self, comparison: Comparison) -> None:
        self._compare = comparison
        self.installed = comparison.installed

    def real(self, rmid: int) -> list[int]:
        """Microjoules of an RMID in each package since the test began."""
        return [moved // ACCESS for moved in at_rest(self._compare.truth, rmid)]

    def rmid(self, pod: KubernetesPod, rdt_class: str = "") -> int:
        return self._compare.rmid(pod.uid, rdt_class)

    def said(self, pod: KubernetesPod) -> int:
        readings = self.installed.context().monitor.read(pod.uid)
        return round(sum(one.value or 0 for one in readings if one.counter.name == "core_energy") * 1e6)

    def hold(self, what: str, said: float, real: int) -> None:
        self._compare.hold(what, round(said), real)

    def check(self, pod: KubernetesPod, what: str, rdt_class: str = "") -> int:
        real = sum(self.real(self.rmid(pod, rdt_class)))
        self.hold(what, self.said(pod), real)
        return real

    def check_commands(self, pod: KubernetesPod, what: str, real: int) -> None:
        (shown,) = self.installed.items("show", pod.uid)
        told = sum(one["value"] for one in shown["totals"] if one["counter"] == "core_energy")
        self.hold(f"{what}, says `show`", told * 1e6, real)
        lines = self.installed.prints("metrics").splitlines()
        mine = [line for line in lines if line.startswith("perf_core_energy_joules_total{") and pod.uid in line]
        self.hold(f"{what}, says `metrics`", sum(float(line.split()[-1]) for line in mine) * 1e6, real)


@pytest.fixture
def energy(comparison: Comparison) -> Energy:
    return Energy(comparison)


def working(pod: KubernetesPod, steps: int) -> tuple[int, Stepped]:
    """Return a container that copies 20 MiB in each step."""
    pid = pod.start(f"c{pod.uid[0]}", in_steps(*[copy(20)] * steps))
    container = Stepped(pid)
    container.rest()
    return pid, container


def test_energy_of_pods_in_two_packages_before_first_read_is_counted(
    pods: list[KubernetesPod], energy: Energy, comparison: Comparison
) -> None:
    cpus = {"package 0": [HERE], "package 1": [THERE], "both packages": [HERE, THERE]}
    for pod, (what, where) in zip(pods, cpus.items(), strict=False):
        pid, container = working(pod, len(where))
        for cpu in where:
            on(pid, cpu)
            container.step()
        energy.real(energy.rmid(pod))  # at rest
        ever = comparison.truth.ever(energy.rmid(pod))
        in_files = [0.0, 0.0]
        for package, moved in enumerate(ever):
            file = Path(ROOT, "mon_groups", pod.uid, f"mon_data/mon_PERF_PKG_{package:02d}/core_energy")
            text = file.read_text().strip()
            in_files[package] = 0 if text == "Unavailable" else float(text)
            assert abs(in_files[package] - moved / ACCESS * MICROJOULE) < EXACT
        energy.hold(f"works in {what}, in resctrl's files", sum(in_files) * 1e6, sum(ever) // ACCESS)
        energy.check_commands(pod, f"works in {what}", energy.check(pod, f"works in {what}"))


def test_energy_after_move_to_unused_package_is_counted(pods: list[KubernetesPod], energy: Energy) -> None:
    pid, container = working(pods[0], 2)
    on(pid, HERE)
    container.step()
    energy.check(pods[0], "works in package 0, is scraped")
    on(pid, THERE)
    container.step()
    real = energy.check(pods[0], "and works in package 1")
    energy.check_commands(pods[0], "and works in package 1", real)


def test_energy_of_short_job_in_class_is_counted(pods: list[KubernetesPod], energy: Energy, resctrl: Resctrl) -> None:
    resctrl.make("gold")
    pods[0].run("c0", copy(20), rdt_class="gold")
    real = energy.check(pods[0], "a job that has ended, in class gold", "gold")
    energy.check_commands(pods[0], "a job that has ended, in class gold", real)


def test_energy_of_a_handover_is_split_between_giver_and_taker(
    no_rmid_left: Callable[[], object], pods: list[KubernetesPod], energy: Energy
) -> None:
    energy.installed.configure(monitoring={"priority": [{"namespaces": ["urgent"], "value": 10}]})
    low, high = pods[:2]
    pid, giver = working(low, 2)
    on(pid, HERE)
    giver.step()
    rmid = energy.rmid(low)
    first = energy.check(low, "works in package 0 and loses its RMID to another pod")
    no_rmid_left()
    pid = high.start("taker", in_steps(copy(20)), annotations={"io.kubernetes.pod.namespace": "urgent"})
    assert energy.rmid(high) == rmid, energy.installed.said()
    taker = Stepped(pid)
    taker.rest()
    on(pid, THERE)
    taker.step()
    giver.step()  # without an RMID: this energy belongs to no pod
    energy.check_commands(low, "works on without an RMID", first)
    energy.check_commands(high, "gets the RMID and works in package 1", sum(energy.real(rmid)) - first)


def test_record_and_top_match_energy(pods: list[KubernetesPod], energy: Energy, tmp_path: Path) -> None:
    pid, container = working(pods[0], 1)
    on(pid, THERE)
    rmid, file = energy.rmid(pods[0]), tmp_path / "r.csv"
    config = energy.installed.config
    before = sum(energy.real(rmid))
    words = ["resctrl-hook", "--config", config, "top", "-o", "json", "-w", "--interval", "3"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as top:
        assert top.stdout is not None
        try:
            _joules(top.stdout.readline(), pods[0].uid)
            container.step()
            moved = sum(energy.real(rmid)) - before
            total = last = 0.0
            while last or not total:
                last = _joules(top.stdout.readline(), pods[0].uid)
                total += last
        finally:
            top.terminate()
    energy.hold("works in package 1, says `top`", total * 1e6, moved)
    energy.installed.prints("record", "--interval", "1s", "--for", "1s", "-o", str(file))
    rows = [row for row in csv.DictReader(file.read_text().splitlines()) if row["key"] == pods[0].uid]
    last_rows = [row for row in rows if row["time"] == rows[-1]["time"] and row.get("core_energy_joules")]
    recorded = sum(float(row["core_energy_joules"]) for row in last_rows)
    energy.hold("works in package 1, says `record`", recorded * 1e6, sum(energy.real(rmid)))


def _joules(line: str, key: str) -> float:
    """Return a pod's joules between two lines of `top`."""
    found: dict[str, Any] = json.loads(line)
    (item,) = [item for item in found["items"] if item["key"] == key]
    return float(item["powerWatts"] or 0) * float(found["seconds"])
