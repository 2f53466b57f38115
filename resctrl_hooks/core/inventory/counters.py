"""Models of one pod's counters."""

from pydantic import Field

from .base import Record


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
