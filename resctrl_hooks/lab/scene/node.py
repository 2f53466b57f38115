"""A simulated node in a folder: resctrl, cgroups, settings, ledger, and the work of its pods."""

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from typing import Final

import yaml

from resctrl_hooks.core.config.applied import apply_file
from resctrl_hooks.core.fuse import MountError, check_fuse
from resctrl_hooks.core.node.host.procfs import in_initial_user_namespace
from resctrl_hooks.lab.demo.process import PlainProcess
from resctrl_hooks.lab.demo.stage import Stage
from resctrl_hooks.lab.demo.subject import RuntimeFailedError, Subject, run
from resctrl_hooks.lab.simulation.machine import Machine
from resctrl_hooks.lab.simulation.mount import start, stop
from resctrl_hooks.lab.simulation.processors import link, link_in_cgroup

from .hardware import write_sysfs
from .place import ENVIRONMENT, RESCTRL, Place
from .scenes import BATCH, CAPACITY, CPUS, CULPRIT, PODS, QUIET, SCENES, Pod

MACHINE: Final = Machine(rmids=16, l3_domains=1, energy=True, perf=True, cpus=CPUS)
_SETTINGS = "config.yaml"
_WORK, _CGROUPS, _PROC, _SYS = "work.json", "cgroup", "proc", "sys"
_CONTAINERD = "io.containerd.runtime.v2.task/k8s.io"
"""The folder of its bundles, by which the hook knows that containerd wrote the annotations."""
SECONDS_TO_LEARN: Final = 12
"""About, of `Node.learn`."""
_SECONDS_TO_END = 10
_RUNS_TO_LEARN = 2
"""Of `diagnose`, with five windows each: a pod needs ten quiet ones."""
_OWN: Final = (
    *("baselines", _CGROUPS, "hook.log", _CONTAINERD.partition("/")[0], _PROC, RESCTRL, "state", _SYS, _SETTINGS),
    *("config.json", "config.last.json"),
    *(_WORK, f"{_WORK}~", *(f"history.sqlite{end}" for end in ("", "-shm", "-wal", ".lock"))),
)
"""What a node writes into its folder; other files there are the user's."""
_POD: Final = "import sys, time\nwhile True:\n    open(sys.argv[1] + '/schemata').close()\n    time.sleep(1)\n"
"""Without children, which would show another cgroup than that of their pod."""
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
        self._place = Place(self.folder, _OWN)
        self.stage = Stage(self.folder)
        self.stage.bundles = f"{self.folder}/{_CONTAINERD}"
        self._cgroups = f"{self.folder}/{_CGROUPS}"
        self._proc = f"{self.folder}/{_PROC}" if has_processors else ""
        if self._proc:
            self.stage.environment = {ENVIRONMENT: self.folder}
            write_sysfs(f"{self.folder}/{_SYS}", CPUS)
            os.mkdir(self._proc)
            for name in os.listdir("/proc"):
                link(self._proc, name)
        self._process: subprocess.Popen[bytes] | None = None
        self._sampling: subprocess.Popen[bytes] | None = None
        self._subjects: list[Subject] = []
        self._configure(judged=False)
        self.play(QUIET)
        with open(f"{self._cgroups}/cgroup.controllers", "w", encoding="ascii") as file:
            file.write("cpuset cpu\n")

    def _configure(self, *, judged: bool) -> None:
        """Write the settings; ``judged`` is whether the sampling process judges pods."""
        self.stage.configure(
            cgroupPath=self._cgroups,
            sysPath=f"{self.folder}/{_SYS}",
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
        return f"resctrl-hook --config {shlex.quote(f'{self.folder}/{_SETTINGS}')}"

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
        self._place.close()

    def complete(self) -> None:
        """Write the settings as a file to edit, and mark the node as one that judges its pods."""
        with open(self.stage.config, encoding="utf-8") as file:
            settings = {name: value for name, value in json.load(file).items() if name != "format"}
        path = f"{self.folder}/{_SETTINGS}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"# Of this simulated node. After a change: resctrl-hook --config {path} config apply\n")
            yaml.safe_dump(settings, file, sort_keys=False)
        apply_file(path)
        self._place.complete(self.pid)
        self._place.close()

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
        script = f"exec {shlex.join([*self.stage.python, '-c', _POD, self.stage.resctrl])}"
        begun = partial(self._enter, f"{pod.cgroup}/{pod.container_id}")
        self.add(pod, PlainProcess(self.stage, pod.container_id, pod.annotations, script, begun, pod.resources))

    def _enter(self, cgroup: str, pid: int) -> None:
        """Show a process in its container's cgroup on this node, before its hook looks for it.

        The cgroup does not list its tasks, because their real waits are not those of the simulated work.
        """
        if not self._proc:
            return
        folder = f"{self._cgroups}/{cgroup}"
        os.makedirs(folder, exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            with open(f"{folder}/{name}", "w", encoding="ascii"):
                pass
        os.symlink("cpuset.cpus", f"{folder}/cpuset.cpus.effective")
        link_in_cgroup(self._proc, pid, cgroup, CPUS)

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
            words, stdin=null, stdout=null, stderr=null, start_new_session=True, env=self.stage.environment, cwd="/"
        )


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
