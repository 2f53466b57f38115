"""doctor on placement: missing shared CPUs, and containers on CPUs of others."""

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Host as Made
from core.doctor.patient import Patient
from golden import Golden
from hosts import crun
from hosts.machines import machine, write_sysfs
from hosts.patients import lines

from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.placement.doctor.placement import placement
from resctrl_hooks.placement.node.allocations import Book
from resctrl_hooks.placement.node.entries import Entry
from resctrl_hooks.placement.node.policy import EXCLUSIVE, SHARED, Decision

OWN, POOL = 0b11, 0b11111111


@pytest.fixture
def made(host: Made) -> Made:
    """Eight CPUs, of which one container owns two and another shares the rest."""
    configure(host)
    context = host.context()
    context.ledger.prepare()
    book = Book(context)
    book.add(Entry("a" * 64, "pod-a", 1, 1, "/x", Decision(SHARED, "node", cpus=POOL, milli=500)))
    book.add(Entry("b" * 64, "pod-b", 1, 1, "/y", Decision(EXCLUSIVE, "node", owned=OWN)))
    book.save()
    book.written()
    return host


def configure(host: Made, *, enabled: bool = True, offline: int = 0, **values: object) -> None:
    sys_path = write_sysfs(machine(cores=8, threads=1, offline=offline), host.root / "sys")
    section = {"enabled": enabled, "kubeletPath": str(host.root / "kubelet"), **values}
    host.configure(sysPath=sys_path, placement=section)


def stranger(host: Made, name: str, cpus: str, below: str = "") -> None:
    pid = host.process(4711, f"/elsewhere/{name}{below}", start=99)
    (host.cgroup / f"elsewhere/{name}/cpuset.cpus.effective").write_text(cpus)
    crun.record(host.root / "crun", name, pid, "/b", 99)


def cpu_class_is_refused(made: Made) -> None:
    configure(made, cpuClasses=[{"name": "slow", "maxFreq": "1200000"}], idleCpuClass="slow")
    reconcile(made.context())


def slices_of_the_host(made: Made) -> None:
    for name, cpus in (("system.slice", "0-7"), ("user.slice", "2-7")):
        folder = Path(made.cgroup / name)
        folder.mkdir()
        (folder / "cpuset.cpus.effective").write_text(cpus)


SITUATIONS: dict[str, Callable[[Made], None]] = {
    "healthy": lambda made: stranger(made, "far", "2-7"),
    "disabled": lambda made: configure(made, enabled=False),
    "CPU class refused": cpu_class_is_refused,
    "no shared CPUs": lambda made: configure(made, offline=0b11111100),
    "exclusive CPUs offline": lambda made: configure(made, offline=0b1),
    "stranger on exclusive CPUs": lambda made: stranger(made, "near", "1-7"),
    "stranger of crun with systemd": lambda made: stranger(made, "near", "1-7", "/container"),
    "host on exclusive CPUs": slices_of_the_host,
    "machine unreadable": lambda made: made.configure(sysPath=str(made.root / "nowhere"), placement={"enabled": True}),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_situation_is_named_with_a_remedy(made: Made, golden: Golden, situation: str) -> None:
    SITUATIONS[situation](made)
    golden(lines(placement(Host(str(made.config)))))


@pytest.mark.parametrize(
    "state, text, words",
    [("cpu_manager_state", '{"policyName": "static"}', "static"), ("memory_manager_state", "{", "cannot read")],
)
def test_fault_of_the_kubelet_is_named_with_a_remedy(patient: Patient, state: str, text: str, words: str) -> None:
    patient.change({f"var/lib/kubelet/{state}": text}, placement={"enabled": True})
    (bad,) = [found for _, found in patient.findings("kubelet") if found.level != "ok"]
    assert words in bad.text
    assert bad.remedy
