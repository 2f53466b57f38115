"""What the guard's law decides on: one sample of a memory domain."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Sample:
    """One sample of a memory domain.

    Args:
        time: Seconds of a monotonic clock.
        load: Traffic as a share of the capacity, None if unknown.
        capacity: Bandwidth of the domain in bytes per second.
        rates: Bytes per second of each class's own traffic.
        suffering: Protected classes whose pods are slowed by the bandwidth of this domain.
        ratios: The worst slowdown of a pod of each class protected at a slowdown, since the last change, if known.
    """

    __slots__ = ("capacity", "load", "rates", "ratios", "suffering", "time")

    def __init__(
        self,
        time: float,
        load: "float | None",
        capacity: float,
        rates: "Mapping[str, float]",
        suffering: "Sequence[str]" = (),
        ratios: "Mapping[str, float] | None" = None,
    ) -> None:
        self.ratios = ratios or {}
        self.suffering = suffering
        self.time = time
        self.load = load
        self.capacity = capacity
        self.rates = rates
