"""A Kubernetes pod's containers, as the kubelet and CRI-O have a runtime make them, under either cgroup driver."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernel.installed import Installed
from kernel.runtimes import Runtime, run

CGROUPS = Path("/sys/fs/cgroup")


class KubernetesPod:
    """A pod's cgroup, which outlives its containers, and containers in it.

    Args:
        uid: the pod's UID, dashed.
        runtime: what makes the containers, under its driver.
        installed: whose hooks the containers have.
        bundle: the fixture of that name.
    """

    def __init__(self, uid: str, runtime: Runtime, installed: Installed, bundle: Callable[..., str]) -> None:
        self.uid, self.runtime, self.installed, self._bundle = uid, runtime, installed, bundle
        if runtime.driver == "systemd":
            self.parent = f"kubepods-pod{uid.replace('-', '_')}.slice"
            run(["systemctl", "start", self.parent])
            self.cgroup = CGROUPS / "kubepods.slice" / self.parent
        else:
            self.parent = f"/kubepods/pod{uid}"
            self.cgroup = CGROUPS / self.parent.lstrip("/")
            self.cgroup.mkdir(parents=True)

    def annotations(self, container: str) -> dict[str, str]:
        """What CRI-O says of a container."""
        return {
            "io.container.manager": "cri-o",
            "io.kubernetes.cri-o.ContainerType": "container",
            "io.kubernetes.pod.uid": self.uid,
            "io.kubernetes.pod.namespace": "shop",
            "io.kubernetes.pod.name": "web-0",
            "io.kubernetes.container.name": container,
        }

    def make_bundle(
        self,
        container: str,
        command: str | list[str],
        *,
        rdt_class: str = "",
        annotations: dict[str, str] | None = None,
        **options: Any,
    ) -> str:
        """The bundle of one of its containers, in an RDT class; annotations replace or join the usual ones."""
        linux: dict[str, Any] = {"cgroupsPath": self.runtime.cgroups_path(container, self.parent)}
        if rdt_class:
            linux["intelRdt"] = {"closID": rdt_class}
        notes = {**self.annotations(container), **(annotations or {})}
        return self._bundle(container, command, hooks=self.installed.hooks, annotations=notes, linux=linux, **options)

    def run(self, container: str, command: str | list[str], **options: Any) -> str:
        """Runs a container to its end, and deletes it: what it printed."""
        return self.runtime.run(container, self.make_bundle(container, command, **options))

    def start(self, container: str, command: str | list[str], **options: Any) -> int:
        """Creates and starts a container; its init process."""
        self.runtime.create(container, self.make_bundle(container, command, **options))
        self.runtime.start(container)
        return self.runtime.pid(container)

    def end(self, container: str) -> None:
        """Kills and deletes one."""
        self.runtime.kill(container)
        self.runtime.delete(container)

    def threads(self, pid: int) -> set[int]:
        """All thread ids in the cgroup of a process: a container's."""
        folder = CGROUPS / Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::/")
        return {int(line) for line in (folder / "cgroup.threads").read_text().split()}

    def remove(self) -> None:
        """Ends the pod: its containers, then its cgroup, as the kubelet does it."""
        self.runtime.clean()
        if self.runtime.driver == "systemd":
            run(["systemctl", "stop", self.parent], check=False)
        for folder in (*self.cgroup.glob("*/"), self.cgroup):
            if folder.is_dir():
                os.rmdir(folder)
