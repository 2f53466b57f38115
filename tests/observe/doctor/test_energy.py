"""doctor on energy: causes of its absence, limits, and programs that misread it."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from core.doctor.patient import Patient
from golden import Golden

from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.observe.doctor.energy import energy

KEY = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
RMIDS = "sys/class/intel_pmt/features-0/per_rmid_energy_telemetry/num_rmids"
DEBIAN = "CONFIG_X86_CPU_RESCTRL=y\nCONFIG_INTEL_PMT_TELEMETRY=m\nCONFIG_INTEL_TPMI=m\n"
WHOLE = "CONFIG_X86_CPU_RESCTRL_INTEL_AET=y\nCONFIG_INTEL_PMT_TELEMETRY=y\nCONFIG_INTEL_TPMI=y\n"
CONFIG, GZIP, INFO = "boot/config-7.2.0", "proc/config.gz", "sys/fs/resctrl/info/PERF_PKG_MON"
COUNTED: dict[str, str | None] = {
    f"{INFO}/num_rmids": "576\n",
    f"{INFO}/mon_features": "core_energy\nactivity\n",
}
CONDITIONS: dict[str, tuple[dict[str, str | None], str]] = {
    "disabled": ({"proc/cmdline": "quiet rdt=!energy,perf\n"}, ""),
    "modules": ({CONFIG: DEBIAN}, ""),
    "old kernel": ({GZIP: "CONFIG_X86_CPU_RESCTRL=y\n"}, ""),
    "not mounted": ({CONFIG: WHOLE}, ""),
    "unknown kernel": ({}, ""),
    "few RMIDs": ({CONFIG: WHOLE}, "resctrl: energy monitoring not enabled due to insufficient RMIDs"),
    "other processor": ({CONFIG: DEBIAN, RMIDS: None}, ""),
    "healthy": (COUNTED, ""),
    "fewer RMIDs than the cache": ({**COUNTED, f"{INFO}/num_rmids": "5\n"}, ""),
}
"""By name, files and the kernel's log."""


def found(patient: Patient, dmesg: str = "") -> str:
    host = Host("/etc/resctrl-hooks/config.yaml", str(patient.root))
    host.run = lambda *_: dmesg  # type: ignore[method-assign]
    return "\n".join(f"{one.level}: {one.text}\n    {one.remedy}".rstrip() for one in energy(host))


def test_findings_on_counters(patient: Patient, golden: Golden) -> None:
    texts = []
    for name, (files, dmesg) in CONDITIONS.items():
        patient.change({RMIDS: "576\n", **files})
        if GZIP in files:
            Path(patient.root, GZIP).write_bytes(gzip.compress(str(files[GZIP]).encode()))
        texts.append(f"{name}:\n{found(patient, dmesg)}")
        patient.change({name: None for name, text in files.items() if text is not None})
    golden("\n\n".join(texts))


@pytest.mark.parametrize(
    "setting, rdt_class, waiting",
    [
        ({"monitoring": {"share": {"every": "5m"}}}, "gold", 0),
        ({"groupPrefix": "pod-"}, None, 2),
        ({}, "", 0),
    ],
    ids=["classes and turns", "prefix and waiting pods", "root class"],
)
def test_programs_that_read_groups_are_warned(
    patient: Patient, golden: Golden, setting: dict[str, Any], rdt_class: str | None, waiting: int
) -> None:
    patient.change(COUNTED)
    patient.setting(**setting)
    context = Host("/etc/resctrl-hooks/config.yaml", str(patient.root)).context
    for number in range(waiting):
        context.ledger.mark("waiting", KEY.replace("3f0", f"{number}f0"))
    if rdt_class is not None:
        Path(patient.resctrl, rdt_class, "mon_groups", KEY).mkdir(parents=True, exist_ok=True)
        with context.monitor.hold(KEY) as locked:
            locked.ensure_group(rdt_class)
    golden(found(patient))
