"""The ``scheduling`` section."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from resctrl_hooks.core.node.classes.memory import canonical
from resctrl_hooks.core.node.errors import HookError

from .classes import SectionOfOwnClasses
from .section import ClassName, Remark, Section, matching, wrong

_MOST_QUOTA = 1 << 40
_PAGE_SIZE = "^[1-9][0-9]*[KMG]B$"


def _amount(value: str) -> str:
    try:
        canonical("memory", value)
    except HookError as error:
        raise wrong(error.message, error.hint) from error
    return value


def _cpu_max(value: str) -> str:
    quota, space, period = value.partition(" ")
    good = quota == "max" or (quota.isdecimal() and 1000 <= int(quota) < _MOST_QUOTA and quota[0] != "0")  # noqa: PLR2004
    if not good or (space and not (period.isdecimal() and 1000 <= int(period) <= 1_000_000)):  # noqa: PLR2004
        raise wrong(f"{value!r} is not a cpu.max value", "write max, or quota and period in microseconds: 50000 100000")
    return value


Amount = Annotated[str, AfterValidator(_amount)]
"""Bytes: `max`, or a whole number with K, M, G or T."""


PageSize = Annotated[
    str,
    matching(_PAGE_SIZE, "a huge page size", "write it as the kernel does: 2MB or 1GB"),
    WithJsonSchema({"type": "string", "pattern": _PAGE_SIZE}),
]
"""A huge page size, as in the kernel's file names."""


def _is_power_of_two(size: str) -> bool:
    number = int(size[:-2])
    return number & (number - 1) == 0


class SchedulingClass(Section):
    """One scheduling class."""

    policy: Literal["normal", "batch", "idle", "fifo", "rr"] | None = None
    """Scheduling policy of the init process and its children: sched(7)."""

    priority: Annotated[int, Field(ge=1, le=99)] | None = None
    """Priority for `fifo` and `rr`."""

    nice: Annotated[int, Field(ge=-20, le=19)] | None = None
    """Nice value of the init process."""

    io_class: Literal["realtime", "best-effort", "idle"] | None = None
    """I/O scheduling class of the init process; needs ionice."""

    io_priority: Annotated[int, Field(ge=0, le=7)] | None = None
    """Priority in the I/O class; 0 is the highest."""

    cpu_weight: Annotated[int, Field(ge=1, le=10000)] | None = None
    """cpu.weight of the container's cgroup."""

    cpu_max: Annotated[str, AfterValidator(_cpu_max)] | None = None
    """cpu.max: quota and period in microseconds; `50000 100000` is half a CPU."""

    cpu_idle: bool | None = None
    """cpu.idle: true runs the container only on otherwise idle CPUs."""

    uclamp_min: Annotated[float, Field(ge=0, le=100)] | None = None
    """cpu.uclamp.min in per cent."""

    uclamp_max: Annotated[float, Field(ge=0, le=100)] | None = None
    """cpu.uclamp.max in per cent."""

    memory_min: Amount | None = None
    """memory.min: memory below this is never reclaimed."""

    memory_low: Amount | None = None
    """memory.low: memory below this is reclaimed last."""

    memory_max: Amount | None = None
    """memory.max: memory limit."""

    hugepages: dict[PageSize, Amount] = {}
    """hugetlb.SIZE.max by size, such as `2MB: 1G`."""

    @model_validator(mode="after")
    def _fits(self) -> "SchedulingClass":
        real_time = self.policy in ("fifo", "rr")
        if real_time and self.priority is None:
            raise wrong(f"the policy {self.policy} needs a priority", "add priority: 1 to 99", at=("policy",))
        if self.priority is not None and not real_time:
            raise wrong("only fifo and rr have a priority", "use nice, or another policy", at=("priority",))
        if self.cpu_idle and self.cpu_weight is not None:
            raise wrong("the kernel rejects cpu.weight with cpu.idle", "remove one of them", at=("cpuWeight",))
        if self.io_priority is not None and self.io_class in (None, "idle"):
            raise wrong("only realtime and best-effort have an ioPriority", "add an ioClass", at=("ioPriority",))
        return self

    def remarks(self) -> list[Remark]:
        """Return a remark for each page size that the kernel does not have."""
        text = "invalid huge page size: sizes are powers of two"
        return [Remark(("hugepages", size), text) for size in self.hugepages if not _is_power_of_two(size)]


class Scheduling(SectionOfOwnClasses):
    """Scheduling classes. Off by default."""

    classes: dict[ClassName, SchedulingClass] = {}
    """The classes by name."""
