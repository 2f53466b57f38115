"""The exec watcher's process, for a test's containers."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

from kernel.installed import Installed
from kernel.runtimes import wait_until


class Watcher:
    """The process, started as by its unit, with the settings and the state of the installation."""

    def __init__(self, installed: Installed) -> None:
        self._installed = installed
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Watcher":
        """Start it, and wait until it watches."""
        self._process = subprocess.Popen(self._installed.command("watch"))
        wait_until(lambda: self.figures().get("mode") == "events", "the watcher receives events")
        return self

    def figures(self) -> dict[str, Any]:
        """Return its status, which is up to five seconds old."""
        try:
            found: dict[str, Any] = json.loads((Path(self._installed.state) / "exec.json").read_text())
        except FileNotFoundError:
            return {}
        return found if self._process and found["pid"] == self._process.pid else {}

    def stop(self) -> None:
        """End it as systemd does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)
            self._process = None
