"""Conditions of the patient: the check to run (empty: all), the files that differ from the healthy host's, settings."""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from conftest import FIXTURES

from core.doctor.patient import UID, Change
from core.install.staged import HOOKS
from resctrl_hooks.core.install.paths import CODE, UNITS
from resctrl_hooks.core.install.units import TIMER
from resctrl_hooks.core.node.ledger import LIMBO

_RESCTRL, _STATE, _MANIFEST = "sys/fs/resctrl", "run/resctrl-hooks", f"{CODE}/manifest.json"
_COUNTERS = f"{_RESCTRL}/mon_data/*/*"
_NO_MONITORING: Mapping[str, Change] = {"proc/cpuinfo": "flags\t: fpu\n", f"{_RESCTRL}": None}
_NO_RESCTRL: Mapping[str, Change] = {"proc/filesystems": "nodev\tproc\n"}
_NONE: Mapping[str, Change] = {**_NO_MONITORING, **_NO_RESCTRL, "proc/self/mounts": ""}
_WAITS: Mapping[str, Change] = {f"{_STATE}/waiting/{UID}": ""}
_PODMAN: Mapping[str, Change] = {"usr/bin/podman": ""}
_SAMPLE = yaml.safe_load((FIXTURES / "nri-memtierd.yaml").read_text())
_MEMTIERD = {
    "memtierd": {"runDir": "{root}/run/memtierd", "binary": "{root}/memtierd"}, "sysPath": "{root}/sys", **_SAMPLE,
}  # fmt: skip


def _groups(number: int, name: str = "other{}") -> Mapping[str, Change]:
    return {f"{_RESCTRL}/mon_groups/{name.format(place)}/tasks": "" for place in range(number)}


def _with(**values: Any) -> Callable[[str], str]:
    return lambda text: json.dumps(json.loads(text) | values)


def _watcher(**values: Any) -> Mapping[str, Change]:
    return {f"{_STATE}/exec.json": _with(**values)}


def _simulated(mounts: str) -> str:
    return mounts.replace("resctrl /", "simulation /", 1).replace(" resctrl rw", " fuse rw")


def _edit(text: str, *, instead: bool = False) -> Mapping[str, Change]:
    return {"etc/resctrl-hooks/config.yaml": lambda before: text if instead else before + text}


