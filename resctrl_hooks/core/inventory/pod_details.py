"""Models of one pod's details, which `show` prints."""

from pydantic import Field

from .base import Record
from .counters import Counter, TurnRate
from .models import Moment, Pod
from .pod_fields import details_fields, extended


class Failure(Record):
    """A failure for a pod."""

    time: Moment
    stage: str
    reasons: list[str]
    message: str


@extended(details_fields())
class _Counted(Pod):
    """A pod with its counters, which the fields of other houses follow."""

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


class PodDetails(_Counted):
    """A pod with its counters and last failures."""

    failures: list[Failure] = Field(default_factory=list)
