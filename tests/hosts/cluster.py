"""A node on the simulated kernel, whose containers are known by numbers, or by their ids and processes."""

from functools import partial, partialmethod
from pathlib import Path
from typing import Any

from hosts.node import NOW, UID, Container, Node, pod_number
from hosts.simulated_kernel import Kernel

Notes = dict[str, str] | None
POD = UID
__all__ = ["NOW", "POD", "Cluster", "pod_number"]


class Cluster(Node):
    """The node; its pods are numbered as by `pod_number`."""

    kernel: Kernel

    def __init__(self, root: Path, rmids: int = 16, **config: Any) -> None:
        super().__init__(root, kernel=partial(Kernel, rmids=rmids), **config)

    def spawn(self, number: Any, pod: str = POD, rdt_class: str = "", threads: int = 1) -> tuple[str, int]:  # type: ignore[override]
        """Return a container's id and process, before its hook."""
        container = super().spawn(Container(f"{number:064x}", pod), threads, rdt_class)
        return container.id, container.pid

    def start(  # type: ignore[override]
        self, number: Any, pod: str = POD, rdt_class: str = "", threads: int = 1, *, hooked: bool = True
    ) -> tuple[str, int]:
        """Return a container as it should be: hook, then the runtime's folder."""
        id_, pid = self.spawn(number, pod, rdt_class, threads)
        if hooked:
            self.hook(id_, pid, pod)
        self.appear(id_, pid, pod)
        return id_, pid

    unseen = partialmethod(start, hooked=False)

    def appear(self, id_: Any, pid: int = 0, pod: str = POD, linux: Any = None, notes: Notes = None) -> Container:
        """The container is in its runtime's folder, and its bundle on disk."""
        return super().appear(Container(id_, pod, notes, linux, pid))

    def hook(self, id_: str, pid: int, pod: str = POD, linux: Any = None, notes: Notes = None) -> None:
        self.serve(Container(id_, pod, notes, linux, pid))

    def end(self, id_: str, pid: int, pod: str = "") -> None:  # type: ignore[override]
        """End a container with its poststop, and a named pod with it."""
        self.kernel.end(pid)
        self.poststop(id_)
        if pod:
            self.end_pod(pod)
