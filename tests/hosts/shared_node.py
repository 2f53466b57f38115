"""A node in one process with fewer RMIDs than pods: hooks, reconcile and counters over the simulation's model."""

import os
from functools import partial
from pathlib import Path
from typing import Any

from hosts.killed_hook import NEVER
from hosts.node import Container, Node, pod_number
from hosts.simulated_kernel import Kernel
from resctrl_hooks.core.node.reconcile.vanished import read_vanished
from resctrl_hooks.lab.simulation.machine import UNIT_BYTES

TURNS: dict[str, Any] = {"interval": 0.0001, "atLeast": 0.0}
"""A time share in which a turn is due at each pass."""
RULES = [{"namespaces": [name], "value": value} for name, value in {"gold": 100, "silver": 50, "batch": -10}.items()]
MACHINE = {"limbo", "assignable_counters", "pmg", "layout"}


class CountingKernel(Kernel):
    """A kernel whose counters get new values at each reading of tasks and at each rename."""

    UNIT = UNIT_BYTES
    refuse_rename = 0  # the errno

    def read(self, path: str) -> bytes:
        self.show_counters()
        return super().read(path)

    def write(self, path: str, value: bytes) -> None:
        super().write(path, value)
        self.show_counters()

    def rename(self, old: str, new: str) -> None:
        if self.refuse_rename:
            raise OSError(self.refuse_rename, os.strerror(self.refuse_rename), old)
        super().rename(old, new)


class Pod(Container):
    """A container, by default the only one of its pod."""

    def __init__(self, number: int, namespace: str, linux: Any = None) -> None:
        super().__init__(f"{number:064x}", pod_number(number), {"io.kubernetes.pod.namespace": namespace}, linux)

    def beside(self, other: Container) -> "Pod":
        self.key = self.notes["io.kubernetes.pod.uid"] = other.key
        return self


class SharedNode(Node):
    """The node, whose kernel has ``rmids`` RMIDs, one of them for the root group, and other values of a machine."""

    kernel: CountingKernel

    def __init__(self, root: Path, *, rmids: int = 3, **monitoring: Any) -> None:
        machine = {name: monitoring.pop(name) for name in MACHINE & monitoring.keys()}
        super().__init__(root, kernel=partial(CountingKernel, rmids=rmids, **machine), monitoring=monitoring)
        self.pods: list[Pod] = []

    def start(  # type: ignore[override]
        self,
        namespace: str = "",
        threads: int = 1,
        *,
        effects: int = NEVER,
        beside: Pod | None = None,
        rdt_class: str = "",
        linux: dict[str, Any] | None = None,
        own_group: bool = False,
    ) -> Pod:
        """Start a pod, or a container in the pod of another one; kill its hook at the effect after so many.

        With ``own_group``, its runtime first creates a group for it, as for ``linux.intelRdt.enableMonitoring``.
        """
        pod = Pod(len(self.pods), namespace, linux)
        if beside is not None:
            pod.beside(beside)
        self.pods.append(pod)
        if own_group:
            pod.linux = linux or {"intelRdt": {"enableMonitoring": True}}
            self.kernel.mkdir(self.group_of_runtime(pod, rdt_class))
        super().start(pod, threads, rdt_class, pod.id if own_group else "", effects=effects)
        return pod

    def group_of_runtime(self, pod: Pod, rdt_class: str = "") -> str:
        """Return the folder of the group that a runtime creates for a container."""
        return self.context().monitor.resctrl.group_folder(rdt_class, pod.id)

    def end(self, pod: Container, *, pod_lives: bool = False) -> None:
        """End a pod, its cgroup too unless the pod lives on, and call its poststop."""
        super().end(pod)
        self.end_cgroup(pod.cgroup if pod_lives else f"kubepods/pod{pod.key}")
        self.poststop(pod.id)

    def counted(self) -> list[Pod]:
        """Return the pods with all threads in their own group."""
        return [one for one in self.pods if one.pid and {name for _, name in self.groups_of(one.pid)} == {one.key}]

    def totals(self) -> dict[str, int]:
        """Return each pod's bandwidth total as the library reads it."""
        self.kernel.show_counters()
        found = self.context().monitor.read_all()
        return {
            key: sum(int(r.value or 0) for r in readings if r.counter.name == "mbm_total_bytes")
            for key, readings in found.items()
        }

    def claim(self, pod: Pod) -> Any:
        """Return the claim in a pod's record; None without one."""
        return self.pod_record(pod.key).get("claim")

    def waiting(self) -> list[str]:
        return self.marked()

    def check_settled(self, *, records: bool = True) -> None:
        """Check the promises when nothing is in limbo; ``records``: also those of `check`."""
        assert read_vanished(self.context().settings.state_dir)["total"] == 0, "no other program removed a group"
        assert self.marked("changing") == []
        if records:
            self.check()

    def check(self) -> None:
        """Check the invariants between reconciles: groups, records and index agree, no task is in a wrong group."""
        ledger = self.context().ledger
        records = {key: self.pod_record(key) for key in ledger.keys()}  # noqa: SIM118  # it is no dictionary
        for record in records.values():
            if claim := record.get("claim"):
                assert bool(claim["entry"]) == bool(record["groups"]), record
        assert self.kernel.groups() == {(name, key) for key, record in records.items() for name in record["groups"]}
        entries = sorted(name.split(".", 2)[2] for name in ledger.marked("rmids"))
        assert entries == sorted({key for key, record in records.items() if record["groups"]})
        for pod in self.pods:
            assert not pod.pid or {name for _, name in self.groups_of(pod.pid)} <= {"", pod.key}
