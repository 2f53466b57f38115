"""What hardware a simulation stands for: how many RMIDs, CLOSIDs, caches and packages it has."""

import os
from dataclasses import dataclass, field

CBM_BITS = 12
"""Ways of each L3 cache that a mask can give."""
SHAREABLE_BITS = 0x600
"""Ways that other agents, I/O for one, use as well (`info/L3/shareable_bits`)."""
MIN_CBM_BITS = 1
CACHE_BYTES = 16 << 20
"""Size of each L3 cache."""
MIN_BANDWIDTH = 10
"""Per cent of memory bandwidth."""
BANDWIDTH_GRAN = 10
UNIT_BYTES = 65536
"""What hardware counts in: occupancy and thresholds are multiples of it."""

FULL_MASK = (1 << CBM_BITS) - 1

BYTES_PER_SECOND = 100_000_000
"""Memory traffic of each live task of a group, over all L3 domains together."""
LOCAL_SHARE = 0.75
"""The part of the traffic that stays on the task's own node (`mbm_local_bytes`)."""
LINES_PER_TASK = 8 * UNIT_BYTES
"""Bytes that each live task keeps in each L3 cache."""
WATTS_PER_TASK = 4.0
"""Joules a second of each live task, over all packages together (`core_energy`)."""
FARADS_PER_SECOND = 0.5
"""Growth of `activity` by each live task, over all packages together."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The hardware to stand for.

    Args:
        rmids: Monitoring ids, of which the root group has one.
        closids: Classes of service, of which the root group has one.
        l3_domains: L3 caches, numbered from 0.
        limbo: Seconds that a freed RMID can't be used again for.
        energy: Whether there are `PERF_PKG` domains, as many as L3 caches.
        cpus: Logical CPUs.
    """

    rmids: int = 32
    closids: int = 8
    l3_domains: int = 2
    limbo: float = 1.0
    energy: bool = False
    cpus: int = field(default_factory=lambda: os.cpu_count() or 1)

    def __post_init__(self) -> None:
        for name in ("rmids", "closids", "l3_domains", "cpus"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.limbo < float("inf"):
            raise ValueError(f"limbo must be 0 seconds or more, not {self.limbo}")

    @property
    def domains(self) -> range:
        """The numbers of the L3 caches."""
        return range(self.l3_domains)

    @property
    def all_cpus(self) -> int:
        """The mask of every CPU."""
        return (1 << self.cpus) - 1
