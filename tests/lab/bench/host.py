"""A host on tmpfs with the hook installed, and a runtime's input to it."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from process import Call

FIXTURES = Path(__file__).parents[2] / "fixtures"
BENCH = Path(__file__).parent
TMPFS = Path("/dev/shm")
_STATE = "crio-crun-createRuntime-state.json"
_BUNDLE = "crio-crun-config.json"


class Host:
    """The installed hook below a folder on tmpfs, its settings, a plain tree as resctrl, and a socket as journald."""

    def __init__(self, root: Path, *options: str) -> None:
        """Install with further options of `resctrl-hook install`."""
        self.root = root
        self.installed = root / "installed"
        self.installed.mkdir()
        install = [sys.executable, "-m", "resctrl_hooks", "install", "--runtime", "crio", *options]
        subprocess.run(
            [*install, "--root", str(self.installed)],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        (registration,) = self.installed.glob("**/hooks.d/*.json")
        self._arguments: list[str] = json.loads(registration.read_text())["hook"]["args"]
        self.resctrl = root / "resctrl"
        for name in ("info", "mon_groups", "mon_data"):
            (self.resctrl / name).mkdir(parents=True)
        (root / "bundle").mkdir()
        shutil.copy(FIXTURES / _BUNDLE, root / "bundle/config.json")
        self.journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.journal.bind(str(root / "journal"))
        self.journal.settimeout(0)
        self.configure(self.resctrl)

    def configure(self, resctrl: Path, **sections: Any) -> None:
        """Apply settings: defaults with this host's paths, and ``sections``."""
        values: dict[str, Any] = {
            "format": 1,
            "resctrlPath": str(resctrl),
            "stateDir": str(self.root / "state"),
            "log": {"target": "journal", "journalSocket": str(self.root / "journal")},
            **sections,
        }
        (self.installed / "etc/resctrl-hooks/config.json").write_text(json.dumps(values))

    def hook(self) -> list[str]:
        """Return the command line of the registration, its files found below this host's root."""
        return [
            f"{self.installed}{word}" if word.startswith(("/usr/local/", "/etc/")) else word for word in self._arguments
        ]

    def hook_without_guard(self) -> list[str]:
        """Return the command that the guard calls."""
        whole = self.hook()
        return whole[next(place for place, word in enumerate(whole) if "python" in word) :]

    def modules(self, name: str, *, cached: bool) -> list[str]:
        """The hook from plain modules, with or without Python's own cache of their bytecode."""
        folder = self.root / name / "node"
        (code,) = self.installed.glob("usr/local/libexec/resctrl-hooks/node-*")
        shutil.copytree(code, folder, ignore=shutil.ignore_patterns("*.cpython-*"))
        python = self.hook_without_guard()[0]
        command = [python, "-I", "-S", str(folder / "core/node/launch.py"), *self.hook()[-3:]]
        if cached:
            subprocess.run([*command[:-1], "nonsense"], check=False, stderr=subprocess.DEVNULL)
            for stage in ("creating", "stopped"):
                with self.container() as states:
                    subprocess.run(command, stdin=states[stage].open("rb"), check=True)
        else:
            command.insert(3, "-B")
        return command

    @contextlib.contextmanager
    def container(self, but: str = "") -> Iterator[dict[str, Path]]:
        """A process that waits to be started, and the states that a runtime hands to createRuntime and poststop.

        Annotations whose names have ``but`` in them are left out.
        """
        process = subprocess.Popen(["sleep", "600"])
        state: dict[str, Any] = json.loads((FIXTURES / _STATE).read_text())
        state |= {"bundle": str(self.root / "bundle"), "pid": process.pid}
        if but:
            state["annotations"] = {name: text for name, text in state["annotations"].items() if but not in name}
        paths = {status: self.root / f"{status}.json" for status in ("creating", "stopped")}
        paths["creating"].write_text(json.dumps(state))
        paths["stopped"].write_text(json.dumps(state | {"status": "stopped", "pid": 0}))
        try:
            yield paths
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            self.read_journal()

    def end(self, states: dict[str, Path]) -> None:
        """End the process of `container`: a poststop finds it gone."""
        pid = json.loads(states["creating"].read_text())["pid"]
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    def read_journal(self) -> int:
        """Take the log's lines, so that the next hook finds room for its own; return how many there were."""
        lines = 0
        with contextlib.suppress(BlockingIOError):
            while self.journal.recv(1 << 16):
                lines += 1
        return lines

    def clear(self) -> None:
        """Remove the groups that a hook which keeps no record has left."""
        for group in (self.resctrl / "mon_groups").iterdir():
            shutil.rmtree(group)


def bare(python: str, stdin: Path) -> Call:
    """Return the bare interpreter: the lower bound for every hook in Python."""
    return Call([python, "-I", "-S", "-c", "pass"], stdin)
