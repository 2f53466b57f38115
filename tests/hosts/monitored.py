"""A simulated resctrl with pods of real processes, and a configuration for commands that show it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hosts.counter_tree import say
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.log import Log
from resctrl_hooks.core.node.settings import Settings

KEYS = [f"{number}f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01" for number in range(8)]


def run(host: Any, *arguments: str, data: str | bytes | None = None, **more: Any) -> Result:
    """Run a command with the configuration of a host in this process."""
    return CliRunner().invoke(main, ["--config", str(host.config), *arguments], input=data, **more)


class MonitoredHost:
    """A host for `resctrl-hook --config FILE`: pods made with `pod`, whose processes end with the host."""

    def __init__(self, root: Path, resctrl: str, **config: Any) -> None:
        self.resctrl = Path(resctrl)
        self.config = root / "config.json"
        paths = {"resctrlPath": resctrl, "stateDir": str(root / "state")}
        none = {"crun": str(root / "crun")}  # not this machine's containers
        values = {"format": 1, **paths, "runtimeRoots": none, "log": {"target": "none"}, **config}
        self.config.write_text(json.dumps(values))
        self.context = Context(Settings(values), Log({"target": "none"}))
        self.processes: list[subprocess.Popen[bytes]] = []

    def pod(
        self, number: int, name: str, *, processes: int = 1, outside: int = 0, rdt_class: str = "",
        namespace: str = "shop",
    ) -> str:  # fmt: skip
        """Create a pod with so many containers of one process, the last ones outside the group; return its key."""
        key = KEYS[number]
        with self.context.monitor.hold(key) as locked:
            locked.record.update({"namespace": namespace, "pod": name, "cgroup": ""})
            locked.ensure_group(rdt_class)
            for place in range(processes + outside):
                pid = self.process()
                details = {"runtime": "cri-o", "container": f"main{place}", "time": int(time.time())}
                locked.add_member(f"{number}{place}" * 32, details, pid)
                if place < processes:
                    if rdt_class:
                        (self.resctrl / rdt_class / "tasks").write_text(f"{pid}\n")
                    self.context.monitor.resctrl.assign(rdt_class, key, pid)
        return key

    def group(
        self, number: int, name: str, *, namespace: str = "shop", rdt_class: str = "", **counters: object
    ) -> Path:
        """Create a pod without containers, whose group in a plain tree has these counters; return its folder."""
        with self.context.monitor.hold(KEYS[number]) as locked:
            locked.record.update({"namespace": namespace, "pod": name})
            folder = Path(locked.ensure_group(rdt_class).path)
        say(folder, **counters)
        return folder

    def process(self) -> int:
        self.processes.append(subprocess.Popen(["sleep", "600"]))
        return self.processes[-1].pid

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def configure(self, **values: Any) -> None:
        self.config.write_text(json.dumps(json.loads(self.config.read_text()) | values))

    def command(self, *arguments: str) -> list[str]:
        """Return the words that run a command in a process of its own."""
        return [sys.executable, "-m", "resctrl_hooks", "--config", str(self.config), *arguments]

    def run(self, *arguments: str) -> Result:
        return run(self, *arguments)

    def json(self, *arguments: str) -> Any:
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


def replace_podman(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Let a script answer for Podman; return its file."""
    program = folder / "bin/podman"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return program


@contextmanager
def monitored_host(root: Path, resctrl: str, **config: Any) -> Iterator[MonitoredHost]:
    """Yield a host; end its processes afterwards."""
    host = MonitoredHost(root, resctrl, **config)
    try:
        yield host
    finally:
        host.end()


@contextmanager
def plain_host(root: Path, *folders: str, **config: Any) -> Iterator[MonitoredHost]:
    """Yield a host on a plain tree in the place of resctrl, with these folders besides the usual ones."""
    for name in ("mon_groups", *folders):
        (root / "resctrl" / name).mkdir(parents=True)
    with monitored_host(root, str(root / "resctrl"), **config) as host:
        yield host


@contextmanager
def host_of_one_pod(root: Path) -> Iterator[tuple[MonitoredHost, tuple[Path, Path]]]:
    """Return a host on a plain tree with pod shop/web-0 (the first of KEYS), and two folders: the root's, the pod's."""
    values: dict[str, Any] = {"llc_occupancy": 4096, "mbm_total_bytes": 1000, "mbm_local_bytes": "Unassigned"}
    with plain_host(root, "info") as host:
        say(host.resctrl, **values)
        yield host, (host.resctrl, host.group(0, "web-0", **values))


@contextmanager
def host_of_counted_pod(root: Path) -> Iterator[MonitoredHost]:
    """Yield a host on a plain tree with pod shop/web (the first of KEYS), whose group and the root have counters."""
    with plain_host(root, "info") as host:
        host.group(0, "web", llc_occupancy=5, mbm_total_bytes=7)
        say(host.resctrl, llc_occupancy=9, mbm_total_bytes=10)
        yield host
