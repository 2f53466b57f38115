"""Ways in which the patient is broken."""

import json
import os
import shutil

from install.staged import HOOKS

from doctor.patient import UID, Patient
from resctrl_hooks.install.paths import UNITS
from resctrl_hooks.install.units import TIMER


def no_monitoring(patient: Patient) -> None:
    patient.write("proc/cpuinfo", "flags\t: fpu\n")
    shutil.rmtree(patient.resctrl)


def no_resctrl(patient: Patient) -> None:
    patient.write("proc/filesystems", "nodev\tproc\n")


def turned_off(patient: Patient) -> None:
    patient.write("proc/cmdline", "rdt=!cmt,mbmtotal\n")


def unmounted(patient: Patient) -> None:
    patient.write("proc/self/mounts", "")
    shutil.rmtree(patient.resctrl)
    patient.resctrl.mkdir()


def read_only(patient: Patient) -> None:
    patient.write("proc/self/mounts", f"resctrl {patient.resctrl} resctrl ro 0 0\n")


def rmids_short(patient: Patient) -> None:
    for number in range(14):
        patient.group(patient.resctrl / f"mon_groups/other{number}")


def pods_wait(patient: Patient) -> None:
    patient.write(f"run/resctrl-hooks/waiting/{UID}", "")


def counter_unavailable(patient: Patient) -> None:
    patient.group(patient.resctrl, "Unavailable")


def counter_unassigned(patient: Patient) -> None:
    patient.group(patient.resctrl, "Unassigned")


def cgroup_v1(patient: Patient) -> None:
    (patient.root / "sys/fs/cgroup/cgroup.controllers").unlink()


def timer_gone(patient: Patient) -> None:
    (patient.root / UNITS.lstrip("/") / TIMER).unlink()


def kubelet_static(patient: Patient) -> None:
    patient.write("var/lib/kubelet/cpu_manager_state", '{"policyName": "static"}')
    patient.setting(placement={"enabled": True})


def kubelet_garbage(patient: Patient) -> None:
    patient.write("var/lib/kubelet/memory_manager_state", "{")


def totals_damaged(patient: Patient) -> None:
    patient.write("run/resctrl-hooks/totals/counters.damaged", "{")


def hook_gone(patient: Patient) -> None:
    (patient.root / HOOKS.lstrip("/")).unlink()


def hook_malformed(patient: Patient) -> None:
    patient.write(HOOKS.lstrip("/"), "{")


def foreign_hook_malformed(patient: Patient) -> None:
    patient.write(os.path.dirname(HOOKS.lstrip("/")) + "/other.json", "{}")


def crio_malformed(patient: Patient) -> None:
    patient.write("etc/crio/crio.conf", "[crio\n")


def shell_gone(patient: Patient) -> None:
    (patient.root / "bin/sh").unlink()


def python_gone(patient: Patient) -> None:
    (patient.root / "usr/bin/python3").unlink()


def code_gone(patient: Patient) -> None:
    (patient.code / "launch.py").unlink()


def modules_gone(patient: Patient) -> None:
    shutil.rmtree(next(patient.code.glob("node-*")))


def half_of_them_gone(patient: Patient) -> None:
    next(patient.code.glob("node-*/registry.py")).unlink()


def module_changed(patient: Patient) -> None:
    next(patient.code.glob("node-*/registry.py")).write_text("")


def interrupted(patient: Patient) -> None:
    record = patient.code / "manifest.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"complete": False}))


def settings_garbage(patient: Patient) -> None:
    for path in patient.compiled.parent.glob("*.json"):
        path.write_bytes(b"\xff")


def yaml_invalid(patient: Patient) -> None:
    patient.yaml.write_text("namespaces: 5\n")


def state_no_folder(patient: Patient) -> None:
    shutil.rmtree(patient.state)
    patient.state.write_text("")


def state_open(patient: Patient) -> None:
    patient.state.chmod(0o777)


def code_open(patient: Patient) -> None:
    patient.code.chmod(0o777)


def leaked(patient: Patient) -> None:
    patient.group(patient.resctrl / "mon_groups" / UID)
    (patient.resctrl / "mon_groups" / UID / "tasks").write_text("")


def swap_missing(patient: Patient) -> None:
    patient.write("proc/meminfo", "MemTotal: 1000 kB\nSwapTotal: 0 kB\n")
    patient.setting(classes=[{"name": "swap", "allowswap": True, "memtierdconfig": ""}])
