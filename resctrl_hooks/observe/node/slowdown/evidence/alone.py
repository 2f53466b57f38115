"""What a workload's work takes while neither a shared disk nor a lack of memory disturbs it, from its earlier windows.

Two assumptions: its own code (user time) needs the same CPU time for the same work, and its operations of a similar
size on a disk do the same work. Both are counted in every window, so later ones can be compared, whatever disk it is
and however many tasks the pod has. Pure.
"""

from math import log2

from ..constants import BESIDE, FEWEST, LEAST_CPU, MOST_WEIGHT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .use import Use

_USER = "user"
_CALM = 0.01  # of the time: below, memory disturbs no work
CALM_WINDOWS = 6
"""Windows without a lack of memory after which a pod is undisturbed again."""
_FEW_OPERATIONS = 10.0  # in a window
_MOST = 16  # sizes of operations, of all disks
_NEARLY, _ONE = 0.98, 1.5
_IN_TURN, _MOSTLY = "/1", 0.9
_INFINITY = float("inf")


class Alone:
    """Times by seconds of own code, and by operation on each disk, as sums of which old ones count less."""

    __slots__ = ("_sums",)

    def __init__(self, sums: "dict[str, tuple[float, float, float]] | None" = None) -> None:
        self._sums = sums or {}

    def __len__(self) -> int:
        return len(self._sums)

    def learn(self, use: "Use", seconds: float) -> None:
        """Add a window, as far as the pod was undisturbed in it."""
        for name, time, amount in _found(use):
            sums = self._sums.get(name, (0.0, 0.0, 0.0))
            if not any(sums) and len(self._sums) >= _MOST:
                del self._sums[min(self._sums, key=lambda one: self._sums[one][2])]
            part = 0.5 if sums[2] >= MOST_WEIGHT else 1.0
            more = time * seconds, amount * seconds, 1.0
            self._sums[name] = sums[0] * part + more[0], sums[1] * part + more[1], sums[2] * part + more[2]

    @property
    def by_user(self) -> "float | None":
        """The seconds that it ran, or waited for a disk of its own, by second of own code; None: not known."""
        return self._mean(_USER)

    def by_operation(self, name: str, size: float) -> "float | None":
        """Return the seconds that its tasks ran and waited by operation of about a size; None: not known."""
        return self._mean(_place(name, size))

    def in_turn(self, name: str, size: float) -> "float | None":
        """Return the seconds by operation of about a size if the pod does one after the other; None: it does not."""
        place = _place(name, size)
        samples = [self._sums.get(one, (0.0, 0.0, 0.0))[2] for one in (place, place + _IN_TURN)]
        return self._mean(place + _IN_TURN) if samples[1] >= _MOSTLY * samples[0] else None

    def _mean(self, name: str) -> "float | None":
        time, amount, samples = self._sums.get(name, (0.0, 0.0, 0.0))
        return time / amount if samples >= FEWEST and amount > 0 else None

    def as_record(self) -> "dict[str, Any]":
        """Return plain JSON values."""
        return {name: [float(f"{part:.6g}") for part in sums] for name, sums in self._sums.items()}


def alone_of(record: "dict[str, Any]") -> Alone:
    """Return what `Alone.as_record` wrote.

    Raises:
        ValueError, TypeError, AttributeError: the record is damaged.
    """
    found: "dict[str, tuple[float, float, float]]" = {}
    for name, (time, amount, samples) in record.items():
        sums = float(time), float(amount), float(samples)
        if not all(0 <= part < _INFINITY for part in sums):
            raise ValueError("not a sum of times")
        found[name] = sums
    return Alone(found)


def teaches(use: "Use") -> bool:
    """Return whether the pod was undisturbed in a window."""
    return any(True for _ in _found(use))


def lacks_memory(use: "Use") -> bool:
    """Return whether the pod waited for memory, as far as the kernel counts it.

    It forgets evictions from a small cgroup, so a single window can look undisturbed (mm/workingset.c).
    """
    return float(use.reclaimed or 0) >= _CALM or bool(use.memory_events) or use.again >= _CALM


def _found(use: "Use") -> "Iterator[tuple[str, float, float]]":
    """Yield what a window teaches: a name, the time by second, and the amount by second that it was needed for."""
    ran, blocked, disk = use.cpu or 0.0, float(use.blocked_fully or 0), use.disk
    if use.reclaimed is None or lacks_memory(use) or not ran:
        return
    is_own = disk is not None and disk.part >= 1 - BESIDE
    if disk is not None and is_own and disk.operations >= _FEW_OPERATIONS:
        yield _place(disk.name, disk.size), time_on_disk(use), disk.operations
        if _is_in_turn(use):
            yield _place(disk.name, disk.size) + _IN_TURN, ran + float(use.blocked or 0), disk.operations
    if use.user is not None and use.user >= LEAST_CPU and (is_own or blocked < _CALM):
        yield _USER, ran + blocked * max(1.0, ran / (1 - min(blocked, 0.95))), use.user


def time_on_disk(use: "Use") -> float:
    """Return the tasks that ran or waited for a disk at a time: those in its queue, and one at least while some did.

    Where all wait whenever some do, and few are in the queue, it is one task: its part of the queue is a guess.
    """
    some, queued = float(use.blocked or 0), use.disk.queued if use.disk is not None else 0.0
    return (use.cpu or 0.0) + (some if _is_in_turn(use) else max(queued, some))


def all_wait(some: float, full: float) -> bool:
    """Return whether all tasks of a pod wait for a disk whenever some do, by both parts of the time."""
    return full >= _NEARLY * some


def _is_in_turn(use: "Use") -> bool:
    some, full, queued = float(use.blocked or 0), float(use.blocked_fully or 0), use.disk.queued if use.disk else 0.0
    return all_wait(some, full) and queued < _ONE * some


def _place(name: str, size: float) -> str:
    return f"{name}/{round(log2(max(size, 1.0)))}"  # sizes are powers of two, and their means differ a little
