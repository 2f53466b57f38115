"""The scenes: three pods, and what each of them does while the node is quiet and in each scene."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from resctrl_hooks.lab.simulation.work import Work

CPUS: Final = 24
"""Of the node."""
CAPACITY: Final = 20e9
"""Bytes per second of the memory."""


class Pod(NamedTuple):
    """A pod with one container."""

    namespace: str
    name: str
    uid: str
    quiet: Work
    """What it does in a quiet node."""
    cpus: int = 0
    """Its CPU request and limit; 0 for none."""

    @property
    def full_name(self) -> str:
        """Its namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def annotations(self) -> dict[str, str]:
        """Return them as containerd annotates a pod's container."""
        return {
            "io.kubernetes.cri.container-type": "container",
            "io.kubernetes.cri.sandbox-uid": self.uid,
            "io.kubernetes.cri.sandbox-namespace": self.namespace,
            "io.kubernetes.cri.sandbox-name": self.name,
            "io.kubernetes.cri.container-name": "main",
        }

    @property
    def container_id(self) -> str:
        """The id of its container."""
        return self.uid.replace("-", "") * 2

    @property
    def cgroup(self) -> str:
        """Its path below the folder of cgroups."""
        return f"kubepods/pod{self.uid}"

    @property
    def resources(self) -> dict[str, Any]:
        """Return them as containerd writes them into the bundle."""
        if not self.cpus:
            return {"cpu": {"shares": 2}}
        return {"cpu": {"shares": self.cpus * 1024, "quota": self.cpus * 100_000, "period": 100_000}}


_WEB = Work(cpus=4, bytes=0.8, held=10 << 20, reuses=True)
_DB = Work(cpus=2, bytes=0.4, held=2 << 20)
_REPORTS = Work(cpus=0.01, bytes=1, held=1 << 20)
"""It rests: too little work for a baseline."""

PODS: Final = (
    Pod("shop", "web", "5d9b3c1e-4f0a-4c57-9d1e-2a7f60b1c001", _WEB, cpus=4),
    Pod("shop", "db", "5d9b3c1e-4f0a-4c57-9d1e-2a7f60b1c002", _DB, cpus=2),
    Pod("batch", "reports", "5d9b3c1e-4f0a-4c57-9d1e-2a7f60b1c003", _REPORTS),
)
VICTIM, _, CULPRIT = PODS
QUIET: Final = "quiet"
BATCH: Final = "batch"
"""The RDT class of the namespace of the same name."""


class Scene(NamedTuple):
    """What the culprit does, in words, too, and the command that helps."""

    work: Work
    text: str
    limit: str = ""
    weight: int = 100
    """Its `cpu.weight`."""


SCENES: Final[Mapping[str, Scene]] = MappingProxyType(
    {
        QUIET: Scene(_REPORTS, "no pod disturbs another"),
        "noisy": Scene(
            Work(cpus=16, bytes=6, held=2 << 20),
            "batch/reports takes the memory bandwidth",
            "limit batch/reports --mb 40",
        ),
        "cache": Scene(
            Work(cpus=4, bytes=0.4, held=12 << 20), "batch/reports fills the L3 cache", "limit batch/reports --l3 20%"
        ),
        "cpu": Scene(
            Work(cpus=48, bytes=0.1, held=1 << 20),
            "batch/reports takes the CPUs",
            "limit batch/reports --cpu 1800%",
            weight=1000,
        ),
    }
)
