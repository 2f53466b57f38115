"""The ``monitoring`` section: each pod's mon_group."""

from typing import ClassVar, Literal

from .section import FeatureSection


class Monitoring(FeatureSection):
    """The monitoring group of each pod. On unless `enabled` is false."""

    served_by: ClassVar[tuple[str, ...]] = ("monitoring",)

    enabled: bool = True
    """Whether workloads get a monitoring group."""

    release: Literal["pod", "last-container"] = "pod"
    """When a pod's group and its RMID are freed: at the end of the `pod`, so that counters survive container restarts,
    or at the end of its `last-container`."""

    take_over: bool = False
    """Whether to monitor also containers whose runtime makes its own group (`linux.intelRdt.enableMonitoring`). A task
    can be in one group only, so the runtime's stays empty then."""
