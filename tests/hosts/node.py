"""A made-up node below one folder: resctrl, /proc, cgroups, a machine, a configuration, and containers.

Its parts are chosen when it is built: a plain tree or the simulation's model (``kernel``) in the place of resctrl, a
made-up or the real /proc, and a machine (sysfs).
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

from resctrl_hooks.core.node import launch, main
from resctrl_hooks.core.node.container.oci import POSTSTOP, parse_state, read_bundle
from resctrl_hooks.core.node.container.workload import derive
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.hook.call import stopped as ended
from resctrl_hooks.core.node.hook.create_runtime import create_runtime
from resctrl_hooks.core.node.host.procfs import cgroups_of
from resctrl_hooks.core.node.host.topology import Topology
from resctrl_hooks.core.node.ledger import TOTALS
from resctrl_hooks.core.node.reconcile.discovery import observe
from resctrl_hooks.core.node.reconcile.enforce import enforce
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options, Report
from resctrl_hooks.core.node.settings import load

from . import crun
from .killed_hook import NEVER, mortal
from .machines import write_sysfs

LAUNCH = Path(launch.__file__)
PYTHON = ("/usr/bin/python3", "-I", "-S")
ID = "c" * 63 + "1"
UID = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
POD_CGROUP = f"/kubepods/burstable/pod{UID}"
BOOT = "0d5d0a52-6e2c-4a3c-8f2e-000000000001"
NOW = Options(wait=False)


class Outcome(NamedTuple):
    """The result of a hook call: its exit code, its stderr, and the log's new lines."""

    code: int
    stderr: str
    log: str


class Container:
    """A container, and its process while it runs: by default of the pod shop/web-0, as CRI-O describes it."""

    def __init__(
        self, id_: str, pod: str = UID, notes: dict[str, str] | None = None, linux: Any = None, pid: int = 0
    ) -> None:
        self.id, self.key, self.linux, self.pid = id_, pod, linux or {}, pid
        self.notes = crio_annotations(pod, **notes or {})
        self.pids: list[int] = []
        """All its processes."""
        self.rdt_class = ""
        self.log = ""
        """The log's lines of its start."""

    @property
    def namespace(self) -> str:
        return self.notes["io.kubernetes.pod.namespace"]

    @property
    def cgroup(self) -> str:
        return f"/kubepods/pod{self.key}/crio-{self.id}"


