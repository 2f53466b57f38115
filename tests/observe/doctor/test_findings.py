"""doctor on observation: capacities of memory domains, energy, what can be known of pods, and the history."""

import gzip
import json
import os
import re
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from core.doctor.patient import Patient
from golden import Golden
from hosts.counter_tree import say_paths
from hosts.monitored import plain_host
from hosts.past import sample
from hosts.patients import lines, older, one_version, patient, run_service, staged

from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.doctor.versions import versions
from resctrl_hooks.observe.doctor.capacity import capacity
from resctrl_hooks.observe.doctor.energy import energy
from resctrl_hooks.observe.doctor.evidence import FACTS, evidence
from resctrl_hooks.observe.doctor.history import history
from resctrl_hooks.observe.node.capacity.record import NAME
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.history.store import Store

__all__ = ("one_version", "patient", "staged")


def test_findings_on_the_capacity_of_each_memory_domain(tmp_path: Path, golden: Golden) -> None:
    values = {"sysPath": str(tmp_path / "sys"), "monitoring": {"capacity": {"1": 9e9, "2": 1e9}}}
    with plain_host(tmp_path, **values) as host:
        host.context.ledger.prepare()
        say_paths(host.resctrl, {f"mon_L3_0{domain}/mbm_total_bytes": 0 for domain in range(5)})
        record = {"tables": {"4": 5e9}, "source": "smbios", "seen": {"0": 3e9, "1": 3e9, "2": 3e9}}
        Path(host.context.settings.state_dir, NAME).write_text(json.dumps(record))
        golden(lines(capacity(Host(str(host.config)))))


