"""A Kubernetes pod's containers, as the kubelet and CRI-O have a runtime make them, under either cgroup driver."""

import os
from collections.abc import Callable

from conftest import crio_annotations

from kernel.cgroups import CGROUPS, cgroup_of
from kernel.containers import Containers, Hooks
from kernel.installed import Installed
from kernel.runtimes import Runtime, run

UIDS = [f"{number}f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01" for number in range(8)]
UID = UIDS[3]


class Pod(Containers):
    """A pod's cgroup, which outlives its containers, and containers in it, with the annotations that a hook needs.

    Args:
        uid: the pod's UID, dashed.
        runtime: what makes the containers, under its driver.
        make_bundle: the fixture `bundle`.
        hooks: returns those that a container gets now.
    """

    def __init__(self, uid: str, runtime: Runtime, make_bundle: Callable[..., str], hooks: Callable[[], Hooks]) -> None:
        super().__init__(runtime, make_bundle, hooks)
        self.uid = uid
        if runtime.driver == "systemd":
            self.parent = f"kubepods-pod{uid.replace('-', '_')}.slice"
            run(["systemctl", "start", self.parent])
            self.cgroup = CGROUPS / "kubepods.slice" / self.parent
        else:
            self.parent = f"/kubepods/pod{uid}"
            self.cgroup = CGROUPS / self.parent.lstrip("/")
            self.cgroup.mkdir(parents=True)

    def cgroups_path(self, name: str) -> str:
        """`linux.cgroupsPath` of a container as CRI-O names it, which shows the runtime: annotations do not."""
        form = "{}:crio:{}" if self.runtime.driver == "systemd" else "{}/crio-{}"
        return form.format(self.parent, self.id_of(name))

    def annotations(self, name: str) -> dict[str, str]:
        """Return CRI-O's annotations of a container."""
        return crio_annotations(self.uid, **{"io.kubernetes.container.name": name})

    def threads(self, pid: int) -> set[int]:
        """Return all thread ids in the cgroup of a process: a container's."""
        return {int(line) for line in (cgroup_of(pid) / "cgroup.threads").read_text().split()}

    def remove(self) -> None:
        """End the pod: its containers, then its cgroup, as the kubelet does it."""
        self.runtime.clean()
        if self.runtime.driver == "systemd":
            run(["systemctl", "stop", self.parent], check=False)
        for folder in (*self.cgroup.glob("*/"), self.cgroup):
            if folder.is_dir():
                os.rmdir(folder)


class KubernetesPod(Pod):
    """A pod of a runtime with our hooks.

    Args:
        installed: whose hooks the containers have.
    """

    def __init__(self, uid: str, runtime: Runtime, installed: Installed, make_bundle: Callable[..., str]) -> None:
        super().__init__(uid, runtime, make_bundle, lambda: installed.hooks)
        self.installed = installed
