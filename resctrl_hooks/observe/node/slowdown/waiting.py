"""The time that a pod loses while it waits, by cause, beside the time that it runs. Pure.

Pressure `full` is the part of wall time for which all of a pod's tasks on a CPU waited, as a mean over the CPUs that it
demanded (kernel, Documentation/accounting/psi.rst). A pod that rests demands no CPU, so what it loses is related to
the time that it ran, and not to the window: ``(ran + lost) / ran``.
"""

from typing import NamedTuple

from .constants import LEAST_STILL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .use import Use

_MOST_STILL = 0.95  # of a window: beyond, the ratio means nothing
LIMIT, CPU, MEMORY = "limit", "cpu", "memory"


class Waiting(NamedTuple):
    """Seconds that a pod lost for each second that its tasks ran, by cause."""

    limit: float = 0.0
    """Its own CPU limit stopped it."""
    cpu: float = 0.0
    """It waited for CPUs that others used."""
    memory: float = 0.0
    """It waited for memory."""

    @property
    def stretch(self) -> float:
        """How many times as long its work takes as without waiting."""
        return 1.0 + self.limit + self.cpu + self.memory

    def beyond(self, usual: "Waiting") -> "Waiting":
        """Return the factors, less one, by which each cause makes the work longer than it is with usual waiting."""
        return Waiting(*[max(0.0, (1.0 + now) / (1.0 + then) - 1.0) for now, then in zip(self, usual)])

    def factors(self) -> "dict[str, float]":
        """Return each cause's factor; their product is `stretch`. What is lost at once is divided by its parts."""
        whole = sum(self)
        return {name: self.stretch ** (part / whole) if whole else 1.0 for name, part in zip(self._fields, self)}


NOTHING = Waiting()


def waiting_of(uses: "Sequence[tuple[Use, float]]") -> Waiting:
    """Return what a pod lost in some windows, each with its seconds.

    Nothing is lost below `LEAST_STILL`, and where the kernel does not count it.
    """
    whole = sum([seconds for _, seconds in uses])
    ran = _mean([(use.cpu, seconds) for use, seconds in uses])
    if not whole or not ran:
        return NOTHING
    stood = _mean([(use.stood, seconds) for use, seconds in uses])
    limit = _mean([(use.throttled, seconds) for use, seconds in uses])
    memory = _mean([(use.reclaimed_fully, seconds) for use, seconds in uses])
    stood = max(stood, limit)
    still = stood + memory
    if still < LEAST_STILL:
        return NOTHING
    scale = min(_MOST_STILL, still) / still
    # The pod demanded at least the CPUs that it used while it did not stand still, and one at least.
    cpus = max(1.0, ran / (1.0 - still * scale)) * scale / ran
    return Waiting(limit * cpus, (stood - limit) * cpus, memory * cpus)


def _mean(parts: "Iterable[tuple[object, float]]") -> float:
    """Return the mean of known values, weighted by seconds; 0 without one."""
    total = whole = 0.0
    for value, seconds in parts:
        if value is not None:
            total += float(value) * seconds  # type: ignore[arg-type]  # a number of some unit
            whole += seconds
    return total / whole if whole else 0.0
