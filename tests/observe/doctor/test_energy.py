"""doctor on energy: causes of its absence, limits, and programs that misread it."""

import gzip
from pathlib import Path

import pytest
from core.doctor.patient import Patient

from resctrl_hooks.core.doctor.finding import Finding
from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.observe.doctor.energy import energy

KEY = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
RMIDS = "sys/class/intel_pmt/features-0/per_rmid_energy_telemetry/num_rmids"
DEBIAN = "CONFIG_X86_CPU_RESCTRL=y\nCONFIG_INTEL_PMT_TELEMETRY=m\nCONFIG_INTEL_TPMI=m\n"
WHOLE = "CONFIG_X86_CPU_RESCTRL_INTEL_AET=y\nCONFIG_INTEL_PMT_TELEMETRY=y\nCONFIG_INTEL_TPMI=y\n"


@pytest.fixture
def patient(tmp_path: Path, one_version: None) -> Patient:
    found = Patient(tmp_path)
    found.write(RMIDS, "576\n")
    return found


def found(patient: Patient, dmesg: str = "") -> list[Finding]:
    host = Host("/etc/resctrl-hooks/config.yaml", str(patient.root))
    host.run = lambda *_: dmesg  # type: ignore[method-assign]
    return list(energy(host))


def with_energy(patient: Patient, rmids: int) -> None:
    patient.write("sys/fs/resctrl/info/PERF_PKG_MON/num_rmids", f"{rmids}\n")
    patient.write("sys/fs/resctrl/info/PERF_PKG_MON/mon_features", "core_energy\nactivity\n")


KERNEL = {"boot/config-7.2.0": DEBIAN}
GZIP = "proc/config.gz"


@pytest.mark.parametrize(
    "files, text, remedy",
    [
        ({"proc/cmdline": "quiet rdt=!energy,perf\n"}, "disables them (rdt=!energy,perf)", "remove `!energy`"),
        (KERNEL, "set: CONFIG_INTEL_PMT_TELEMETRY=m and CONFIG_INTEL_TPMI=m", "(=m is not sufficient)"),
        (
            {GZIP: "CONFIG_X86_CPU_RESCTRL=y\n"},
            "missing: CONFIG_INTEL_PMT_TELEMETRY and CONFIG_INTEL_TPMI",
            "Linux 7.0",
        ),
        ({"boot/config-7.2.0": WHOLE}, "although the kernel supports them", "first mount"),
        ({}, "no energy counters;", "cannot be read"),
    ],
)
def test_cause_of_missing_energy_is_named(patient: Patient, files: dict[str, str], text: str, remedy: str) -> None:
    patient.change(files)
    if GZIP in files:
        (patient.root / GZIP).write_bytes(gzip.compress(files[GZIP].encode()))
    (finding,) = found(patient)
    assert finding.level == "warning"
    assert text in finding.text
    assert remedy in finding.remedy


def test_insufficient_rmids_are_found_in_kernel_log(patient: Patient) -> None:
    patient.write("boot/config-7.2.0", WHOLE)
    (finding,) = found(patient, "resctrl: energy monitoring not enabled due to insufficient RMIDs")
    assert "fewer RMIDs" in finding.text
    assert "rdt=energy" in finding.remedy


def test_missing_energy_is_ok_on_a_processor_without_it(patient: Patient) -> None:
    patient.change({**KERNEL, RMIDS: None})
    (finding,) = found(patient)
    assert (finding.level, "CONFIG_X86_CPU_RESCTRL_INTEL_AET" in finding.text) == ("ok", True)


def test_healthy_energy_is_reported(patient: Patient) -> None:
    with_energy(patient, 576)
    assert [(one.level, one.text) for one in found(patient)] == [("ok", "core_energy, activity by package")]


def test_energy_with_fewer_rmids_than_the_cache_limits_all_groups(patient: Patient) -> None:
    with_energy(patient, 5)
    (finding,) = found(patient)
    assert "have 5 RMIDs and L3_MON has 16: there can be 4 groups" in finding.text


def test_raw_readers_with_classes_or_turns_are_a_warning(patient: Patient) -> None:
    with_energy(patient, 576)
    patient.setting(monitoring={"share": {"every": "5m"}})
    folder = patient.resctrl / "gold/mon_groups" / KEY
    folder.mkdir(parents=True)
    context = Host("/etc/resctrl-hooks/config.yaml", str(patient.root)).context
    with context.monitor.hold(KEY) as locked:
        locked.ensure_group("gold")
    _, finding = found(patient)
    assert "pods are in RDT classes (gold); pods take turns (monitoring.share)" in finding.text
    assert "resctrl-hook view" in finding.remedy


def test_raw_readers_are_warned_of_waiting_pods_and_a_prefix(patient: Patient) -> None:
    with_energy(patient, 576)
    patient.setting(groupPrefix="pod-")
    ledger = Host("/etc/resctrl-hooks/config.yaml", str(patient.root)).context.ledger
    for key in (KEY, KEY.replace("3f0", "4f0")):
        ledger.mark("waiting", key)
    _, finding = found(patient)
    assert "2 pods wait for an RMID; groups have the prefix pod- (groupPrefix)" in finding.text


def test_raw_readers_are_not_warned_while_every_pod_is_in_the_root_class(patient: Patient) -> None:
    with_energy(patient, 576)
    context = Host("/etc/resctrl-hooks/config.yaml", str(patient.root)).context
    with context.monitor.hold(KEY) as locked:
        locked.ensure_group("")
    assert [one.level for one in found(patient)] == ["ok"]