class Node:
    """The node. Processes are those of its own /proc, or real ones with ``real_proc``."""

    CONFIG, STATE = "config.json", "run/state"

    def __init__(
        self,
        root: Path,
        *,
        real_proc: bool = False,
        resctrl: Path | None = None,
        kernel: Callable[[Any], Any] | None = None,
        machine: Topology | None = None,
        **config: Any,
    ) -> None:
        self.root, self.cgroup, self.log, self.crun = root, root / "cgroup", root / "log", root / "crun"
        self.resctrl = resctrl or root / "resctrl"
        self.state, self.config = root / self.STATE, root / self.CONFIG
        self.proc = Path("/proc") if real_proc else root / "proc"
        self.containers: list[Container] = []
        self.real: dict[int, subprocess.Popen[bytes]] | None = {} if real_proc else None
        """The processes of containers by pid, if they are real."""
        self.cgroup_files: dict[str, str] = {}
        """The files of a new container's cgroup."""
        self.last_pid = 1000
        if resctrl is None:
            for folder in ("info", "mon_groups", "mon_data"):
                (self.resctrl / folder).mkdir(parents=True, exist_ok=True)
            (self.resctrl / "tasks").touch()
        self.cgroup.mkdir(parents=True, exist_ok=True)
        if not real_proc:
            (self.proc / "sys/kernel/random").mkdir(parents=True, exist_ok=True)
            (self.proc / "sys/kernel/random/boot_id").write_text(BOOT + "\n")
        self.sys = write_sysfs(machine, root / "sys") if machine else ""
        self.configure(**config)
        self.kernel: Any = kernel(self) if kernel else None

    @property
    def host(self) -> "Node":
        """This node as code sees it that reads the tree in the place of resctrl, also beside a kernel."""
        plain = copy(self)
        plain.kernel = None
        return plain if self.kernel else self

    # Configuration

    def configure(self, **config: Any) -> None:
        """Apply a compiled configuration; by default with this node's paths."""
        values = {
            "format": 1,
            "resctrlPath": str(self.resctrl),
            "stateDir": str(self.state),
            "cgroupPath": str(self.cgroup),
            "procPath": str(self.proc),
            "runtimeRoots": {"crun": str(self.crun)},
            "log": {"target": "file", "file": str(self.log), "level": "debug"},
            "slowdown": {"enabled": False},  # its baselines are outside of the tree
        }
        if self.sys:
            values["sysPath"] = self.sys
        self.config.write_text(json.dumps(values | config))

    def context(self, seam: Any = None) -> Context:
        """Return the node as a hook would see it; a ``seam`` replaces the kernel, to kill its caller."""
        context = Context(load(str(self.config))[0])
        if seam or self.kernel:
            context.monitor.resctrl.fs = seam or self.kernel
        return context

    # Processes and cgroups

    def process(
        self, pid: int, cgroup: str = "/", *, threads: tuple[int, ...] = (), start: int = 1000, rdt: str | None = None
    ) -> int:
        """Make a process in the made-up /proc, in a cgroup (v2) that is made too; ``rdt`` is its resctrl class."""
        folder = self.proc / str(pid)
        for thread in (pid, *threads):
            (folder / "task" / str(thread)).mkdir(parents=True, exist_ok=True)
        (folder / "cgroup").write_text(f"0::{cgroup}\n")
        (folder / "stat").write_text(stat_line(pid, start))
        if rdt is not None:
            (folder / "cpu_resctrl_groups").write_text(f"res:{rdt}\nmon:\n")
        (self.cgroup / cgroup.lstrip("/")).mkdir(parents=True, exist_ok=True)
        return pid

    def end_process(self, pid: int) -> None:
        shutil.rmtree(self.proc / str(pid))

    def end_cgroup(self, cgroup: str) -> None:
        shutil.rmtree(self.cgroup / cgroup.lstrip("/"))

    # Containers

    def spawn(self, container: Container, threads: int = 1, rdt_class: str = "", group: str = "") -> Container:
        """Start a container's process, before its hooks."""
        if self.kernel:
            container.pid = self.kernel.spawn(container.cgroup, threads, rdt_class, group)
        elif self.real is not None:
            process = subprocess.Popen(["sleep", "10000"])
            container.pid, self.real[process.pid] = process.pid, process
        else:
            self.last_pid += 1
            container.pid = self.process(self.last_pid, container.cgroup, start=self.last_pid)
        container.pids = [container.pid]
        for name, value in self.cgroup_files.items():
            (self.cgroup / container.cgroup[1:] / name).write_text(value)
        return container

    def oci(self, container: Container, status: str = "created") -> dict[str, Any]:
        """Return a container's state as its hooks get it, and write its bundle."""
        config = {"ociVersion": "1.2.1", "annotations": container.notes, "linux": container.linux}
        told = {"id": container.id, "status": status, "pid": container.pid, "annotations": container.notes}
        return state(**told, bundle=self.bundle(config, self.bundle_of(container)))

    def bundle_of(self, container: Container) -> str:
        return f"bundle-{container.id[-8:]}"

    def appear(self, container: Container) -> Container:
        """Let crun know a container, as after its start."""
        start = None if self.real is not None else container.pid
        if self.kernel:
            start = self.kernel.threads.starts[container.pid]
        crun.record(self.crun, container.id, container.pid, self.oci(container)["bundle"], start)
        return container

    def serve(self, container: Container, seam: Any = None) -> Outcome:
        """Call a container's createRuntime hook; on a kernel its errors pass."""
        return self._serve(self.oci(container), seam)

    def _serve(self, told: dict[str, Any], seam: Any) -> Outcome:
        if not self.kernel and self.real is None:
            return self.call(told)
        call_hook(told, self.context(seam if self.kernel else None))
        return Outcome(0, "", "")

    def start(
        self, container: Container, threads: int = 1, rdt_class: str = "", group: str = "", *, effects: int = NEVER
    ) -> Container:
        """Start a container: process, hook (killed at the effect after so many), and the runtime's record."""
        self.containers.append(container)
        self.spawn(container, threads, rdt_class, group)
        with mortal(effects, self.kernel) as seam:
            container.log = self.serve(container, seam).log
        return self.appear(container)

    def end(self, container: Container) -> None:
        """End a container's processes; no hook notices."""
        for pid in container.pids:
            if self.kernel:
                self.kernel.end(pid)
            elif self.real is not None:
                with self.real.pop(pid) as process:
                    process.kill()
            else:
                self.end_process(pid)
        container.pid, container.pids = 0, []

    def poststop(self, id_: str, seam: Any = None) -> Outcome:
        """Let the runtime delete a container, and call its poststop."""
        shutil.rmtree(self.crun / id_, ignore_errors=True)
        return self._serve(stopped(id=id_), seam)

    def end_pod(self, pod: str = UID) -> None:
        self.end_cgroup(f"kubepods/pod{pod}")

    # Hooks and reconcile

    def bundle(self, config: dict[str, Any] | None = None, name: str = "bundle") -> str:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        config = {"ociVersion": "1.2.1", "linux": {}} if config is None else config
        (folder / "config.json").write_text(json.dumps(config))
        return str(folder)

    def call(self, state: Any, stage: str = "hook", *, alone: bool = False) -> Outcome:
        """Run the hook on a state (JSON value or bytes): in this process, or with ``alone`` as a runtime does it."""
        data = state if isinstance(state, bytes) else json.dumps(state).encode()
        before = self.log.stat().st_size if self.log.exists() else 0
        if alone:
            done = subprocess.run(self.command(stage), input=data, capture_output=True, env={}, cwd="/", check=False)
            assert done.stdout == b""
            code, stderr = done.returncode, done.stderr.decode()
        else:
            with standard_streams(data) as written:
                code = main.main(["--config", str(self.config), stage])
            stderr = written()
        log = self.log.read_bytes()[before:].decode() if self.log.exists() else ""
        return Outcome(code, stderr, log)

    def command(self, *words: str) -> list[str]:
        """Return the command line of a hook's JSON, without its guard, or of another command."""
        return [*PYTHON, str(LAUNCH), "--config", str(self.config), *(words or ("hook",))]

    def reconcile(self, options: Options = NOW, seam: Any = None) -> Report:
        return reconcile(self.context(seam), options)

    def enforce(self) -> Report:
        """Run reconcile's enforcement of features only."""
        context, report = self.context(), Report()
        enforce(context, observe(context).containers, Options(), report)
        return report

    # What is there

    def add_class(self, *names: str) -> None:
        for name in names:
            if self.kernel:
                self.kernel.mkdir(f"{self.resctrl}/{name}")
            else:
                (self.resctrl / name / "mon_groups").mkdir(parents=True)
                (self.resctrl / name / "tasks").touch()

    def groups(self) -> list[str]:
        """Return all mon_groups, as paths below resctrl."""
        found = [*self.resctrl.glob("mon_groups/*"), *self.resctrl.glob("*/mon_groups/*")]
        return sorted(str(path.relative_to(self.resctrl)) for path in found)

    def groups_of(self, pid: int) -> set[tuple[str, str]]:
        return {self.kernel.where(tid) for tid in self.kernel.threads.threads(pid)}

    def places(self, container: Container) -> set[tuple[str, str]]:
        """Return the classes and groups of a container's threads."""
        return {place for pid in container.pids for place in self.groups_of(pid)}

    def tasks(self, group: str) -> list[int]:
        """Return the thread ids in a group, in the order in which they came."""
        return [int(line) for line in (self.resctrl / group / "tasks").read_text().split()]

    def records(self) -> list[str]:
        """Return all records of the ledger: its files but for locks, totals and figures about calls; keys' folders."""
        found = [
            path.relative_to(self.state)
            for path in self.state.rglob("*")
            if not path.is_dir() or path.is_symlink() or (path.parent.name == "pods" and not os.listdir(path))
        ]
        return sorted(str(path) for path in found if path.parent.parts and path.parts[0] not in ("locks", TOTALS))

    def pod_record(self, key: str = UID) -> Any:
        return self.context().ledger.read_pod(key) or {}

    def marked(self, mark: str = "waiting") -> list[str]:
        """Return the keys that wait, or have another mark."""
        return sorted(self.context().ledger.marked(mark))


