"""A made-up host that is well."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from core.install.staged import CONFIG, put
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.doctor.finding import Finding
from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.doctor.runner import checks, examine
from resctrl_hooks.core.install.paths import CODE

Change = str | int | None | Callable[[str], str]
"""A file's text, a mode, nothing in its place, or a function of its text."""
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
        for name, text in {
            "proc/cpuinfo": "flags\t\t: fpu cqm_occup_llc cqm_mbm_total cqm_mbm_local\n",
            "proc/filesystems": "nodev\tresctrl\n",
            "proc/cmdline": "quiet rdt=cmt\n",
            "proc/sys/kernel/osrelease": "7.2.0\n",
            "proc/sys/kernel/random/boot_id": "0d5d0a52-6e2c-4a3c-8f2e-000000000001\n",
            "proc/self/mounts": f"resctrl {self.resctrl} resctrl rw,relatime 0 0\n",
            "proc/self/uid_map": "0 0 4294967295\n",
            "sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory\n",
            "sys/fs/resctrl/info/L3_MON/num_rmids": "16\n",
            **dict.fromkeys(("sys/fs/resctrl/tasks", "usr/bin/crio", "usr/bin/python3", "bin/sh"), ""),
        }.items():
            self.write(name, text)
        self.group(self.resctrl)
        (self.resctrl / "mon_groups").mkdir()
        self.state.mkdir(parents=True, mode=0o700)
        (self.state / "exec.json").write_text(json.dumps({"pid": os.getpid(), "mode": "events"}))
        put(root)
        installed = json.loads(self.compiled.read_text())  # its stateDir is this machine's, which may have pods
        self.compiled.write_text(json.dumps(installed | {"stateDir": str(self.state)}))
        self.yaml.write_text(
            f"resctrlPath: {self.resctrl}\nprocPath: {self.proc}\nstateDir: {self.state}\n"
            f"cgroupPath: {root}/sys/fs/cgroup\n"
        )
        result = CliRunner().invoke(main, ["--config", str(self.yaml), "config", "apply"])
        assert result.exit_code == 0, result.output

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.fsencode(text.replace("{root}", str(self.root))))
        return path

    def change(self, files: Mapping[str, Change], **settings: object) -> None:
        """Change files, by paths below the root with wildcards, and settings."""
        for name, change in files.items():
            for path in [*self.root.glob(name.lstrip("/"))] or [self.root / name.lstrip("/")]:
                if isinstance(change, int):
                    path.chmod(change)
                    continue
                text = change(path.read_text()) if callable(change) else change
                if path.is_dir():
                    shutil.rmtree(path)
                elif text is None:
                    path.unlink()
                if text is not None:
                    self.write(str(path.relative_to(self.root)), text)
        self.setting(**settings)

    def group(self, folder: Path, value: str = "1000") -> Path:
        for name in ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"):
            self.write(str((folder / "mon_data/mon_L3_00" / name).relative_to(self.root)), value)
        return folder

    def add_groups(self, number: int) -> None:
        for place in range(number):
            self.group(self.resctrl / f"mon_groups/other{place}")

    def setting(self, **values: object) -> None:
        """Change active settings; ``{root}`` in them is the host's root."""
        if values:
            changed = json.dumps(json.loads(self.compiled.read_text()) | values)
            self.compiled.write_text(changed.replace("{root}", str(self.root)))

    def findings(self, check: str = "") -> list[tuple[str, Finding]]:
        """Return the findings of a check, or of all, each with its check."""
        return [*examine(Host(CONFIG, str(self.root)), {check: checks()[check]} if check else None)]

    def in_condition(self, check: str, files: Mapping[str, Change], settings: Any = None) -> list[tuple[str, Finding]]:
        """Bring the host into a condition; return the findings of its check."""
        self.change(files, **(settings or {}))
        return self.findings(check)

    def said(self, check: str, level: str) -> list[str]:
        """Return the findings of a check of a level."""
        return [found.text for _, found in self.findings(check) if found.level == level]

    def bad(self, check: str = "") -> dict[str, str]:
        """Return warnings and problems, by check."""
        return {name: found.text for name, found in self.findings(check) if found.level != "ok"}
