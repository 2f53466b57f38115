"""A node below a folder on a simulated resctrl: versions come and go there while its containers start and end."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hosts.monitored import MonitoredHost, monitored_host

from core.install.staged import call, command
from resctrl_hooks.core.install.paths import LAUNCH
from resctrl_hooks.lab.simulation import mounted

PATIENT = 60
"""Seconds of a hook's deadline: tests of versions do not depend on the speed of this machine."""
Node = TypeVar("Node", bound="InstalledNode")


class InstalledNode:
    """The node. Its installed hook and reconcile use the settings of a host of the test's.

    Args:
        root: the folder.
        host: resctrl, settings, and processes that stand for containers.
    """

    def __init__(self, root: Path, host: MonitoredHost) -> None:
        self.root = root
        self.host = host
        self.containers: dict[str, tuple[int, list[str]]] = {}
        """The process of each container, and its hook's command, which its bundle has had since its start."""
        (root / "bundle").mkdir(parents=True)
        (root / "bundle/config.json").write_text('{"ociVersion": "1.1.0"}')

    def launch(self, word: str) -> list[str]:
        """Return a command of the node half that is installed now."""
        return ["/usr/bin/python3", "-I", "-S", f"{self.root}{LAUNCH}", "--config", str(self.host.config), word]

    def hook(self) -> list[str]:
        """Return the command of the hooks' JSON, with this test's settings."""
        words = command(self.root)
        words[words.index("--config") + 1] = str(self.host.config)
        return words

    def reconcile(self) -> str:
        """Run reconcile as its unit does; return its output."""
        done = call(self.launch("reconcile"), timeout=PATIENT)
        said = (done.stdout + done.stderr).decode()
        assert done.returncode == 0, said
        return said

    def start(self, id_: str) -> None:
        """Start a container by the hook of this moment; it must be in its group when its hook has ended."""
        self.containers[id_] = (self.host.process(), self.hook())
        self._call(id_, status="creating", pid=self.containers[id_][0])
        assert self.is_in_group(id_)

    def end(self, id_: str) -> None:
        """End a container, and call its poststop by the hook of its start."""
        pid = self.containers[id_][0]
        os.kill(pid, 9)
        next(one for one in self.host.processes if one.pid == pid).wait()
        self._call(id_, status="stopped")
        del self.containers[id_]

    def _call(self, id_: str, **state: Any) -> None:
        whole = {"ociVersion": "1.1.0", "id": id_, "bundle": str(self.root / "bundle"), **state}
        done = call(self.containers[id_][1], whole, timeout=PATIENT)
        assert (done.returncode, done.stderr) == (0, b"")

    def is_in_group(self, id_: str) -> bool:
        """Return whether a container's process is in the group of its own."""
        tasks = (self.host.resctrl / "mon_groups" / id_ / "tasks").read_text().split()
        return str(self.containers[id_][0]) in tasks

    def groups(self) -> dict[str, int]:
        """Return the groups by inode numbers, which another group of the same name would not have."""
        return {entry.name: entry.inode() for entry in os.scandir(self.host.resctrl / "mon_groups")}


@contextmanager
def installed_node(folder: Path, kind: type[Node], **simulation: Any) -> Iterator[Node]:
    """Yield a node on a simulated resctrl; end its processes afterwards."""
    with (
        mounted(str(folder / "resctrl"), **simulation) as resctrl,
        monitored_host(folder, str(resctrl), deadlineSeconds=PATIENT) as host,
    ):
        yield kind(folder / "node", host)
