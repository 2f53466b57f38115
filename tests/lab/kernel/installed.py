"""The project's own hook as a bundle or a hooks.d folder names it, with a configuration of the test's."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from core.install.staged import HOOKS, led, put

from kernel.bundles import write_hook
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.node import launch
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.ledger import TOTALS
from resctrl_hooks.core.node.settings import load

LAUNCH = os.path.abspath(launch.__file__)
PYTHON = ["/usr/bin/python3", "-I", "-S"]


def resctrl_hook(*words: str) -> Result:
    """Return the people's command, in this process: to start another one takes an emulated host seconds."""
    return CliRunner().invoke(main, list(words))


def succeeds(*words: str) -> str:
    """Run a command of the people half, which must succeed; return its output."""
    result = resctrl_hook(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


class Installed:
    """The node half with its state below a folder.

    Args:
        folder: for the configuration, the state and hooks.d.
        settings: the compiled configuration, apart from paths.
    """

    CONFIG = "config.json"
    DEADLINE = 9.0
    """Seconds: emulation is ten times slower than the hardware of the default."""

    def __init__(self, folder: str, **settings: Any) -> None:
        os.makedirs(folder, exist_ok=True)
        self.state = os.path.join(folder, "state")
        self.config = os.path.join(folder, self.CONFIG)
        self.log = os.path.join(folder, "log")
        self._folder = folder
        self.configure(**settings)

    def configure(self, **settings: Any) -> None:
        """Replace the settings."""
        paths = {"resctrlPath": os.environ["RESCTRL_ROOT"], "stateDir": self.state, "deadlineSeconds": self.DEADLINE}
        log = {"target": "file", "file": self.log}
        with open(self.config, "w", encoding="utf-8") as out:
            json.dump({"format": 1, **paths, "log": log, **settings}, out)

    def command(self, *words: str) -> list[str]:
        """Return a command line of the node half."""
        return [*PYTHON, LAUNCH, "--config", self.config, *words]

    @property
    def hook(self) -> dict[str, Any]:
        """The hook as a bundle has it."""
        path, *_ = words = self.command("hook")
        return {"path": path, "args": words, "timeout": 60}

    @property
    def hooks(self) -> dict[str, list[dict[str, Any]]]:
        """For a bundle."""
        return {stage: [self.hook] for stage in ("createRuntime", "poststop")}

    def write_hooks_d(self) -> str:
        """As a hooks.d folder: its path."""
        folder = os.path.join(self._folder, "hooks.d")
        write_hook(os.path.join(folder, "hook.json"), self.hook, "createRuntime", "poststop")
        return folder

    def reconcile(self, *options: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run it once. Its exit status is not 0 as long as a pod waits or something is wrong."""
        words = self.command("reconcile", *options)
        done = subprocess.run(words, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert not (check and done.returncode), done.stdout + done.stderr
        return done

    def prints(self, *words: str) -> str:
        """Return the output of a command of the people half, which must succeed."""
        return succeeds("--config", self.config, *words)

    def items(self, *words: str) -> list[dict[str, Any]]:
        """Return the items that such a command prints as JSON."""
        found: list[dict[str, Any]] = json.loads(self.prints(*words, "-o", "json"))["items"]
        return found

    def states(self) -> dict[str, str]:
        """Return the state of each pod in `list`, by its key."""
        return {pod["key"]: pod["state"] for pod in self.items("list")}

    def context(self) -> Context:
        """Return the node as the hook sees it."""
        return Context(load(self.config)[0])

    def total_bytes(self, key: str) -> int:
        """Return a pod's total memory bandwidth, from the library."""
        readings = self.context().monitor.read(key)
        return sum(int(one.value or 0) for one in readings if one.counter.name == "mbm_total_bytes")

    def said(self) -> str:
        """Return the log so far."""
        if not os.path.exists(self.log):
            return ""
        with open(self.log, encoding="utf-8") as source:
            return source.read()

    def records(self) -> list[str]:
        """Return all records of the ledger: its files but for locks, totals and figures about calls."""
        top = Path(self.state)
        found = [path.relative_to(top) for path in top.rglob("*") if not path.is_dir() or path.is_symlink()]
        return sorted(str(path) for path in found if len(path.parts) > 1 and path.parts[0] not in ("locks", TOTALS))


class Staged(Installed):
    """The hook with its guard, as `resctrl-hook install --root` stages it below a folder.

    Args:
        folder: what stands for the host's root.
        runtime: whose hook it is: crio, podman, containerd.
        settings: the compiled configuration, apart from paths.
    """

    CONFIG = "etc/resctrl-hooks/config.json"
    DEADLINE = 4.5
    """Seconds: below the alarm that the staged command sets itself, 5 s."""

    def __init__(self, folder: str, *, runtime: str = "crio", **settings: Any) -> None:
        put(Path(folder), runtime=runtime)
        super().__init__(folder, **settings)

    @property
    def hook(self) -> dict[str, Any]:
        """The registered hook, its paths led below the folder as a chroot would."""
        with open(self._folder + HOOKS, encoding="utf-8") as source:
            found: dict[str, Any] = json.load(source)["hook"]
        root = Path(self._folder)
        return {**found, "args": [found["args"][0], *(led(root, word) for word in found["args"][1:])]}
