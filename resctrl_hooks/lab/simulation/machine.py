"""The simulated hardware: vendor, RMIDs, CLOSIDs, caches and packages."""

import os
import re
from dataclasses import dataclass, field
from types import MappingProxyType

from resctrl_hooks.core.node.host.cpulist import parse_list
from resctrl_hooks.core.node.resctrl.bandwidth import EVENTS
from resctrl_hooks.core.node.resctrl.layouts import AT_MEMORY, L3

CBM_BITS = 12
"""Number of ways in the mask of each L3 cache."""
SHAREABLE_BITS = 0x600
"""Ways that other agents, such as I/O, use as well (`info/L3/shareable_bits`)."""
CACHE_BYTES = 16 << 20
"""Size of each L3 cache."""
UNIT_BYTES = 65536
"""The hardware's unit: occupancy and thresholds are multiples of it."""

FULL_MASK = (1 << CBM_BITS) - 1

BYTES_PER_SECOND = 100_000_000
"""Memory traffic of each live task of a group, summed over all L3 domains."""
LOCAL_SHARE = 0.75
"""The part of the traffic to the task's local node (`mbm_local_bytes`)."""
LINES_PER_TASK = 8 * UNIT_BYTES
"""Bytes that each live task occupies in each L3 cache."""
WATTS_PER_TASK = 4.0
"""Watts of each live task, summed over all packages (`core_energy`)."""
FARADS_PER_SECOND = 0.5
"""Growth of `activity` by each live task, summed over all packages."""


