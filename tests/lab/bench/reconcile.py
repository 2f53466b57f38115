"""A host of plain files with many containers that are in their groups, which is what nearly every reconcile finds."""

import json
from pathlib import Path

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.log import Log
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.core.node.settings import Settings

START = 4711  # the start time of made-up processes
PER_POD = 2


class Host:
    """A made-up host with so many containers, some of them in each pod; crun's records of them."""

    def __init__(self, root: Path, containers: int) -> None:
        self.root = root
        for folder in ("resctrl/mon_groups", "proc/sys/kernel/random", "crun", "cgroup"):
            (root / folder).mkdir(parents=True)
        (root / "proc/sys/kernel/random/boot_id").write_text("0d5d0a52-6e2c-4a3c-8f2e-000000000001\n")
        paths = {"resctrlPath": "resctrl", "procPath": "proc", "cgroupPath": "cgroup", "stateDir": "state"}
        values = {name: str(root / folder) for name, folder in paths.items()}
        settings = Settings({**values, "runtimeRoots": {"crun": str(root / "crun")}})
        self.context = Context(settings, Log({"target": "none"}, stderr=False))
        for number in range(containers):
            self._add(number)
        report = reconcile(self.context, Options(wait=False))
        assert len(report.events["adopted"]) == containers, report.as_text()
        for number in range(containers):
            self._join(number)
        report = reconcile(self.context, Options(wait=False))
        assert (report.ok, report.changed) == (True, False), report.as_text()

    def _uid(self, number: int) -> str:
        return f"3f0ac7f2-8a3b-4f0e-9a55-{number // PER_POD:012d}"

    def _add(self, number: int) -> None:
        pid, id_, uid = 100 + number, f"{number:064x}", self._uid(number)
        process, cgroup = self.root / f"proc/{pid}", f"/kubepods/pod{uid}/crio-{id_}"
        annotations = {
            "io.container.manager": "cri-o",
            "io.kubernetes.cri-o.ContainerType": "container",
            "io.kubernetes.pod.uid": uid,
            "io.kubernetes.pod.namespace": "shop",
            "io.kubernetes.pod.name": f"web-{number // PER_POD}",
            "io.kubernetes.container.name": f"c{number % PER_POD}",
        }
        bundle = self.root / "bundles" / id_
        status = {"pid": pid, "process-start-time": START, "bundle": str(bundle)}
        (process / f"task/{pid}").mkdir(parents=True)
        for path, text in {
            process / "stat": f"{pid} (sleep) S " + "1 " * 18 + f"{START} 0\n",
            process / "cgroup": f"0::{cgroup}\n",
            process / "cpu_resctrl_groups": "res:/\nmon:\n",
            Path(f"{self.root}/cgroup{cgroup}/cgroup.threads"): f"{pid}\n",
            bundle / "config.json": json.dumps({"linux": {}, "annotations": annotations}),
            self.root / "crun" / id_ / "status": json.dumps(status),
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def _join(self, number: int) -> None:
        """Write the kernel's state after a write to ``tasks``."""
        uid, first = self._uid(number), number - number % PER_POD
        (self.root / f"proc/{100 + number}/cpu_resctrl_groups").write_text(f"res:/\nmon:{uid}\n")
        tasks = "".join(f"{100 + one}\n" for one in range(first, number + 1))
        (self.root / f"resctrl/mon_groups/{uid}/tasks").write_text(tasks)
