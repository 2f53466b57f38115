"""A node with the simulated kernel, on which containers are started and ended by hand."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from conftest import Host, crio_annotations
from hosts import crun
from hosts.simulated_kernel import Kernel

from resctrl_hooks.node.container.oci import parse_state, read_bundle
from resctrl_hooks.node.container.workload import derive
from resctrl_hooks.node.hook.create_runtime import create_runtime
from resctrl_hooks.node.hook.poststop import poststop
from resctrl_hooks.node.host.procfs import cgroups_of
from resctrl_hooks.node.reconcile.reconcile import reconcile
from resctrl_hooks.node.reconcile.report import Options

if TYPE_CHECKING:
    from pathlib import Path

    from resctrl_hooks.node.context import Context
    from resctrl_hooks.node.reconcile.report import Report

POD = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
NOW = Options(wait=False)


def pod_number(number: int) -> str:
    return f"3f0ac7f2-8a3b-4f0e-9a55-{number:012d}"


class Cluster:
    """The node; its folders are below `root`."""

    def __init__(self, root: Path, rmids: int = 16, **config: Any) -> None:
        (root / "crun").mkdir()
        self.host = Host(root, runtimeRoots={"crun": str(root / "crun")}, **config)
        self.kernel = Kernel(self.host, rmids=rmids)
        self.root = root

    def context(self) -> Context:
        context = self.host.context()
        context.monitor.resctrl.fs = self.kernel
        return context

    def reconcile(self, options: Options = NOW) -> Report:
        return reconcile(self.context(), options)

    def spawn(self, number: int, pod: str = POD, rdt_class: str = "", threads: int = 1) -> tuple[str, int]:
        """Return a container's process, before its hook."""
        id_ = f"{number:064x}"
        return id_, self.kernel.spawn(f"/kubepods/pod{pod}/crio-{id_}", threads, rdt_class)

    def appear(self, id_: str, pid: int, pod: str = POD, **annotations: str) -> None:
        """The container is in its runtime's folder, and its bundle on disk."""
        config = {"annotations": crio_annotations(pod, **annotations), "linux": {}}
        bundle = str(self.kernel.bundle(f"bundle-{id_[-8:]}", config))
        crun.record(self.root / "crun", id_, pid, bundle, self.kernel.threads.table[pid][1])

    def hook(self, id_: str, pid: int, pod: str = POD, **annotations: str) -> None:
        config = {"annotations": crio_annotations(pod, **annotations), "linux": {}}
        bundle = str(self.kernel.bundle(f"bundle-{id_[-8:]}", config))
        state = {"id": id_, "status": "created", "pid": pid, "bundle": bundle, **config}
        context = self.context()
        checked = parse_state(json.dumps(state).encode())
        found = read_bundle(bundle)
        create_runtime(derive(checked, found, cgroups_of(context.proc, pid), context.settings.cgroup_path), context)

    def start(self, number: int, pod: str = POD, rdt_class: str = "", threads: int = 1) -> tuple[str, int]:
        """Return a container as it should be: hook, then the runtime's folder."""
        id_, pid = self.spawn(number, pod, rdt_class, threads)
        self.hook(id_, pid, pod)
        self.appear(id_, pid, pod)
        return id_, pid

    def poststop(self, id_: str) -> None:
        shutil.rmtree(self.root / "crun" / id_, ignore_errors=True)
        poststop(parse_state(json.dumps({"id": id_, "status": "stopped", "bundle": "/gone"}).encode()), self.context())

    def end_pod(self, pod: str = POD) -> None:
        shutil.rmtree(self.host.cgroup / f"kubepods/pod{pod}")

    def groups_of(self, pid: int) -> set[tuple[str, str]]:
        return {self.kernel.where(tid) for tid in self.kernel.threads.threads(pid)}
