"""Units of counted time, so that a sum or a comparison of different kinds does not type-check.

The kernel sums the time that tasks run or are throttled over all CPUs (``cpu.stat``, performance events, ``steal``).
Pressure is a part of wall time, as a mean over the CPUs that the tasks want. At run time all are numbers.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import SupportsFloat, TypeVar, overload

    _Self = TypeVar("_Self", bound="_Quantity")

    class _Quantity:
        def __init__(self, value: "SupportsFloat") -> None: ...
        def __add__(self: _Self, other: _Self) -> _Self: ...  # noqa: PYI019  # Python 3.9 lacks Self
        def __sub__(self: _Self, other: _Self) -> _Self: ...  # noqa: PYI019  # Python 3.9 lacks Self
        def __lt__(self: _Self, other: _Self) -> bool: ...  # noqa: PYI019  # Python 3.9 lacks Self
        def __ge__(self: _Self, other: _Self) -> bool: ...  # noqa: PYI019  # Python 3.9 lacks Self
        def __float__(self) -> float: ...

    class WallTime(_Quantity):
        """Seconds of a clock."""

        def __truediv__(self, other: "WallTime") -> "WallPart": ...

    class WallPart(_Quantity):
        """A part of wall time, from 0 to 1."""

    class CpuTime(_Quantity):
        """Seconds of one CPU, summed over CPUs."""

        @overload
        def __truediv__(self, other: WallTime) -> "Cpus": ...
        @overload
        def __truediv__(self, other: "Cpus") -> WallTime: ...
        @overload
        def __truediv__(self, other: "CpuTime") -> "CpuPart": ...
        def __truediv__(self, other: "_Quantity") -> "_Quantity": ...

    class CpuPart(_Quantity):
        """A part of the time of several CPUs, from 0 to 1."""

    class Cpus(_Quantity):
        """A number of CPUs, on average."""

else:
    WallTime = WallPart = CpuTime = CpuPart = Cpus = float


def plain(value: "SupportsFloat | None") -> "float | None":
    """Return a quantity as a number; None stays None."""
    return None if value is None else float(value)
