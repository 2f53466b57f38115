"""A simulated node in a folder: resctrl, cgroups, settings, ledger, and the work of its pods."""

import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from typing import Final

from resctrl_hooks.core.fuse import MountError, check_fuse, prepare
from resctrl_hooks.core.node.host.procfs import in_initial_user_namespace
from resctrl_hooks.lab.demo.process import PlainProcess
from resctrl_hooks.lab.demo.stage import Stage
from resctrl_hooks.lab.demo.subject import RuntimeFailedError, Subject, run
from resctrl_hooks.lab.simulation.machine import Machine
from resctrl_hooks.lab.simulation.mount import start, stop
from resctrl_hooks.lab.simulation.processors import link

from .scenes import BATCH, CAPACITY, CPUS, CULPRIT, PODS, QUIET, SCENES, Pod

MACHINE: Final = Machine(rmids=16, l3_domains=1, energy=True, perf=True, cpus=CPUS)
_WORK, _CGROUPS, _PROC, _RESCTRL = "work.json", "cgroup", "proc", "resctrl"
_CONTAINERD = "io.containerd.runtime.v2.task/k8s.io"
"""The folder of its bundles, by which the hook knows that containerd wrote the annotations."""
SECONDS_TO_LEARN: Final = 12
"""About, of `Node.learn`."""
_SECONDS_TO_END = 10
_RUNS_TO_LEARN = 2
"""Of `diagnose`, with five windows each: a pod needs ten quiet ones."""
_MARK = ".resctrl-node"
"""A file by which a folder is known as that of a node."""
_OWN: Final = (
    *("baselines", _CGROUPS, "config.json", "hook.log", _CONTAINERD.partition("/")[0], _PROC, _RESCTRL, "state", "sys"),
    *(_WORK, f"{_WORK}~", "history.sqlite", "history.sqlite-shm", "history.sqlite-wal"),
)
"""What a node writes into its folder; other files there are the user's."""
_WHILE_MOUNTED = "while true 2>/dev/null <{}; do sleep 1; done"
"""The kernel answers from memory whether a file of a dead simulation exists, but cannot open it."""


class Node:
    """A node with the pods of `scenes`, which its simulation counts.

    Args:
        folder: its folder; created if missing. Files of an earlier node in it are removed.
        has_processors: whether it has CPUs of its own, in a /proc of its own. Then all pods are plain processes.

    Raises:
        MountError: something else is in the folder, or no simulation is possible.
    """

    def __init__(self, folder: str, *, has_processors: bool = False) -> None:
        self.folder = os.path.abspath(folder)
        if not in_initial_user_namespace():
            raise MountError("this is a user namespace (a rootless container?), where the hook does nothing by design")
        check_fuse()
        _clear(self.folder)
        self.stage = Stage(self.folder)
        self.stage.bundles = f"{self.folder}/{_CONTAINERD}"
        self._cgroups = f"{self.folder}/{_CGROUPS}"
        self._proc = f"{self.folder}/{_PROC}" if has_processors else ""
        if self._proc:
            os.mkdir(self._proc)
            for name in os.listdir("/proc"):
                link(self._proc, name)
        self._process: subprocess.Popen[bytes] | None = None
        self._sampling: subprocess.Popen[bytes] | None = None
        self._subjects: list[Subject] = []
        self._configure(judged=False)
        self.play(QUIET)
        with open(f"{self._cgroups}/cgroup.controllers", "w", encoding="ascii") as file:
            file.write("cpu\n")

    def _configure(self, *, judged: bool) -> None:
        """Write the settings; ``judged`` is whether the sampling process judges pods."""
        self.stage.configure(
            cgroupPath=self._cgroups,
            sysPath=f"{self.folder}/sys",
            procPath=self._proc or "/proc",
            monitoring={"capacity": {"*": CAPACITY}},
            rdt={
                "enabled": True,
                "classes": {BATCH: {}},
                "defaults": {"namespaces": {BATCH: BATCH}},
                "allow": {BATCH: [BATCH]},
                "guard": {"throttle": {BATCH: {"floor": 20}}},
            },
            slowdown={"enabled": judged, "perf": False, "directory": f"{self.folder}/baselines"},
            history={"enabled": True, "file": f"{self.folder}/history.sqlite", "interval": 1.0},
        )

    @property
    def command(self) -> str:
        """The beginning of each command for this node."""
        return f"resctrl-hook --config {shlex.quote(self.stage.config)}"

    def play(self, scene: str) -> None:
        """Let the pods do what a scene says."""
        play(self.folder, scene)

    def start(self) -> None:
        """Mount the simulation.

        Raises:
            MountError: it cannot be mounted.
        """
        self._process = start(self.stage.resctrl, MACHINE, f"{self.folder}/{_WORK}")
        os.mkdir(f"{self.stage.resctrl}/{BATCH}")

    @property
    def pid(self) -> int:
        """The process of the simulation; SIGTERM ends it, and with it the pods of `add_process`."""
        return self._process.pid if self._process else 0

    def wait(self) -> None:
        """Wait until the simulation ends."""
        if self._process is not None:
            self._process.wait()

    def stop(self) -> None:
        """End the simulation."""
        if self._process is not None:
            stop(self._process, self.stage.resctrl)
            self._process = None
        if self._sampling is not None:
            with suppress(subprocess.TimeoutExpired):
                self._sampling.wait(_SECONDS_TO_END)
            with suppress(ProcessLookupError):
                os.killpg(self._sampling.pid, signal.SIGKILL)
            self._sampling = None

    def add(self, pod: Pod, subject: Subject) -> None:
        """Create and start a pod; ``subject`` is its container.

        Raises:
            RuntimeFailedError: the runtime or the hook failed.
        """
        folder = f"{self._cgroups}/{pod.cgroup}"
        os.makedirs(folder, exist_ok=True)
        self._subjects.append(subject)
        subject.create()
        # Its cgroup on this node, where its counters are: not the one in which its process is on this machine.
        with self.stage.monitor.hold(pod.uid) as locked:
            locked.record["cgroup"] = folder
            locked.save()
        subject.start()

    def remove_pods(self) -> None:
        """Remove the pods that were added."""
        while self._subjects:
            with suppress(RuntimeFailedError):  # it was never created
                self._subjects.pop().remove()

    def add_process(self, pod: Pod) -> None:
        """Create a pod of a plain process."""
        script = _WHILE_MOUNTED.format(shlex.quote(f"{self.stage.resctrl}/schemata"))
        self.add(pod, PlainProcess(self.stage, pod.container_id, pod.annotations, script, self._link))

    def _link(self, pid: int) -> None:
        """Show a process in the node's /proc before its hook looks for it."""
        if self._proc:
            link(self._proc, str(pid))

    def learn(self) -> None:
        """Let `diagnose` learn what the work of the pods costs now; then the sampling process judges them."""
        for _ in range(_RUNS_TO_LEARN):
            self.run("diagnose", "--for", "5s")
        self._configure(judged=True)

    def run(self, *arguments: str) -> str:
        """Return the output of a command for this node.

        Raises:
            RuntimeFailedError: it failed.
        """
        return run([sys.executable, "-m", "resctrl_hooks", "--config", self.stage.config, *arguments])

    def sample(self) -> None:
        """Start the sampling process, which ends with the simulation."""
        script = f'"$@" & {_WHILE_MOUNTED.format(shlex.quote(f"{self.stage.resctrl}/schemata"))}; kill $!; wait'
        words = ["sh", "-c", script, "sh", *self.stage.hook[:-1], "guard", "run"]
        null = subprocess.DEVNULL
        self._sampling = subprocess.Popen(
            words, stdin=null, stdout=null, stderr=null, start_new_session=True, env={}, cwd="/"
        )


