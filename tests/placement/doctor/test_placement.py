"""doctor on placement: missing shared CPUs, and containers on CPUs of others."""

from pathlib import Path

import pytest
from conftest import Host as Made
from core.doctor.patient import Patient
from hosts import crun
from hosts.machines import machine, write_sysfs

from resctrl_hooks.core.doctor.finding import Finding
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
    host.configure(sysPath=sys_path, placement=section, runtimeRoots={"crun": str(host.root / "crun")})


def found(host: Made) -> list[Finding]:
    return list(placement(Host(str(host.config))))


def stranger(host: Made, name: str, cpus: str) -> None:
    pid = host.process(4711, f"/elsewhere/{name}", start=99)
    (host.cgroup / f"elsewhere/{name}/cpuset.cpus.effective").write_text(cpus)
    crun.record(host.root / "crun", name, pid, "/b", 99)


def test_refused_value_of_cpu_class_is_reported(made: Made) -> None:
    configure(made, cpuClasses=[{"name": "slow", "maxFreq": "1200000"}], idleCpuClass="slow")
    reconcile(made.context())
    finding, _ = found(made)
    assert finding.level == "warning"
    assert "CPU classes: cannot set scaling_max_freq of cpu0/cpufreq and 7 more to 1200000 (ENOENT)" in finding.text


def test_healthy_placement_is_ok(made: Made) -> None:
    stranger(made, "far", "2-7")
    (finding,) = found(made)
    assert finding.level == "ok"
    assert "2 containers are placed; nothing else" in finding.text
    configure(made, enabled=False)
    assert found(made) == []


def test_missing_shared_cpus_are_reported(made: Made) -> None:
    configure(made, offline=0b11111100)
    (finding,) = found(made)
    assert finding.level == "problem"
    assert "no shared CPUs left: 1 containers run on exclusive CPUs of other containers" in finding.text


def test_exclusive_cpus_that_are_offline_are_reported(made: Made) -> None:
    configure(made, offline=0b1)
    (finding,) = found(made)
    assert finding.level == "warning"
    assert f"1 containers own offline CPUs: {'b' * 12}" in finding.text


def test_unplaced_container_on_exclusive_cpus_is_reported(made: Made) -> None:
    stranger(made, "near", "1-7")
    (finding,) = found(made)
    assert finding.level == "warning"
    assert "1 containers without placement run on exclusive CPUs of other containers: near" in finding.text


def test_host_processes_on_exclusive_cpus_are_reported(made: Made) -> None:
    for name, cpus in (("system.slice", "0-7"), ("user.slice", "2-7")):
        folder = Path(made.cgroup / name)
        folder.mkdir()
        (folder / "cpuset.cpus.effective").write_text(cpus)
    (finding,) = found(made)
    assert finding.level == "warning"
    assert "in system.slice may run on exclusive CPUs of containers" in finding.text
    assert finding.remedy == "systemctl set-property system.slice AllowedCPUs=2-7"


def test_unreadable_machine_is_reported(made: Made) -> None:
    section = {"enabled": True}
    made.configure(sysPath=str(made.root / "nowhere"), placement=section)
    (finding,) = found(made)
    assert finding.level == "problem"
    assert "lists no CPUs" in finding.text


@pytest.mark.parametrize(
    "state, text, words",
    [("cpu_manager_state", '{"policyName": "static"}', "static"), ("memory_manager_state", "{", "cannot read")],
)
def test_fault_of_the_kubelet_is_named_with_a_remedy(patient: Patient, state: str, text: str, words: str) -> None:
    patient.change({f"var/lib/kubelet/{state}": text}, placement={"enabled": True})
    (bad,) = [found for _, found in patient.findings("kubelet") if found.level != "ok"]
    assert words in bad.text
    assert bad.remedy
