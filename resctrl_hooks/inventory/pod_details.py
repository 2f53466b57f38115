"""Models of one pod's counters, rates and failures, which `show` prints."""

from pydantic import Field

from .base import Record
from .columns import RATES, measured
from .models import Moment, Pod


class Counter(Record):
    """One counter of one domain, with the total of the pod's earlier groups."""

    domain: str = Field(description="Directory in mon_data.")
    resource: str
    id: int
    node: int | None
    counter: str
    rdt_class: str | None
    value: int | float | None = Field(description="Last known value if a total has no value now.")
    kind: str
    unit: str = Field(description="Unit in UCUM: By, J, F, s.")
    state: str = Field(description="`available`, or the kernel's word for a missing value.")
    seconds: float | None = Field(
        default=None,
        description="Time in which `value` was counted; null for gauges, or if unknown, as where the times of "
        "several classes may overlap.",
    )
    partial: bool = Field(default=False, description="Whether the value covers only a part of the pod's life.")


class TurnRate(Record):
    """The memory traffic of a time-sharing pod, from its last turns: the true rate is between ``low`` and ``high``."""

    bytes_per_second: float
    low: float | None = Field(description="Lower bound of the 95 % confidence interval; null after too few turns.")
    high: float | None
    turns: int
    counted_seconds: float


class PodMemory(Record):
    """A pod's part of a memory domain in an interval; null for what is unknown."""

    domain: int = Field(description="The lowest id of its L3 domains.")
    memory_bandwidth_bytes_per_second: float | None = Field(description="The pod's traffic to and from this memory.")
    share_percent: float | None = Field(description="The pod's share of the domain's traffic.")
    load_percent: float | None = Field(description="Load of the domain; null without `monitoring.capacity`.")
    estimated: bool = Field(
        description="Whether rates are estimates: remote traffic is spread evenly, or local traffic is not counted."
    )


COUNTED = "Counted part of the interval; below 100, the rates are estimates."
"""The description of the field in all models of an interval."""


@measured("seconds", RATES)
class PodRates(Record):
    """A pod's use in an interval; null for unknown values."""

    seconds: float = Field(description="Length of the interval.")
    counted_percent: float | None = Field(description=COUNTED)
    memory_domains: list[PodMemory] = Field(default_factory=list)


class Failure(Record):
    """A failure for a pod."""

    time: Moment
    stage: str
    reasons: list[str]
    message: str


class PodDetails(Pod):
    """A pod with its counters and last failures."""

    unreadable: str = Field(default="", exclude=True, description="The reason why its counters cannot be read.")
    counters: list[Counter] = Field(default_factory=list, description="Counters of each RDT class.")
    totals: list[Counter] = Field(
        default_factory=list, description="Sums over all RDT classes of the pod; `rdtClass` is null."
    )
    turn_rate: TurnRate | None = Field(default=None, description="Rate of a time-sharing pod.")
    counted_until: dict[str, Moment] = Field(
        default_factory=dict,
        description="The last read of each group that another program removed; later counts are lost. By container, "
        "or by the pod's `key` for its own group.",
    )
    rates: PodRates | None = Field(default=None, description="Only with `--rates`.")
    failures: list[Failure] = Field(default_factory=list)