def is_node(folder: str) -> bool:
    """Return whether a node runs in a folder of this user.

    Raises:
        MountError: other users can write to the folder, or it is a link.
    """
    if not os.path.lexists(folder):
        return False
    _check_own(folder)
    try:
        os.listdir(f"{folder}/{_RESCTRL}")
    except OSError:
        return False  # such as of a killed simulation
    return os.path.exists(f"{folder}/{_MARK}") and os.path.ismount(f"{folder}/{_RESCTRL}")


def play(folder: str, scene: str) -> None:
    """Let the pods of a node do what a scene says; its simulation reads that within a tenth of a second."""
    works = {pod: SCENES[scene].work if pod is CULPRIT else pod.quiet for pod in PODS}
    pods = {pod.uid: {**work._asdict(), "cgroup": pod.cgroup} for pod, work in works.items()}
    folder = os.path.abspath(folder)
    proc = f"{folder}/{_PROC}"
    values = {
        "cpus": CPUS,
        "capacity": CAPACITY,
        "cgroups": f"{folder}/{_CGROUPS}",
        "proc": proc if os.path.isdir(proc) else "",
        "pods": pods,
    }
    culprit = f"{folder}/{_CGROUPS}/{CULPRIT.cgroup}"
    os.makedirs(culprit, exist_ok=True)
    with open(f"{culprit}/cpu.weight", "w", encoding="utf-8") as file:
        file.write(f"{SCENES[scene].weight}\n")
    path = f"{folder}/{_WORK}"
    with open(f"{path}~", "w", encoding="utf-8") as file:
        json.dump(values, file, indent=1)
    os.replace(f"{path}~", path)


def _check_own(folder: str) -> None:
    """Check that only this user writes to a folder: what root writes there could otherwise end elsewhere.

    Raises:
        MountError: it is a link, or other users can write to it.
    """
    found = os.lstat(folder)
    if stat.S_ISLNK(found.st_mode):
        raise MountError(f"{folder} is a link: name a folder of your own")
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise MountError(f"other users can write to {folder}: name a folder of your own")


def _clear(folder: str) -> None:
    """Remove the files of an earlier node, or create the folder.

    Raises:
        MountError: the folder has other files, is another user's, or its simulation runs.
    """
    try:
        os.makedirs(folder, 0o755, exist_ok=True)
        names = os.listdir(folder)
    except OSError as error:
        raise MountError(f"cannot create {folder}: {error.strerror}") from None
    _check_own(folder)
    if names and _MARK not in names:
        raise MountError(f"{folder} has other files: name an empty or a new folder")
    with open(f"{folder}/{_MARK}", "w", encoding="ascii"):
        pass
    prepare(f"{folder}/{_RESCTRL}")
    for name in set(names).intersection(_OWN):  # a removal that is interrupted goes on the next time
        path = f"{folder}/{name}"
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)