POD_KEY = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
RMIDS = "sys/class/intel_pmt/features-0/per_rmid_energy_telemetry/num_rmids"
DEBIAN = "CONFIG_X86_CPU_RESCTRL=y\nCONFIG_INTEL_PMT_TELEMETRY=m\nCONFIG_INTEL_TPMI=m\n"
WHOLE = "CONFIG_X86_CPU_RESCTRL_INTEL_AET=y\nCONFIG_INTEL_PMT_TELEMETRY=y\nCONFIG_INTEL_TPMI=y\n"
CONFIG, GZIP, INFO = "boot/config-7.2.0", "proc/config.gz", "sys/fs/resctrl/info/PERF_PKG_MON"
COUNTED: dict[str, str | None] = {f"{INFO}/num_rmids": "576\n", f"{INFO}/mon_features": "core_energy\nactivity\n"}
ENERGY: dict[str, tuple[dict[str, str | None], str]] = {
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


def energy_of(patient: Patient, dmesg: str = "") -> str:
    host = Host("/etc/resctrl-hooks/config.yaml", str(patient.root))
    host.run = lambda *_: dmesg  # type: ignore[method-assign]
    return "\n".join(f"{one.level}: {one.text}\n    {one.remedy}".rstrip() for one in energy(host))


def test_findings_on_energy(patient: Patient, golden: Golden) -> None:
    texts = []
    for name, (files, dmesg) in ENERGY.items():
        patient.change({RMIDS: "576\n", **files})
        if GZIP in files:
            Path(patient.root, GZIP).write_bytes(gzip.compress(str(files[GZIP]).encode()))
        texts.append(f"{name}:\n{energy_of(patient, dmesg)}")
        patient.change({name: None for name, text in files.items() if text is not None})
    golden("\n\n".join(texts))


@pytest.mark.parametrize(
    "setting, rdt_class, waiting",
    [({"monitoring": {"share": {"every": "5m"}}}, "gold", 0), ({"groupPrefix": "pod-"}, None, 2), ({}, "", 0)],
    ids=["classes and turns", "prefix and waiting pods", "root class"],
)
def test_programs_that_read_groups_are_warned(
    patient: Patient, golden: Golden, setting: dict[str, Any], rdt_class: str | None, waiting: int
) -> None:
    patient.change(COUNTED)
    patient.setting(**setting)
    context = Host("/etc/resctrl-hooks/config.yaml", str(patient.root)).context
    for number in range(waiting):
        context.ledger.mark("waiting", POD_KEY.replace("3f0", f"{number}f0"))
    if rdt_class is not None:
        Path(patient.resctrl, rdt_class, "mon_groups", POD_KEY).mkdir(parents=True, exist_ok=True)
        with context.monitor.hold(POD_KEY) as locked:
            locked.ensure_group(rdt_class)
    golden(energy_of(patient))


PLACES = ("cgroup/cgroup.controllers", "proc/pressure/cpu", "sys/bus/event_source/devices/cpu/type", "")


@pytest.mark.parametrize("there", [there for number in range(4) for there in combinations(range(3), number)], ids=str)
def test_each_fact_is_known_where_the_node_has_its_source(tmp_path: Path, there: tuple[int, ...]) -> None:
    paths = {f"{name}Path": str(tmp_path / name) for name in ("cgroup", "proc", "sys")}
    for place in there:
        (tmp_path / PLACES[place]).mkdir(parents=True)
    with plain_host(tmp_path / "host", **paths) as host:
        (found,) = evidence(Host(str(host.config)))
        (host.resctrl / "mon_data/mon_PERF_PKG_00/uops_retired").mkdir(parents=True)
        (counted,) = evidence(Host(str(host.config)))
    assert "cost of work" in counted.text.partition("; unknown")[0], "resctrl alone counts it"
    known, _, unknown = found.text.partition("; unknown: ")
    assert found.level == "ok"
    for place, fact in enumerate(FACTS):
        is_known = place in there or not PLACES[place]
        assert (fact.text in known, fact.needs in unknown) == (is_known, not is_known)


HOUR = 3600.0
HISTORY: dict[str, tuple[tuple[float, ...], float, float]] = {
    "no sample": ((), HOUR, HOUR),
    "recent samples": ((7200, 5), HOUR, HOUR),
    "late": ((600,), HOUR, HOUR),
    "enabled just now": ((), 5, HOUR),
    "samples from before a boot": ((1200, 600), HOUR, 5),
}
"""By name, the ages of samples, of the active configuration and of the boot, in seconds."""


def test_findings_on_the_history(tmp_path: Path, staged: Host, golden: Golden) -> None:
    file = tmp_path / "history.sqlite"
    staged.settings.proc_path = staged.tree.real("/proc")
    Path(staged.settings.proc_path).mkdir(exist_ok=True)
    texts = [f"off: {lines(history(staged))}"]
    staged.settings.sections["history"] = {"enabled": True, "file": str(file)}
    os.utime(staged.tree.real("/etc/resctrl-hooks/config.json"))
    texts.append(f"no file: {lines(history(staged))}")
    for name, (ages, configured, booted) in HISTORY.items():
        file.unlink(missing_ok=True)
        file.touch(0o600)
        os.utime(staged.tree.real("/etc/resctrl-hooks/config.json"), times=(time.time() - configured,) * 2)
        Path(staged.settings.proc_path, "uptime").write_text(f"{booted} 0.0\n")
        store = Store(str(file), write=True)
        for age in ages:
            made = sample(0, {"a": 1})
            store.add(Sample(int((time.time() - age) * 1000), made.uptime, made.boot, made.host, made.rows))
        store.close()
        texts.append(f"{name}: {lines(history(staged))}")
    file.write_bytes(b"garbage" * 1000)
    texts.append(f"damaged: {lines(history(staged))}")
    golden(re.sub(r"in [\d.]+ KiB", "in <size>", "\n".join(texts)), hide="time")


def test_each_service_that_runs_older_code_is_named(staged: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "live", True)
    run_service(staged, "guard.json", code_age=60)
    assert lines(versions(staged)).startswith("ok: ")
    for name in ("exec", "guard"):
        run_service(staged, f"{name}.json", code_age=-60)
    assert {*lines(versions(staged)).splitlines()} == {older("exec"), older("guard")}
