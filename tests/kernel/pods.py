"""A Kubernetes pod's containers, as the kubelet and CRI-O have a runtime make them, under either cgroup driver."""

import abc
import os
from collections.abc import Callable
from typing import Any

from conftest import crio_annotations

from kernel.cgroups import CGROUPS, cgroup_of
from kernel.installed import Installed
from kernel.runtimes import Runtime, run

UIDS = [f"{number}f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01" for number in range(8)]
UID = UIDS[3]


class Pod(abc.ABC):
    """A pod's cgroup, which outlives its containers, and containers in it.

    Args:
        uid: the pod's UID, dashed.
        runtime: what makes the containers, under its driver.
        bundle: the fixture of that name.
    """

    def __init__(self, uid: str, runtime: Runtime, bundle: Callable[..., str]) -> None:
        self.uid, self.runtime, self._bundle = uid, runtime, bundle
        if runtime.driver == "systemd":
            self.parent = f"kubepods-pod{uid.replace('-', '_')}.slice"
            run(["systemctl", "start", self.parent])
            self.cgroup = CGROUPS / "kubepods.slice" / self.parent
        else:
            self.parent = f"/kubepods/pod{uid}"
            self.cgroup = CGROUPS / self.parent.lstrip("/")
            self.cgroup.mkdir(parents=True)

    @property
    @abc.abstractmethod
    def hooks(self) -> dict[str, list[dict[str, Any]]]:
        """Those that a container gets."""

    @abc.abstractmethod
    def annotations(self, container: str) -> dict[str, str]:
        """Return those that a container has."""

    def id_of(self, container: str) -> str:
        """Return the runtime's id of a container of this name."""
        return container

    def cgroups_path(self, container: str) -> str:
        """`linux.cgroupsPath` of a container as CRI-O names it, which shows the runtime: annotations do not."""
        form = "{}:crio:{}" if self.runtime.driver == "systemd" else "{}/crio-{}"
        return form.format(self.parent, self.id_of(container))

    def make_bundle(
        self,
        container: str,
        command: str | list[str],
        *,
        rdt_class: str = "",
        annotations: dict[str, str] | None = None,
        hooks: dict[str, Any] | None = None,
        **options: Any,
    ) -> str:
        """Return the bundle of one of its containers, in an RDT class; annotations replace or join the usual ones.

        `hooks` are in place of those that the pod's containers have.
        """
        linux: dict[str, Any] = {"cgroupsPath": self.cgroups_path(container)}
        if rdt_class:
            linux["intelRdt"] = {"closID": rdt_class}
        notes = {**self.annotations(container), **(annotations or {})}
        name = self.id_of(container)
        hooks = self.hooks if hooks is None else hooks
        return self._bundle(name, command, hooks=hooks, annotations=notes, linux=linux, **options)

    def run(self, container: str, command: str | list[str], **options: Any) -> str:
        """Run a container to its end, and delete it; return its output."""
        bundle = self.make_bundle(container, command, **options)
        return self.runtime.run(self.id_of(container), bundle)

    def start(self, container: str, command: str | list[str], **options: Any) -> int:
        """Create and start a container; its init process."""
        bundle = self.make_bundle(container, command, **options)
        self.runtime.create(self.id_of(container), bundle)
        self.runtime.start(self.id_of(container))
        return self.runtime.pid(self.id_of(container))

    def end(self, container: str) -> None:
        """Kill and delete one."""
        self.runtime.kill(self.id_of(container))
        self.runtime.delete(self.id_of(container))

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
    """A pod with the annotations that a hook needs, of a runtime with our hooks.

    Args:
        installed: whose hooks the containers have.
    """

    def __init__(self, uid: str, runtime: Runtime, installed: Installed, bundle: Callable[..., str]) -> None:
        super().__init__(uid, runtime, bundle)
        self.installed = installed

    @property
    def hooks(self) -> dict[str, list[dict[str, Any]]]:
        """Ours."""
        return self.installed.hooks

    def annotations(self, container: str) -> dict[str, str]:
        """Return CRI-O's annotations of a container."""
        return crio_annotations(self.uid, **{"io.kubernetes.container.name": container})