def call_hook(told: dict[str, Any], context: Context) -> None:
    """Do the stage of a container's state without the call around it: no deadline or policy, and errors pass."""
    state = parse_state(json.dumps(told).encode())
    if state.stage == POSTSTOP:
        ended(state.id, context)
    else:
        cgroups = cgroups_of(context.proc, state.pid)
        create_runtime(derive(state, read_bundle(state.bundle), cgroups, context.settings.cgroup_path), context)


def pod_number(number: int) -> str:
    return f"3f0ac7f2-8a3b-4f0e-9a55-{number:012d}"


def stat_line(pid: int, start: int, letter: str = "S") -> str:
    """Return a line of /proc/pid/stat with a command name that tries to mislead."""
    return f"{pid} (a) b (c) {letter} " + " ".join(["1"] * 18) + f" {start} 0 0\n"


@contextmanager
def standard_streams(data: bytes) -> Iterator[Any]:
    """Put ``data`` on descriptor 0 and collect output on descriptor 2, which hooks use directly."""
    kept = os.dup(0), os.dup(2)
    with os.fdopen(os.memfd_create("stdin"), "w+b") as stdin, os.fdopen(os.memfd_create("stderr"), "w+b") as stderr:
        stdin.write(data)
        stdin.seek(0)
        sys.stderr.flush()
        os.dup2(stdin.fileno(), 0)
        os.dup2(stderr.fileno(), 2)
        text: list[str] = []
        try:
            yield lambda: text[0]
        finally:
            for place, fd in zip((0, 2), kept, strict=True):
                os.dup2(fd, place)
                os.close(fd)
            stderr.seek(0)
            text.append(stderr.read().decode())


def state(**changes: Any) -> dict[str, Any]:
    """Return a createRuntime state of crun's, of a plain container without annotations."""
    return {"ociVersion": "1.2.1", "id": ID, "status": "created", "pid": 100, "bundle": "/nonexistent"} | changes


def stopped(**changes: Any) -> dict[str, Any]:
    """Return the state that a poststop gets, when process and bundle are gone."""
    return state(status="stopped", pid=0, bundle="/gone") | changes


def crio_annotations(uid: str = UID, **changes: str) -> dict[str, str]:
    """Return the annotations that CRI-O gives a container of pod shop/web-0."""
    return {
        "io.container.manager": "cri-o",
        "io.kubernetes.cri-o.ContainerType": "container",
        "io.kubernetes.pod.uid": uid,
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.pod.name": "web-0",
        "io.kubernetes.container.name": "c0",
    } | changes