CONDITIONS: dict[str, tuple[Any, ...]] = {
    "healthy": ("", {}),
    "simulation": ("", {**_NO_RESCTRL, "proc/cpuinfo": "flags\t: fpu\n", "proc/self/mounts": _simulated}),
    "kubelet": ("", {"var/lib/kubelet/cpu_manager_state": '{"policyName": "none"}'}),
    "no monitoring": ("processor", _NO_MONITORING),
    "no resctrl": ("kernel", _NO_RESCTRL),
    "turned off": ("kernel", {"proc/cmdline": "rdt=!cmt,mbmtotal\n"}),
    "unmounted": ("mount", {"proc/self/mounts": "", f"{_RESCTRL}/*": None}),
    "read-only": ("mount", {"proc/self/mounts": lambda text: text.replace("rw,relatime", "ro")}),
    "classes without monitoring": ("", _NONE, {"rdt": {"enabled": True}, "monitoring": {"enabled": False}}),
    "neither classes nor monitoring": ("", _NONE, {"rdt": {"enabled": False}, "monitoring": {"enabled": False}}),
    "RMIDs short": ("RMIDs", _groups(14)),
    "nine tenths of the RMIDs in use": ("RMIDs", {**_groups(17), f"{_RESCTRL}/info/L3_MON/num_rmids": "20\n"}),
    "pod waits": ("RMIDs", _WAITS),
    "pod waits for limbo": ("RMIDs", {**_WAITS, f"{_STATE}/{LIMBO}": ""}),
    "pod waits, no RMID free": ("RMIDs", {**_WAITS, **_groups(15)}),
    "pod waits, RMIDs are shared": ("RMIDs", _WAITS, {"monitoring": {"share": {"interval": 90}}}),
    "program holds few RMIDs": ("RMID owners", _groups(2, "pqos-7-{}")),
    "program holds many RMIDs": ("RMID owners", _groups(5, "pqos-7-{}")),
    "program holds RMIDs, pod waits": ("RMID owners", {**_groups(1, "pqos-7-{}"), **_WAITS}),
    "runtime holds RMIDs": (
        "RMID owners",
        {**_groups(5, "{:064x}"), **{f"run/crun/{number:064x}/status": "{}" for number in range(5)}},
        {"runtimeRoots": {"crun": "{root}/run/crun"}},
    ),
    "counter unavailable": ("counters", {_COUNTERS: "Unavailable"}),
    "counter unassigned": ("counters", {_COUNTERS: "Unassigned"}),
    "cgroup v1": ("cgroups", {"sys/fs/cgroup/cgroup.controllers": None}),
    "user namespace": ("where", {"proc/self/uid_map": "0 1000 1\n"}),
    "timer gone": ("units", {f"{UNITS}/{TIMER}": None}),
    "totals damaged": ("state", {f"{_STATE}/totals/counters.damaged": "{"}),
    "state no folder": ("state", {_STATE: ""}),
    "state open": ("state", {_STATE: 0o777}),
    "code open": ("permissions", {CODE: 0o777}),
    "hook gone": ("hook", {HOOKS: None}),
    "hook malformed": ("hook", {HOOKS: "{"}),
    "foreign hook malformed": ("hook", {f"{os.path.dirname(HOOKS)}/other.json": "{}"}),
    "shell gone": ("hook", {"bin/sh": None}),
    "Python gone": ("hook", {"usr/bin/python3": None}),
    "script gone": ("hook", {f"{CODE}/launch.py": None}),
    "Podman reads the same folder": ("hook", _PODMAN),
    "Podman reads another folder": (
        "hook", {**_PODMAN, "etc/containers/containers.conf": '[engine]\nhooks_dir = ["/etc/other/hooks.d"]\n'},
    ),
    "containerd without injector": ("hook", {"usr/bin/containerd": ""}),
    "containerd with injector": ("hook", {"usr/bin/containerd": "", "opt/nri/plugins/10-hook-injector": ""}),
    "CRI-O malformed": ("runtimes", {"etc/crio/crio.conf": "[crio\n"}),
    "code gone": ("code", {f"{CODE}/launch.py": None}),
    "modules gone": ("code", {f"{CODE}/node-*": None}),
    "module gone": ("code", {f"{CODE}/node-*/core/node/registry.py": None}),
    "module changed": ("code", {f"{CODE}/node-*/core/node/registry.py": ""}),
    "interrupted": ("code", {_MANIFEST: _with(complete=False)}),
    "house missing": ("code", {}, {"placement": {"enabled": True}}),
    "manifests older": ("versions", {_MANIFEST: _with(manifests="0.2.0")}),
    "settings garbage": ("configuration", {"etc/resctrl-hooks/*.json": "\xff"}),
    "YAML invalid": ("configuration", {"etc/resctrl-hooks/config.yaml": "namespaces: 5\n"}),
    "YAML edited, with a remark": (
        "configuration", {"etc/resctrl-hooks/config.yaml": lambda text: text + "log: {target: file}\n"},
    ),
    "YAML has other paths": ("", _edit("resctrlPath: {root}/none\nstateDir: {root}/none\n", instead=True)),
    "YAML has an unknown key": ("", _edit("zzz: 1\n")),
    "YAML is damaged": ("", _edit("namespaces: [\n", instead=True)),
    "YAML has two errors": ("", _edit("namespaces: 5\nmonitoring: 7\n", instead=True)),
    "YAML is no text": ("", _edit("\udcff\udcfe", instead=True)),
    "folder in place of YAML": ("", {"etc/resctrl-hooks/config.yaml": None, "etc/resctrl-hooks/config.yaml/x": ""}),
    "YAML of another owner": ("", _edit("namespaces: [shop]\n"), {"managedBy": "machineconfig"}),
    "never applied": ("configuration", {"etc/resctrl-hooks/*.json": None}),
    "YAML deleted": ("", {"etc/resctrl-hooks/config.yaml": None}),
    "leaked": ("groups", _groups(1, UID)),
    "groups that claim would skip": (
        "", {f"{_RESCTRL}/mon_groups/{name}/tasks": "" for name in ("kepler", "1234", UID.upper(), f"{UID}.old")},
    ),
    "groups removed": ("vanished", {f"{_STATE}/vanished": '{"total": 3, "last": 9e9, "pods": {}}'}),
    "watcher lost": ("exec", _watcher(pid=1 << 22)),
    "watcher never started": ("exec", {f"{_STATE}/exec.json": None}),
    "watcher without unit": ("exec", {f"{_STATE}/exec.json": None, f"{UNITS}/resctrl-hooks-*": None}),
    "watcher at work": ("exec", _watcher(events=7, moved=3)),
    "watcher polls": ("exec", _watcher(mode="sampling", why="this kernel has no connector")),
    "watcher overrun": ("exec", _watcher(overruns=2, degraded=1)),
    "watcher off": ("exec", _watcher(mode="off", why="shutting down")),
    "watcher not configured": ("exec", {}, {"monitoring": {"exec": "reconcile"}}),
    "swap missing": (
        "memory", {"proc/meminfo": "MemTotal: 1000 kB\nSwapTotal: 0 kB\n"},
        {"classes": [{"name": "swap", "allowswap": True, "memtierdconfig": ""}]},
    ),
    "memory controller missing": (
        "memory", {"sys/fs/cgroup/cgroup.controllers": "cpu\n"}, {"classes": [{"name": "a", "allowswap": False}]},
    ),
    "memtierd on a bare node": ("memory", {"sys/fs/cgroup/cgroup.controllers": None}, _MEMTIERD),
    "memtierd on a complete node": (
        "memory",
        {
            "proc/meminfo": "SwapTotal: 2048 kB\n", "sys/kernel/mm/page_idle/bitmap": "",
            "memtierd": "", "memtier[d]": 0o755,
        },
        _MEMTIERD,
    ),
}  # fmt: skip
