"""A host on which a container runs that no hook has recorded."""

from pathlib import Path
from typing import Any

import pytest
from conftest import Host as MadeUpHost
from conftest import crio_annotations
from hosts import crun
from hosts.monitored import replace_podman

from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.doctor.ungrouped import PodExplanation, explain_pod
from resctrl_hooks.core.node.container.runtimes import living_containers
from resctrl_hooks.core.node.container.workload import workload_of

ID = "c" * 64
POD = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
NAME = "shop/web-0"
PODMANS = "2ad4" * 16
START = 1000
HOOK = "usr/share/containers/oci/hooks.d/resctrl-hooks.json"


class Node:
    """A host on which a container of shop/web-0 runs that no hook has recorded."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.host = MadeUpHost(root / "node")
        self.host.process(7, f"/kubepods/pod{POD}/crio-{ID}", start=START)
        bundle = self.host.bundle({"annotations": crio_annotations(POD), "linux": {}})
        crun.record(self.host.crun, ID, 7, bundle, START)
        (self.host.resctrl / "schemata").write_text("L3:0=fff\n")

    def podman(self, monkeypatch: pytest.MonkeyPatch, names: str) -> None:
        """Run a Podman container, of which ``podman ps`` tells these names: its own, its pod's id and name."""
        self.host.process(8, f"/machine.slice/libpod-{PODMANS}.scope", start=START)
        bundle = self.host.bundle({"annotations": {"io.container.manager": "libpod"}, "linux": {}}, "podmans")
        crun.record(self.host.crun, PODMANS, 8, bundle, START)
        replace_podman(self.root, monkeypatch, f"printf '{PODMANS}\\t{names}\\n'\n")

    def record(self, id_: str, **values: Any) -> None:
        """Record a container of the node as reconcile does, with these values of its record."""
        context = self.host.context()
        found = next(one for one in living_containers(context.settings, context.proc) if one.id == id_)
        one = workload_of(id_, found.pid, found.bundle, context.proc, context.settings.cgroup_path)
        with context.monitor.hold(one.key) as locked:
            details: Any = {**one.details(), **values}
            locked.add_member(id_, details, found.pid)

    def explain(self, what: str = NAME) -> PodExplanation:
        doctor = Host("/config.json", str(self.root / "image"))
        doctor.active = Host(str(self.host.config)).active
        return explain_pod(doctor, what)

    def install(self, boot: float = 0) -> Path:
        path = self.root / "image" / HOOK
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
        (self.host.proc / "stat").write_text(f"cpu 0\nbtime {int(path.stat().st_mtime + boot)}\n")
        return path
