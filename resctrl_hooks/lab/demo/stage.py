"""A small host in a temporary folder: a simulated resctrl, the hook's settings, its ledger and its log.

It uses neither /sys/fs/resctrl nor /run/resctrl-hooks nor /etc.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from resctrl_hooks.core.fuse import MountError
from resctrl_hooks.core.install.guard import TIMEOUT
from resctrl_hooks.core.node import launch
from resctrl_hooks.core.node.resctrl.monitor import Monitor
from resctrl_hooks.lab.simulation import mounted

RMIDS = 16
# Runs inside containers: the node half on the system's Python, without site packages.
_SYSTEM_PYTHON = "/usr/bin/python3"
_OLDEST_PYTHON = "import sys; sys.exit(sys.version_info < (3, 9))"


class Stage:
    """A host to run hooks on.

    Args:
        folder: A temporary folder for this stage only.
        why_plain: The reason for a plain tree of folders as resctrl; empty with a simulation.
    """

    def __init__(self, folder: str, why_plain: str = "") -> None:
        self.folder = folder
        self.why_plain = why_plain
        self.resctrl = f"{folder}/resctrl"
        self.state_dir = f"{folder}/state"
        self.config = f"{folder}/config.json"
        self.log = f"{folder}/hook.log"
        self.bundles = f"{folder}/bundles"
        self.environment: dict[str, str] = {}
        """Of the processes of the node half."""
        self._read = 0
        self.configure()

    def configure(self, **settings: Any) -> None:
        """Apply settings on top of this stage's."""
        values = {
            "format": 1,
            "resctrlPath": self.resctrl,
            "stateDir": self.state_dir,
            "runtimeRoots": {"demo": f"{self.folder}/runtimes"},  # ignore other containers on this machine
            "log": {"target": "file", "file": self.log},
        }
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(values | settings, file)
        os.chmod(self.config, 0o644)  # hooks refuse a configuration that others can write; independent of the umask

    @property
    def hook(self) -> list[str]:
        """The hook's command line, for a hook JSON, a bundle or a shell."""
        return [*self.python, launch.__file__, "--config", self.config, "hook"]

    @property
    def python(self) -> list[str]:
        """The interpreter of the node half."""
        return [_interpreter(), "-I", "-S"]

    def hook_entry(self) -> dict[str, Any]:
        """Return the hook as a bundle's configuration and a hook JSON have it."""
        words = self.hook
        return {"path": words[0], "args": words, "timeout": TIMEOUT}

    @property
    def monitor(self) -> Monitor:
        """The library, on this stage's resctrl and ledger."""
        return Monitor(self.resctrl, state_dir=self.state_dir)

    def groups(self) -> list[str]:
        """Return the names of all mon_groups in the root class."""
        return sorted(os.listdir(f"{self.resctrl}/mon_groups"))

    def tasks(self, key: str) -> dict[int, str]:
        """Return the threads in a key's group, with their names; a plain tree also keeps those of ended processes."""
        return {tid: name for tid in sorted(self.monitor.resctrl.tasks("", key)) if (name := _name_of(tid))}

    def records(self) -> list[str]:
        """Return the keys in the ledger."""
        return sorted(self.monitor.ledger.keys())

    def new_log(self) -> list[str]:
        """Return the hook's log since the last call, without syslog's prefix."""
        try:
            with open(self.log, encoding="utf-8") as file:
                file.seek(self._read)
                lines = file.read().splitlines()
                self._read = file.tell()
        except FileNotFoundError:
            return []
        return [line.partition("]: ")[2] or line for line in lines]


@contextlib.contextmanager
def staged(*, plain: bool = False) -> Iterator[Stage]:
    """Yield a stage, and remove it completely at the end of the ``with`` block.

    Args:
        plain: Use a plain tree of folders even where a simulation is possible.
    """
    with contextlib.ExitStack() as stack:
        # For root below /tmp, the folder has mode 0700: other users can neither read nor write the hooks' files.
        folder = os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory(prefix="resctrl-demo-")))
        why_plain = "a plain tree was requested" if plain else ""
        if not plain:
            try:
                stack.enter_context(mounted(f"{folder}/resctrl", rmids=RMIDS))
            except MountError as error:
                why_plain = str(error)
        if why_plain:
            os.makedirs(f"{folder}/resctrl/mon_groups", exist_ok=True)
        yield Stage(folder, why_plain)


def _interpreter() -> str:
    if not os.access(_SYSTEM_PYTHON, os.X_OK):
        return sys.executable
    tried = subprocess.run([_SYSTEM_PYTHON, "-I", "-S", "-c", _OLDEST_PYTHON], check=False, capture_output=True)
    return sys.executable if tried.returncode else _SYSTEM_PYTHON


def _name_of(tid: int) -> str:
    try:
        with open(f"/proc/{tid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
