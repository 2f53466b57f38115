"""Containers of a runtime, each in a cgroup of its own, with the hooks of an installation."""

from collections.abc import Callable
from typing import Any

from kernel.installed import Installed
from kernel.runtimes import Runtime

SLEEP = ["/bin/sleep", "1000"]


class Containers:
    """Creates containers.

    Args:
        runtime: what makes them, under its driver.
        make_bundle: the fixture `bundle`.
        installed: whose hooks they have.
    """

    def __init__(self, runtime: Runtime, make_bundle: Callable[..., str], installed: Installed) -> None:
        self.runtime, self._make_bundle, self._installed = runtime, make_bundle, installed

    def bundle(
        self,
        name: str,
        command: str | list[str] = SLEEP,
        *,
        hooks: dict[str, list[dict[str, Any]]] | None = None,
        annotations: dict[str, str] | None = None,
        mounts: list[dict[str, Any]] | None = None,
        **linux: Any,
    ) -> str:
        """Return the bundle of a container; ``hooks`` replace the installation's, the rest is its `linux` section."""
        return self._make_bundle(
            name,
            command,
            hooks=self._installed.hooks if hooks is None else hooks,
            annotations=annotations,
            mounts=mounts or [],
            linux={"cgroupsPath": self.runtime.cgroups_path(name), **linux},
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
        """Kill and delete one."""
        self.runtime.kill(name)
        self.runtime.delete(name)
