"""The ``monitoring`` section: each pod's mon_group."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from .section import FeatureSection, wrong

BandwidthEvent = Literal["mbm_total_bytes", "mbm_local_bytes"]


def _each_once(events: list[BandwidthEvent]) -> list[BandwidthEvent]:
    for index, event in enumerate(events):
        if event in events[:index]:
            raise wrong(f"{event} is there twice", "name each event once", at=(index,))
    return events


class Monitoring(FeatureSection):
    """The monitoring group of each pod. On unless `enabled` is false."""

    served_by: ClassVar[tuple[str, ...]] = ("monitoring",)

    enabled: bool = True
    """Whether workloads get a monitoring group."""

    release: Literal["pod", "last-container"] = "pod"
    """When a pod's group and its RMID are freed: at the end of the `pod`, so that counters survive container restarts,
    or at the end of its `last-container`."""

    events: Annotated[list[BandwidthEvent], Field(min_length=1), AfterValidator(_each_once)] = [
        "mbm_total_bytes",
        "mbm_local_bytes",
    ]
    """Where the kernel assigns bandwidth counters (AMD's `mbm_event` mode): the events that get one, the most important
    first. Every pod has the first before any pod has the second."""

    class_counters: Literal["while-free", "keep"] = "while-free"
    """What becomes there of the counters of the root group and of classes, which count what no pod's group holds: they
    have them `while-free`, as long as no pod needs them, or `keep` them before any pod."""

    take_over: bool = False
    """Whether to monitor also containers whose runtime makes its own group (`linux.intelRdt.enableMonitoring`). A task
    can be in one group only, so the runtime's stays empty then."""
