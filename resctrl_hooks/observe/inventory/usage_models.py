"""Models of the use of counters in an interval, which `top` prints."""

from typing import Literal

from pydantic import Field

from resctrl_hooks.core.inventory.base import Record

from . import load_text
from .columns import measured
from .limited import DESCRIPTION as LIMITED
from .limited import PodLimit
from .pod_rates import COUNTED
from .slowdown import DESCRIPTION


@measured("rdt_class")
class Usage(Record):
    """The use of one row in an interval. ``kind`` is pod, foreign, ungrouped, or total: the sum of all other rows."""

    kind: str
    name: str
    key: str
    namespace: str = ""
    pod: str = ""
    rdt_class: str | None = Field(
        default=None, description="RDT class; empty for the root class, null for several classes."
    )
    counted_percent: float | None = Field(default=None, description=COUNTED)
    uncounted: int = Field(default=0, description="Number of pods whose memory traffic is not counted now.")
    partial: bool = Field(default=False, description="Whether a pod's counters cover only a part of its life.")
    slowdown: float | None = Field(default=None, description=DESCRIPTION)
    limited: list[PodLimit] | None = Field(default=None, description=LIMITED)


class PowerUsage(Record):
    """The power of the node's processor packages in an interval; null where the kernel counts no energy by pod."""

    packages_watts: float = Field(description="Power of all packages (RAPL), with caches and memory controllers.")
    attributed_watts: float | None = Field(description="Power of the cores for all pods.")
    other_tasks_watts: float | None = Field(description="Power of the cores for other tasks.")
    unattributed_watts: float | None = Field(description="Power of the packages without that of the pods.")


class DomainUsage(Record):
    """The traffic of an L3 cache in an interval, and its occupancy; or the traffic of a memory that counts itself."""

    domain: int = Field(description="Id of the domain, such as 1 for mon_L3_01.")
    resource: str = Field(default="L3", description="The domain's resource, such as L3 for mon_L3_01.")
    memory_bandwidth_bytes_per_second: float | None
    peak_bytes_per_second: float | None = Field(
        description="Largest rate that this command has measured, or the value of --capacity."
    )
    peak_is: Literal["configured", "observed"] | None = Field(
        default=None, description="The source of the peak: the value of --capacity, or the largest rate so far."
    )
    llc_occupancy_bytes: float | None
    llc_bytes: int | None


class MemoryShare(Record):
    """A pod's traffic to and from a domain's memory."""

    name: str
    memory_bandwidth_bytes_per_second: float
    share_percent: float = Field(description="The pod's share of the domain's traffic.")


class MemoryUsage(Record):
    """The load of a memory domain in an interval."""

    domain: int = Field(description="The lowest id of its L3 domains, or its own where the memory counts.")
    l3: list[int]
    memory_bandwidth_bytes_per_second: float | None
    capacity_bytes_per_second: float | None = Field(
        description="What the domain carries; null if nothing is known. By `seen`, it carries at least this."
    )
    capacity_source: str | None = Field(default=None, description=load_text.DESCRIPTION)
    load_percent: float | None
    estimated: bool = Field(
        description="Whether rates are estimates: remote traffic is spread evenly, or local traffic is not counted."
    )
    pods: list[MemoryShare] = Field(description="The three pods with the most traffic.")
