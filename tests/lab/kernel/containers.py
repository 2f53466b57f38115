"""Containers of a runtime, with hooks: each in a cgroup of its own, or in a pod's (`kernel.pods`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel.runtimes import Runtime

SLEEP = ["/bin/sleep", "1000"]
Hooks = Mapping[str, Sequence[Mapping[str, Any]]]
"""`hooks` of a bundle."""


class Containers:
    """Creates containers.

    Args:
        runtime: what makes them, under its driver.
        make_bundle: the fixture `bundle`.
        hooks: returns those that a container gets now.
    """

    def __init__(self, runtime: Runtime, make_bundle: Callable[..., str], hooks: Callable[[], Hooks]) -> None:
        self.runtime, self._make_bundle, self._hooks = runtime, make_bundle, hooks

    def id_of(self, name: str) -> str:
        """Return the runtime's id of a container of this name."""
        return name

    def cgroups_path(self, name: str) -> str:
        """`linux.cgroupsPath` of a container."""
        return self.runtime.cgroups_path(name)

    def annotations(self, name: str) -> dict[str, str]:
        """Return those that a container has."""
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
            self.id_of(name),
            command,
            hooks=self._hooks() if hooks is None else hooks,
            annotations={**self.annotations(name), **(annotations or {})},
            mounts=mounts,
            linux=linux,
        )

    def create(self, name: str, *command: str | list[str], **options: Any) -> int:
        """Create a container; return its init process."""
        bundle = self.bundle(name, *command, **options)
        self.runtime.create(self.id_of(name), bundle)
        return self.runtime.pid(self.id_of(name))

    def start(self, name: str, *command: str | list[str], **options: Any) -> int:
        """Create and start one; return its init process."""
        pid = self.create(name, *command, **options)
        self.runtime.start(self.id_of(name))
        return pid

    def run(self, name: str, *command: str | list[str], check: bool = True, **options: Any) -> str:
        """Run one to its end, and delete it; return its output."""
        bundle = self.bundle(name, *command, **options)
        return self.runtime.run(self.id_of(name), bundle, check=check)

    def end(self, name: str) -> None:
        """Kill and delete one."""
        self.runtime.kill(self.id_of(name))
        self.runtime.delete(self.id_of(name))
