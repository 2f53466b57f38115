"""A made-up host that is well."""

import json
import os
from pathlib import Path

from click.testing import CliRunner
from install.staged import CONFIG, put

from resctrl_hooks.cli import main
from resctrl_hooks.doctor.host import Host
from resctrl_hooks.doctor.runner import examine
from resctrl_hooks.install.paths import CODE

UID = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"


class Patient:
    """A host with everything in order, CRI-O installed and our hook registered."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.resctrl = root / "sys/fs/resctrl"
        self.proc = root / "proc"
        self.state = root / "run/resctrl-hooks"
        self.compiled = root / "etc/resctrl-hooks/config.json"
        self.yaml = root / CONFIG.lstrip("/")
        self.code = root / CODE.lstrip("/")
        self.write("proc/cpuinfo", "flags\t\t: fpu cqm_occup_llc cqm_mbm_total cqm_mbm_local\n")
        self.write("proc/filesystems", "nodev\tresctrl\n")
        self.write("proc/cmdline", "quiet rdt=cmt\n")
        self.write("proc/sys/kernel/osrelease", "7.2.0\n")
        self.write("proc/sys/kernel/random/boot_id", "0d5d0a52-6e2c-4a3c-8f2e-000000000001\n")
        self.write("proc/self/mounts", f"resctrl {self.resctrl} resctrl rw,relatime 0 0\n")
        self.write("proc/self/uid_map", "0 0 4294967295\n")
        self.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n")
        self.write("sys/fs/resctrl/info/L3_MON/num_rmids", "16\n")
        self.write("sys/fs/resctrl/tasks", "")
        self.group(self.resctrl)
        (self.resctrl / "mon_groups").mkdir()
        for name in ("usr/bin/crio", "usr/bin/python3", "bin/sh"):
            self.write(name, "")
        self.state.mkdir(parents=True, mode=0o700)
        (self.state / "exec.json").write_text(json.dumps({"pid": os.getpid(), "mode": "events"}))
        put(root)
        self.yaml.write_text(
            f"resctrlPath: {self.resctrl}\nprocPath: {self.proc}\nstateDir: {self.state}\n"
            f"cgroupPath: {root}/sys/fs/cgroup\n"
        )
        result = CliRunner().invoke(main, ["--config", str(self.yaml), "config", "apply"])
        assert result.exit_code == 0, result.output

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def group(self, folder: Path, value: str = "1000") -> Path:
        for name in ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"):
            self.write(str((folder / "mon_data/mon_L3_00" / name).relative_to(self.root)), value)
        return folder

    def setting(self, **values: object) -> None:
        self.compiled.write_text(json.dumps(json.loads(self.compiled.read_text()) | values))

    def findings(self) -> list[tuple[str, str, str]]:
        return [(name, found.level, found.text) for name, found in examine(Host(CONFIG, str(self.root)))]

    def bad(self) -> dict[str, str]:
        """Warnings and problems, by check."""
        return {name: text for name, level, text in self.findings() if level != "ok"}