MOST = MappingProxyType(
    {
        "rmids": 65_536,
        "closids": 4_096,
        "l3_domains": 1_024,
        "clusters": 64,
        "cpus": 8_192,
        "assignable_counters": 65_536,
        "limbo": 86_400,
        "pmg": 256,
        "partids": 4_096,
    }
)
"""The largest machine: larger than any processor, small enough for the simulation's memory."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """Differences between vendors.

    Args:
        min_cbm_bits: Minimum number of ways in a mask.
        sparse_masks: Whether a mask may have holes.
        bandwidth: Minimum and maximum memory bandwidth, and the step between values.
        linear: Whether bandwidth is throttled linearly (`delay_linear`).
        throttle_mode: Whether threads of a core can differ in it (`thread_throttle_mode`).
        counts_bandwidth: Whether groups have bandwidth counters in addition to `llc_occupancy`.
        architecture: The machine's name in `uname -m`.
    """

    min_cbm_bits: int
    sparse_masks: bool
    bandwidth: tuple[int, int, int]
    linear: bool
    throttle_mode: bool = False
    counts_bandwidth: bool = True
    architecture: str = "x86_64"


VENDORS = MappingProxyType(
    {
        # In percent.
        "intel": Vendor(1, sparse_masks=False, bandwidth=(10, 100, 10), linear=True, throttle_mode=True),
        # In units of 1/8 GB/s.
        "amd": Vendor(0, sparse_masks=True, bandwidth=(0, 2048, 1), linear=False),
        # MPAM. In percent, with 7 bits of fraction. No hardware was seen; source: Linux 7.2,
        # drivers/resctrl/mpam_resctrl.c, lines 613 to 683 (bandwidth), 991 to 1040 (controls), 1078 to 1114 (counters).
        # The kernel reports all ways as shareable there (line 1021); the model does not.
        "arm": Vendor(
            1, sparse_masks=True, bandwidth=(1, 100, 1), linear=True, counts_bandwidth=False, architecture="aarch64"
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Machine:
    """The simulated hardware.

    Args:
        rmids: RMIDs, of which the root group has one; clusters share them out.
        closids: CLOSIDs, of which the root group has one; with CDP there are half as many.
        l3_domains: L3 caches, numbered from 0.
        limbo: Seconds for which a freed RMID is unusable.
        energy: Whether there are `PERF_PKG` domains, as many as L3 caches.
        perf: Whether these also count cycles and micro-operations, of the pods whose work is known (`load.py`).
        cpus: Logical CPUs.
        vendor: The processor's vendor, a key of `VENDORS`.
        assignable_counters: Assignable bandwidth counters in each domain (AMD's ABMC, Arm's MPAM); 0: each group has
            its own.
        clusters: Sub-NUMA clusters of each L3 domain.
        cdp: Whether code and data have separate masks, as with the mount option `cdp`.
        sparse_masks: Whether masks may have holes; None for the vendor's default.
        pmg: Arm's RMIDs of each class, of which the class has one (`pmg_max + 1`); instead of `rmids`.
        partids: Arm's classes, of which the root group has one (`partid_max + 1`); instead of `closids`.
        bandwidth: The resource whose domains count bandwidth, with Arm: L3, MB (NVIDIA's kernels), NODE (in review) or
            an invented one; empty for none. Only the total is counted.
        memory_nodes: The ids of these domains, unless they are L3 caches, such as `0-1,10`; empty for those of the
            caches. With MB and NODE, `MB` limits in these domains too.
        other_schemata: More lines of `schemata`, without effect: `MB_MIN:0=0;1=0`.
    """

    rmids: int = 32
    closids: int = 8
    l3_domains: int = 2
    limbo: float = 1.0
    energy: bool = False
    perf: bool = False
    cpus: int = field(default_factory=lambda: os.cpu_count() or 1)
    vendor: str = "intel"
    assignable_counters: int = 0
    clusters: int = 1
    cdp: bool = False
    sparse_masks: bool | None = None
    pmg: int = 0
    partids: int = 0
    bandwidth: str = ""
    memory_nodes: str = ""
    other_schemata: str = ""

    def __post_init__(self) -> None:
        for name in ("rmids", "closids", "l3_domains", "cpus", "clusters"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name, most in MOST.items():
            if getattr(self, name) > most:
                raise ValueError(f"{name} must be at most {most}, not {getattr(self, name)}")
        if self.vendor not in VENDORS:
            raise ValueError(f"vendor must be one of {', '.join(VENDORS)}, not {self.vendor}")
        self._check_bandwidth()
        if (self.vendor == "arm") != (self.pmg > 0) or (self.vendor == "arm") != (self.partids > 0):
            raise ValueError("Arm's processors have pmg and partids of 1 or more, others have none")
        if self.vendor == "arm" and (self.cdp or self.energy or self.clusters > 1):
            raise ValueError("the model of Arm's processors has no CDP, energy counters or Sub-NUMA clusters")
        if self.groups < 1 or self.classes < 1:
            raise ValueError("too few RMIDs or CLOSIDs for these clusters and CDP")
        if not 0 <= self.limbo < float("inf"):
            raise ValueError(f"limbo must be 0 seconds or more, not {self.limbo}")

    def _check_bandwidth(self) -> None:
        if self.bandwidth and (self.vendor != "arm" or not re.fullmatch("[A-Z][A-Z0-9_]*", self.bandwidth)):
            raise ValueError("bandwidth must be the name of a resource such as MB, and requires Arm")
        if self.memory_nodes and (self.bandwidth in ("", L3) or not parse_list(self.memory_nodes)):
            raise ValueError("memory_nodes must be numbers such as 0-1,10, and requires bandwidth that is not L3")
        counts = self.vendor == "amd" or self.bandwidth
        if self.assignable_counters < 0 or (self.assignable_counters and not counts):
            raise ValueError("only AMD processors, and Arm's with bandwidth, have assignable counters")

    @property
    def domains(self) -> range:
        """The numbers of the L3 caches."""
        return range(self.l3_domains)

    def packages(self, cpus: str) -> set[int]:
        """Return the packages of a list of CPUs such as ``0-3,8``.

        Each package has the same number of CPUs, in order; with fewer CPUs than packages, one CPU stands for several.
        """
        mask = parse_list(cpus)
        bounds = (
            (one * self.cpus // self.l3_domains, -(-(one + 1) * self.cpus // self.l3_domains)) for one in self.domains
        )
        return {one for one, (first, end) in enumerate(bounds) if mask >> first & ((1 << end - first) - 1)}

    @property
    def bandwidth_resource(self) -> str:
        """The resource whose domains count bandwidth; empty if nothing does."""
        return self.bandwidth or (L3 if self.traits.counts_bandwidth else "")

    @property
    def bandwidth_events(self) -> tuple[str, ...]:
        """The events of its domains."""
        return EVENTS[:1] if self.bandwidth else EVENTS if self.bandwidth_resource else ()

    @property
    def bandwidth_domains(self) -> tuple[int, ...]:
        """The numbers of its domains."""
        if self.bandwidth_resource == L3 or not self.memory_nodes:
            return tuple(self.domains)
        mask = parse_list(self.memory_nodes)
        return tuple(number for number in range(mask.bit_length()) if mask >> number & 1)

    @property
    def limited_domains(self) -> tuple[int, ...]:
        """The numbers of the domains in which `MB` limits."""
        return self.bandwidth_domains if self.bandwidth in AT_MEMORY else tuple(self.domains)

    @property
    def traits(self) -> Vendor:
        """The properties of the vendor's processors."""
        return VENDORS[self.vendor]

    @property
    def groups(self) -> int:
        """Number of RMIDs for groups (`num_rmids`)."""
        return self.pmg * self.partids or self.rmids // self.clusters

    @property
    def classes(self) -> int:
        """Number of CLOSIDs for classes (`num_closids`)."""
        return self.partids or (self.closids // 2 if self.cdp else self.closids)

    @property
    def caches(self) -> tuple[str, ...]:
        """The cache resources of `schemata`, in its order."""
        return ("L3DATA", "L3CODE") if self.cdp else ("L3",)

    @property
    def sparse(self) -> bool:
        """Whether masks may have holes."""
        return self.traits.sparse_masks if self.sparse_masks is None else self.sparse_masks

    @property
    def all_cpus(self) -> int:
        """The mask of every CPU."""
        return (1 << self.cpus) - 1
