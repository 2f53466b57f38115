"""Pods of one process each, whose hooks run in this process: fast enough for hundreds in a slow guest."""

import json
import subprocess
from pathlib import Path

from conftest import crio_annotations
from hosts import crun, hook

from kernel.groups import Resctrl
from kernel.runtimes import wait_until
from resctrl_hooks.core.node.context import Context

WORK = "read _; dd if=/dev/zero of=/dev/null bs=1M count=2 2>/dev/null; exec sleep 10000"
"""Memory traffic after the hook, then none, so that two readings of a counter agree."""


class LocalPod:
    """One pod with one container: its process, its key, and the group that its runtime has created, if any."""

    def __init__(self, number: int, group: str) -> None:
        self.id = f"{number:064x}"
        self.key = f"9f0ac7f2-8a3b-4f0e-9a55-{number:012d}"
        self.group = group
        self.process = subprocess.Popen(["/bin/sh", "-c", WORK], stdin=subprocess.PIPE)


class Pods:
    """Pods that come and go.

    Args:
        folder: for bundles; ``crun`` in it is the state directory of their runtime.
        context: the node.
    """

    def __init__(self, folder: Path, context: Context) -> None:
        self._folder, self._context = folder, context
        self.running: list[LocalPod] = []
        self._number = 0

    def start(self, *, own_group: bool = False) -> LocalPod:
        """Start one; with ``own_group``, its runtime creates a group for it first, as for `enableMonitoring`.

        Raises:
            OSError: the kernel refuses that group.
        """
        resctrl, id_ = Resctrl(self._context.monitor.resctrl.root), f"{self._number:064x}"
        if own_group:
            Path(resctrl.path("", id_)).mkdir()
        pod = LocalPod(self._number, id_ if own_group else "")
        self._number += 1
        self.running.append(pod)
        if own_group:
            resctrl.join(pod.process.pid, "", id_)
        bundle = self._folder / id_
        bundle.mkdir()
        annotations = {"annotations": crio_annotations(pod.key)}
        linux = {"linux": {"intelRdt": {"enableMonitoring": True}}} if own_group else {}
        (bundle / "config.json").write_text(json.dumps({**annotations, **linux}))
        state = {"id": id_, "status": "created", "pid": pod.process.pid, "bundle": str(bundle), **annotations}
        crun.record(self._folder / "crun", id_, pod.process.pid, bundle)
        hook.call(state, self._context)
        assert pod.process.stdin
        pod.process.stdin.write(b"\n")
        pod.process.stdin.close()
        return pod

    def settle(self) -> None:
        """Wait until no pod works any more."""
        for pod in self.running:
            wait_until(lambda pod=pod: Path(f"/proc/{pod.process.pid}/comm").read_text() == "sleep\n", "it rests")

    def end(self, place: int = 0) -> None:
        """End one, by default the oldest; its runtime removes the group that it has created."""
        pod = self.running.pop(place)
        pod.process.kill()
        pod.process.wait()
        if pod.group:
            Path(Resctrl(self._context.monitor.resctrl.root).path("", pod.group)).rmdir()
        hook.call({"id": pod.id, "status": "stopped", "bundle": "/gone"}, self._context)

    def clean(self) -> None:
        """End all."""
        while self.running:
            self.end()
