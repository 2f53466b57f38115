"""Containers of a runtime with hooks, and Kubernetes pods as the kubelet and CRI-O have a runtime make them."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conftest import crio_annotations

from kernel.runtimes import CGROUPS, Runtime, cgroup_of, run

SLEEP = ["/bin/sleep", "1000"]
Hooks = Mapping[str, Sequence[Mapping[str, Any]]]  # `hooks` of a bundle


class Containers:
    def __init__(self, runtime: Runtime, make_bundle: Callable[..., str], hooks: Callable[[], Hooks]) -> None:
        self.runtime, self._make_bundle, self._hooks = runtime, make_bundle, hooks

    def cgroups_path(self, name: str) -> str:
        """`linux.cgroupsPath` of a container."""
        return self.runtime.cgroups_path(name)

    def annotations(self, name: str) -> dict[str, str]:
        return {}

    def bundle(
        self,
        name: str,
        command: str | list[str] = SLEEP,
        *,
        rdt_class: str = "",
        hooks: Hooks | None = None,
        annotations: Mapping[str, str] | None = None,
        mounts: Sequence[Mapping[str, Any]] = (),
        **linux: Any,
    ) -> str:
        """Return the bundle of a container, in an RDT class; annotations replace or join the usual ones.

        ``hooks`` are in place of those that containers get; the rest is its `linux` section.
        """
        linux["cgroupsPath"] = self.cgroups_path(name)
        if rdt_class:
            linux["intelRdt"] = {"closID": rdt_class}
        return self._make_bundle(
            name,
            command,
            hooks=self._hooks() if hooks is None else hooks,
            annotations={**self.annotations(name), **(annotations or {})},
            mounts=mounts,
            linux=linux,
        )

    def create(self, name: str, *command: str | list[str], **options: Any) -> int:
        """Create a container; return its init process."""
        self.runtime.create(name, self.bundle(name, *command, **options))
        return self.runtime.pid(name)

    def start(self, name: str, *command: str | list[str], **options: Any) -> int:
        """Create and start one; return its init process."""
        pid = self.create(name, *command, **options)
        self.runtime.start(name)
        return pid

    def run(self, name: str, *command: str | list[str], check: bool = True, **options: Any) -> str:
        """Run one to its end, and delete it; return its output."""
        return self.runtime.run(name, self.bundle(name, *command, **options), check=check)

    def end(self, name: str) -> None:
        self.runtime.kill(name)
        self.runtime.delete(name)


UIDS = [f"{number}f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01" for number in range(8)]
UID = UIDS[3]


class KubernetesPod(Containers):
    """A pod's cgroup, which outlives its containers, and containers in it, with the annotations that a hook needs."""

    def __init__(self, uid: str, runtime: Runtime, installed: Any, make_bundle: Callable[..., str]) -> None:
        super().__init__(runtime, make_bundle, lambda: installed.hooks)
        self.uid, self.installed = uid, installed
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
        return form.format(self.parent, name)

    def annotations(self, name: str) -> dict[str, str]:
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
