"""The project's own hook as a bundle or a hooks.d folder names it, with a configuration of the test's."""

import json
import os
import subprocess
from typing import Any

from resctrl_hooks.node import hook as node_hook

LAUNCH = os.path.join(os.path.dirname(os.path.abspath(node_hook.__file__)), "launch.py")
PYTHON = ["/usr/bin/python3", "-I", "-S"]
DEADLINE = 9.0
"""Seconds: emulation is ten times slower than what the default was chosen for."""


class Installed:
    """The node half with its state below a folder.

    Args:
        folder: for the configuration, the state and hooks.d.
        settings: the compiled configuration, apart from paths.
    """

    def __init__(self, folder: str, **settings: Any) -> None:
        os.makedirs(folder, exist_ok=True)
        self.state = os.path.join(folder, "state")
        self.config = os.path.join(folder, "config.json")
        self.log = os.path.join(folder, "log")
        self._folder = folder
        self.configure(**settings)

    def configure(self, **settings: Any) -> None:
        """Replaces the settings."""
        paths = {"resctrlPath": os.environ["RESCTRL_ROOT"], "stateDir": self.state, "deadlineSeconds": DEADLINE}
        log = {"target": "file", "file": self.log}
        with open(self.config, "w", encoding="utf-8") as out:
            json.dump({"format": 1, **paths, "log": log, **settings}, out)

    def command(self, *words: str) -> list[str]:
        """A command line of the node half."""
        return [*PYTHON, LAUNCH, "--config", self.config, *words]

    @property
    def hooks(self) -> dict[str, list[dict[str, Any]]]:
        """For a bundle."""
        path, *_ = words = self.command("hook")
        return {stage: [{"path": path, "args": words, "timeout": 60}] for stage in ("createRuntime", "poststop")}

    def write_hooks_d(self) -> str:
        """As a hooks.d folder: its path."""
        folder = os.path.join(self._folder, "hooks.d")
        os.makedirs(folder, exist_ok=True)
        path, *_ = words = self.command("hook")
        hook = {"path": path, "args": words, "timeout": 60}
        stages = ["createRuntime", "poststop"]
        with open(os.path.join(folder, "hook.json"), "w", encoding="utf-8") as out:
            json.dump({"version": "1.0.0", "hook": hook, "when": {"always": True}, "stages": stages}, out)
        return folder

    def reconcile(self) -> None:
        """Runs it once."""
        subprocess.run(self.command("reconcile"), check=True, stdin=subprocess.DEVNULL, capture_output=True)

    def said(self) -> str:
        """The log so far."""
        if not os.path.exists(self.log):
            return ""
        with open(self.log, encoding="utf-8") as source:
            return source.read()
