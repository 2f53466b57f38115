"""The NRI plugin's process on the guest, for the tests' containerd."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from kernel.containerd import NRI, Pod
from kernel.groups import Resctrl
from kernel.installed import Installed
from kernel.runtimes import wait_until


class Plugin(Installed):
    """The plugin's process, with settings of the test's."""

    def __init__(self, folder: str, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Plugin":
        """Start it and wait until it has adopted the running containers."""
        before = self.said().count("Synchronize: ")
        self.process = subprocess.Popen(self.command("nri", "--socket", NRI))
        wait_until(lambda: self.said().count("Synchronize: ") > before, "the plugin is synchronised")
        return self

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(60)
        self.process = None

    def count(self, words: str) -> int:
        """Return how often it has logged something."""
        return self.said().count(words)

    def status(self) -> dict[str, Any]:
        """Return its status."""
        found: dict[str, Any] = json.loads((Path(self.state) / "nri.json").read_text())
        return found


def groups(resctrl: Resctrl) -> set[str]:
    """Return all monitoring groups, by their paths below resctrl."""
    return {os.path.relpath(path, resctrl.root) for path in resctrl.groups() if "mon_groups" in path}


def group_of(pod: Pod) -> str:
    """Return a pod's group in the root class."""
    return f"mon_groups/{pod.uid}"
