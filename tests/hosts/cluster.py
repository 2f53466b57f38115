"""Nodes on the simulated kernel."""

from functools import partial
from pathlib import Path
from typing import Any

from hosts.node import NOW, UID, Container, Node, pod_number
from hosts.simulated_kernel import Kernel

Notes = dict[str, str] | None


POD = UID
__all__ = ["NOW", "POD", "Cluster", "SimulatedNode", "pod_number"]


class Running(Container):
    """A container, and all processes in it."""

    def __init__(self, number: int, pod: str, notes: Notes = None, linux: Any = None) -> None:
        super().__init__(f"{number:064x}", pod, notes, linux)
        self.pids: list[int] = []
        self.rdt_class = ""


class SimulatedNode(Node):
    """The node; its folders are below `root`."""

    KERNEL: type[Kernel] = Kernel
    kernel: Kernel

    def __init__(self, root: Path, config: dict[str, Any], **machine: Any) -> None:
        root.mkdir(parents=True, exist_ok=True)
        super().__init__(root, kernel=partial(self.KERNEL, **machine), **config)

    def crash(self, container: Running) -> None:
        """End a container's processes; no hook notices."""
        for pid in container.pids:
            self.kernel.end(pid)
        container.pids = []

    def appear(self, id_: Any, pid: int = 0, pod: str = POD, linux: Any = None, notes: Notes = None) -> Container:
        """The container is in its runtime's folder, and its bundle on disk."""
        return super().appear(id_ if isinstance(id_, Container) else Container(id_, pod, notes, linux, pid))

    def hook(
        self, id_: str, pid: int, pod: str = POD, linux: Any = None, notes: Notes = None, seam: Any = None
    ) -> None:
        self.serve(Container(id_, pod, notes, linux, pid), seam)


class Cluster(SimulatedNode):
    """Its containers are known by their numbers."""

    def __init__(self, root: Path, rmids: int = 16, **config: Any) -> None:
        super().__init__(root, config, rmids=rmids)

    def spawn(self, number: Any, pod: str = POD, rdt_class: str = "", threads: int = 1) -> tuple[str, int]:  # type: ignore[override]
        """Return a container's id and process, before its hook."""
        container = super().spawn(Container(f"{number:064x}", pod), threads, rdt_class)
        return container.id, container.pid

    def unseen(self, number: int, pod: str = POD, rdt_class: str = "", threads: int = 1) -> tuple[str, int]:
        """Return a container that no hook has seen."""
        id_, pid = self.spawn(number, pod, rdt_class, threads)
        self.appear(id_, pid, pod)
        return id_, pid

    def start(self, number: Any, pod: str = POD, rdt_class: str = "", threads: int = 1) -> tuple[str, int]:  # type: ignore[override]
        """Return a container as it should be: hook, then the runtime's folder."""
        id_, pid = self.spawn(number, pod, rdt_class, threads)
        self.hook(id_, pid, pod)
        self.appear(id_, pid, pod)
        return id_, pid

    def end(self, id_: str, pid: int, pod: str = "") -> None:  # type: ignore[override]
        """End a container with its poststop, and a named pod with it."""
        self.kernel.end(pid)
        self.poststop(id_)
        if pod:
            self.end_pod(pod)
