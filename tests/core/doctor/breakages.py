"""Faults of the patient: the check that names each, its words, and the files that differ from the healthy host's."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from core.doctor.patient import UID, Change
from core.install.staged import HOOKS
from resctrl_hooks.core.install.paths import CODE, UNITS
from resctrl_hooks.core.install.units import TIMER

_RESCTRL = "sys/fs/resctrl"
_COUNTERS = f"{_RESCTRL}/mon_data/*/*"
_STATE = "run/resctrl-hooks"


class Fault(NamedTuple):
    """A fault: see `Patient.change` for the files."""

    check: str
    words: str
    files: Mapping[str, Change] = {}
    settings: Mapping[str, Any] = {}


FAULTS = {
    "no monitoring": Fault(
        "processor", "no cache or bandwidth monitoring", {"proc/cpuinfo": "flags\t: fpu\n", _RESCTRL: None}
    ),
    "no resctrl": Fault("kernel", "has no resctrl", {"proc/filesystems": "nodev\tproc\n"}),
    "turned off": Fault("kernel", "turns off !cmt", {"proc/cmdline": "rdt=!cmt,mbmtotal\n"}),
    "unmounted": Fault("mount", "not mounted", {"proc/self/mounts": "", f"{_RESCTRL}/*": None}),
    "read-only": Fault("mount", "read-only", {"proc/self/mounts": lambda text: text.replace("rw,relatime", "ro")}),
    "RMIDs short": Fault(
        "RMIDs", "15 of 16", {f"{_RESCTRL}/mon_groups/other{number}/tasks": "" for number in range(14)}
    ),
    "pods wait": Fault("RMIDs", "1 waiting", {f"{_STATE}/waiting/{UID}": ""}),
    "counter unavailable": Fault("counters", "Unavailable", {_COUNTERS: "Unavailable"}),
    "counter unassigned": Fault("counters", "Unassigned", {_COUNTERS: "Unassigned"}),
    "cgroup v1": Fault("cgroups", "not cgroup v2", {"sys/fs/cgroup/cgroup.controllers": None}),
    "timer gone": Fault("units", TIMER, {f"{UNITS}/{TIMER}": None}),
    "totals damaged": Fault("state", "counters began again without it", {f"{_STATE}/totals/counters.damaged": "{"}),
    "hook gone": Fault("hook", "does not call the hook", {HOOKS: None}),
    "hook malformed": Fault("hook", "invalid JSON", {HOOKS: "{"}),
    "foreign hook malformed": Fault("hook", "other.json", {f"{os.path.dirname(HOOKS)}/other.json": "{}"}),
    "CRI-O malformed": Fault("runtimes", "cannot read", {"etc/crio/crio.conf": "[crio\n"}),
    "shell gone": Fault("hook", "/bin/sh, which does not exist", {"bin/sh": None}),
    "Python gone": Fault("hook", "/usr/bin/python3, which does not exist", {"usr/bin/python3": None}),
    "script gone": Fault("hook", "does not exist", {f"{CODE}/launch.py": None}),
    "code gone": Fault("code", "incomplete", {f"{CODE}/launch.py": None}),
    "modules gone": Fault("code", "incomplete", {f"{CODE}/node-*": None}),
    "module gone": Fault("code", "registry.py", {f"{CODE}/node-*/core/node/registry.py": None}),
    "module changed": Fault("code", "registry.py", {f"{CODE}/node-*/core/node/registry.py": ""}),
    "interrupted": Fault("code", "interrupted", {f"{CODE}/manifest.json": lambda text: text.replace("true", "false")}),
    "settings garbage": Fault("configuration", "invalid settings in", {"etc/resctrl-hooks/*.json": "\xff"}),
    "YAML invalid": Fault("configuration", "namespaces", {"etc/resctrl-hooks/config.yaml": "namespaces: 5\n"}),
    "state no folder": Fault("state", "is not a directory", {_STATE: ""}),
    "state open": Fault("state", "can write", {_STATE: 0o777}),
    "code open": Fault("permissions", "can write", {CODE: 0o777}),
    "leaked": Fault("groups", "with names like the hook's", {f"{_RESCTRL}/mon_groups/{UID}/tasks": ""}),
    "swap missing": Fault(
        "memory",
        "swap",
        {"proc/meminfo": "MemTotal: 1000 kB\nSwapTotal: 0 kB\n"},
        {"classes": [{"name": "swap", "allowswap": True, "memtierdconfig": ""}]},
    ),
}
