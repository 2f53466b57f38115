"""The project's hook in a bundle, a hooks.d folder or on this whole host; its watcher; ways to break the host."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from core.install.staged import HOOKS, led, put
from hosts.node import Node

from kernel.bundles import write_hook
from kernel.runtimes import run, wait_until
from resctrl_hooks.core.cli import main


def resctrl_hook(*words: str | Path) -> Result:
    """Return the people's command, in this process: to start another one takes an emulated host seconds."""
    return CliRunner().invoke(main, [str(word) for word in words])


def succeeds(*words: str) -> str:
    """Run a command of the people half, which must succeed; return its output."""
    result = resctrl_hook(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


class Installed(Node):
    """The node half with its state below a folder; its resctrl and its processes are the guest's."""

    STATE = "state"
    DEADLINE = 9.0  # seconds: emulation is ten times slower than the hardware of the default

    def __init__(self, folder: str | Path, **settings: Any) -> None:
        super().__init__(Path(folder), real_proc=True, resctrl=Path(os.environ["RESCTRL_ROOT"]), **settings)

    def configure(self, **settings: Any) -> None:
        paths = {"resctrlPath": str(self.resctrl), "stateDir": str(self.state), "deadlineSeconds": self.DEADLINE}
        log = {"target": "file", "file": str(self.log)}
        self.config.write_text(json.dumps({"format": 1, **paths, "log": log, **settings}))

    @property
    def hook(self) -> dict[str, Any]:
        path, *_ = words = self.command("hook")
        return {"path": path, "args": words, "timeout": 60}

    @property
    def hooks(self) -> dict[str, list[dict[str, Any]]]:
        return {stage: [self.hook] for stage in ("createRuntime", "poststop")}

    def write_hooks_d(self) -> str:
        """As a hooks.d folder: its path."""
        folder = self.root / "hooks.d"
        write_hook(str(folder / "hook.json"), self.hook, "createRuntime", "poststop")
        return str(folder)

    def reconcile(  # type: ignore[override]
        self, *options: str, check: bool = True
    ) -> "subprocess.CompletedProcess[str]":
        """Run it once. Its exit status is not 0 as long as a pod waits or something is wrong."""
        words = self.command("reconcile", *options)
        done = subprocess.run(words, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert not (check and done.returncode), done.stdout + done.stderr
        return done

    def prints(self, *words: str) -> str:
        """Return the output of a command of the people half, which must succeed."""
        return succeeds("--config", str(self.config), *words)

    def items(self, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.prints(*words, "-o", "json"))["items"]
        return found

    def states(self) -> dict[str, str]:
        """Return the state of each pod in `list`, by its key."""
        return {pod["key"]: pod["state"] for pod in self.items("list")}

    def total_bytes(self, key: str) -> int:
        readings = self.context().monitor.read(key)
        return sum(int(one.value or 0) for one in readings if one.counter.name == "mbm_total_bytes")

    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


class Staged(Installed):
    """The hook with its guard, as `resctrl-hook install --root` stages it below a folder."""

    CONFIG = "etc/resctrl-hooks/config.json"
    DEADLINE = 4.5  # seconds: below the alarm that the staged command sets itself, 5 s

    def __init__(self, folder: str | Path, *, runtime: str = "crio", **settings: Any) -> None:
        put(Path(folder), runtime=runtime)
        super().__init__(folder, **settings)

    @property
    def hook(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(Path(f"{self.root}{HOOKS}").read_text())["hook"]
        return {**found, "args": [found["args"][0], *(led(self.root, word) for word in found["args"][1:])]}


CONFIG = Path("/etc/resctrl-hooks/config.yaml")
KEPT = ("/etc/resctrl-hooks", "/run/resctrl-hooks")
"""Files that `uninstall` keeps: an edited configuration, and the records of running containers."""


def clear_host() -> None:
    resctrl_hook("uninstall", "--release-groups")
    for folder in KEPT:
        shutil.rmtree(folder, ignore_errors=True)


def configure_host(text: str) -> None:
    CONFIG.write_text(text)
    succeeds("config", "apply")


def state_of(unit: str) -> str:
    """Return the word of `systemctl is-active`."""
    return run(["systemctl", "is-active", unit], check=False).strip()


def failed_units() -> str:
    return run(["systemctl", "list-units", "--failed", "--plain", "--no-legend", "resctrl-hooks-*"]).strip()


@contextlib.contextmanager
def interpreter_gone() -> Iterator[None]:
    away = Path("/usr/bin/python3").rename("/usr/bin/python3.away")
    try:
        yield
    finally:
        away.rename("/usr/bin/python3")


@contextlib.contextmanager
def disk_full(folder: Path) -> Iterator[None]:
    """Mount a full file system on a folder, which is created if it is missing."""
    folder.mkdir(exist_ok=True)
    run(["mount", "-t", "tmpfs", "-o", "mode=700,size=16k,nr_inodes=4", "full", str(folder)])
    with contextlib.suppress(OSError):
        (folder / "filler").write_bytes(b"x" * 65536)
    try:
        yield
    finally:
        run(["umount", str(folder)])


@contextlib.contextmanager
def unmounted() -> Iterator[None]:
    root = os.environ["RESCTRL_ROOT"]
    run(["umount", root])
    try:
        yield
    finally:
        run(["mount", "-t", "resctrl", "resctrl", root])


class Watcher:
    """The process, started as by its unit, with the settings and the state of the installation."""

    def __init__(self, installed: Installed) -> None:
        self._installed = installed
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it watches."""
        self._process = subprocess.Popen(self._installed.command("watch"))
        wait_until(lambda: self.figures().get("mode") == "events", "the watcher receives events")

    def figures(self) -> dict[str, Any]:
        """Return its status, which is up to five seconds old."""
        path = self._installed.state / "exec.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found if self._process and found.get("pid") == self._process.pid else {}

    def close(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)
