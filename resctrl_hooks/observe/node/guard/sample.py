"""The input of the guard's law: one sample of a memory domain."""

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Sample(NamedTuple):
    """One sample of a memory domain.

    Args:
        time: Seconds of a monotonic clock.
        load: Traffic as a share of the capacity, None if unknown.
        capacity: Bandwidth of the domain in bytes per second.
        rates: Bytes per second of each class's own traffic.
        suffering: Protected classes whose pods are slowed by the bandwidth of this domain.
        ratios: The worst slowdown of a pod of each class protected at a slowdown, since the last change, if known.
    """

    time: float
    load: "float | None"
    capacity: float
    rates: "Mapping[str, float]"
    suffering: "Sequence[str]" = ()
    ratios: "Mapping[str, float]" = {}  # noqa: RUF012  # never changed
