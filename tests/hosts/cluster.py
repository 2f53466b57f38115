"""A node with the simulated kernel, on which containers are started and ended by hand."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from conftest import Host, crio_annotations

from hosts import crun, hook
from hosts.simulated_kernel import Kernel
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options

if TYPE_CHECKING:
    from pathlib import Path

    from resctrl_hooks.core.node.context import Context
    from resctrl_hooks.core.node.reconcile.report import Report

    Notes = dict[str, str] | None

POD = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
NOW = Options(wait=False)


def pod_number(number: int) -> str:
    return f"3f0ac7f2-8a3b-4f0e-9a55-{number:012d}"


class SimulatedNode:
    """The node; its folders are below `root`. A ``seam`` replaces the kernel, to kill its caller."""

    KERNEL: type[Kernel] = Kernel

    def __init__(self, root: Path, config: dict[str, Any], **machine: Any) -> None:
        (root / "crun").mkdir(parents=True)
        self.root = root
        self.host = Host(root, runtimeRoots={"crun": f"{root}/crun"}, **config)
        self.kernel = self.KERNEL(self.host, **machine)

    def configure(self, **config: Any) -> None:
        """Apply a configuration with this node's runtime."""
        self.host.configure(runtimeRoots={"crun": f"{self.root}/crun"}, **config)

    def add_classes(self, *names: str) -> None:
        for name in names:
            self.kernel.mkdir(f"{self.host.resctrl}/{name}")

    def context(self, seam: Any = None) -> Context:
        context = self.host.context()
        context.monitor.resctrl.fs = seam or self.kernel
        return context

    def reconcile(self, options: Options = NOW, seam: Any = None) -> Report:
        return reconcile(self.context(seam), options)

    def marked(self, mark: str = "waiting") -> list[str]:
        """Return the keys that wait, or have another mark."""
        return sorted(self.context().ledger.marked(mark))

    def pod_record(self, key: str = POD) -> Any:
        """Return a pod's record; empty without one."""
        return self.context().ledger.read_pod(key) or {}

    def bundle(self, id_: str, pod: str, linux: Any = None, notes: Notes = None) -> tuple[str, dict[str, Any]]:
        """Return a container's bundle on disk, and its configuration."""
        config = {"annotations": crio_annotations(pod, **notes or {}), "linux": linux or {}}
        return str(self.kernel.bundle(f"bundle-{id_[-8:]}", config)), config

    def appear(self, id_: str, pid: int, pod: str = POD, linux: Any = None, notes: Notes = None) -> None:
        """The container is in its runtime's folder, and its bundle on disk."""
        bundle, _ = self.bundle(id_, pod, linux, notes)
        crun.record(self.root / "crun", id_, pid, bundle, self.kernel.threads.starts[pid])

    def hook(
        self, id_: str, pid: int, pod: str = POD, linux: Any = None, notes: Notes = None, seam: Any = None
    ) -> None:
        bundle, config = self.bundle(id_, pod, linux, notes)
        hook.call({"id": id_, "status": "created", "pid": pid, "bundle": bundle} | config, self.context(seam))

    def poststop(self, id_: str, seam: Any = None) -> None:
        shutil.rmtree(self.root / "crun" / id_, ignore_errors=True)
        hook.call({"id": id_, "status": "stopped", "bundle": "/gone"}, self.context(seam))

    def end_pod(self, pod: str = POD) -> None:
        """Remove the pod's cgroup."""
        shutil.rmtree(self.host.cgroup / f"kubepods/pod{pod}")

    def groups_of(self, pid: int) -> set[tuple[str, str]]:
        return {self.kernel.where(tid) for tid in self.kernel.threads.threads(pid)}


class Cluster(SimulatedNode):
    """Its containers are known by their numbers."""

    def __init__(self, root: Path, rmids: int = 16, **config: Any) -> None:
        super().__init__(root, config, rmids=rmids)

    def spawn(self, number: int, pod: str = POD, rdt_class: str = "", threads: int = 1) -> tuple[str, int]:
        """Return a container's process, before its hook."""
        id_ = f"{number:064x}"
        return id_, self.kernel.spawn(f"/kubepods/pod{pod}/crio-{id_}", threads, rdt_class)

    def unseen(self, number: int, pod: str = POD, rdt_class: str = "", threads: int = 1) -> tuple[str, int]:
        """Return a container that no hook has seen."""
        id_, pid = self.spawn(number, pod, rdt_class, threads)
        self.appear(id_, pid, pod)
        return id_, pid

    def start(self, number: int, pod: str = POD, rdt_class: str = "", threads: int = 1) -> tuple[str, int]:
        """Return a container as it should be: hook, then the runtime's folder."""
        id_, pid = self.spawn(number, pod, rdt_class, threads)
        self.hook(id_, pid, pod)
        self.appear(id_, pid, pod)
        return id_, pid

    def end(self, id_: str, pid: int, pod: str = "") -> None:
        """End a container with its poststop, and a named pod with it."""
        self.kernel.end(pid)
        self.poststop(id_)
        if pod:
            self.end_pod(pod)
