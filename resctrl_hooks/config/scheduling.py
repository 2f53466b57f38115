"""The ``scheduling`` section."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from resctrl_hooks.node.classes.memory import canonical
from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.feature_table import FEATURES

from .classes import ClassDefaults, allowed_in_vain
from .section import Allow, ClassName, FailurePolicy, FeatureSection, Remark, Section, wrong

_MOST_QUOTA = 1 << 40
_PAGE_SIZE = re.compile(r"^[1-9][0-9]*[KMG]B$")


def _amount(value: str) -> str:
    try:
        canonical("memory", value)
    except HookError as error:
        raise wrong(error.message, error.hint) from error
    return value


def _page_size(value: str) -> str:
    if not _PAGE_SIZE.fullmatch(value):
        raise wrong(f"{value!r} is no size of huge pages", "write it as the kernel does: 2MB or 1GB")
    return value


def _cpu_max(value: str) -> str:
    quota, space, period = value.partition(" ")
    good = quota == "max" or (quota.isdecimal() and 1000 <= int(quota) < _MOST_QUOTA and quota[0] != "0")  # noqa: PLR2004
    if not good or (space and not (period.isdecimal() and 1000 <= int(period) <= 1_000_000)):  # noqa: PLR2004
        raise wrong(f"{value!r} is no cpu.max", "write max, or microseconds and of how many: 50000 100000")
    return value


Amount = Annotated[str, AfterValidator(_amount)]
"""Bytes: `max`, or a whole number with K, M, G or T."""


PageSize = Annotated[str, AfterValidator(_page_size), WithJsonSchema({"type": "string", "pattern": _PAGE_SIZE.pattern})]
"""A huge page size, as in the kernel's file names."""


def _is_power_of_two(size: str) -> bool:
    number = int(size[:-2])
    return number & (number - 1) == 0


_DEFAULTS = FEATURES["scheduling"].defaults


class SchedulingClass(Section):
    """One scheduling class. What isn't said stays as it is."""

    policy: Literal["normal", "batch", "idle", "fifo", "rr"] | None = None
    """The policy of the init process, and so of all that it starts (sched(7))."""

    priority: Annotated[int, Field(ge=1, le=99)] | None = None
    """With `fifo` and `rr`: its priority."""

    nice: Annotated[int, Field(ge=-20, le=19)] | None = None
    """The nice value of the init process."""

    io_class: Literal["realtime", "best-effort", "idle"] | None = None
    """The I/O scheduling class of the init process; set with ionice, which has to be there."""

    io_priority: Annotated[int, Field(ge=0, le=7)] | None = None
    """Within its I/O class, 0 being the highest."""

    cpu_weight: Annotated[int, Field(ge=1, le=10000)] | None = None
    """cpu.weight of the container's cgroup."""

    cpu_max: Annotated[str, AfterValidator(_cpu_max)] | None = None
    """cpu.max: microseconds, and of how many: `50000 100000` is half a CPU."""

    cpu_idle: bool | None = None
    """cpu.idle: true runs it only when nothing else wants the CPU."""

    uclamp_min: Annotated[float, Field(ge=0, le=100)] | None = None
    """cpu.uclamp.min in per cent."""

    uclamp_max: Annotated[float, Field(ge=0, le=100)] | None = None
    """cpu.uclamp.max in per cent."""

    memory_min: Amount | None = None
    """memory.min: never reclaimed below it."""

    memory_low: Amount | None = None
    """memory.low: not reclaimed below it while others have more."""

    memory_max: Amount | None = None
    """memory.max: the most it may have."""

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
            raise wrong("the kernel takes no cpu.weight with cpu.idle", "leave one of them out", at=("cpuWeight",))
        if self.io_priority is not None and self.io_class in (None, "idle"):
            raise wrong("only realtime and best-effort have an ioPriority", "add an ioClass", at=("ioPriority",))
        return self

    def remarks(self) -> list[Remark]:
        """Return a remark for each page size that the kernel does not have."""
        text = "no kernel has huge pages of this size: all sizes are powers of two"
        return [Remark(("hugepages", size), text) for size in self.hugepages if not _is_power_of_two(size)]


class Scheduling(FeatureSection):
    """Scheduling classes. Off unless `enabled` is true."""

    failure_policy: FailurePolicy | None = None
    """What it means that a container can't have its class. Without it the general `failurePolicy` holds."""

    enabled: bool = _DEFAULTS["enabled"]
    """Whether hooks do this at all."""

    allow: Allow = {}
    """Which namespaces may have which classes by annotation: `{namespace pattern: [class patterns]}`. By default
    none."""

    defaults: ClassDefaults = ClassDefaults()
    """The class of containers that ask for none."""

    classes: dict[ClassName, SchedulingClass] = {}
    """The classes by name."""

    @model_validator(mode="after")
    def _known(self) -> "Scheduling":
        self.defaults.check_known(list(self.classes))
        return self

    def remarks(self) -> list[Remark]:
        """Return a remark for each class that no workload can get."""
        found = allowed_in_vain(self.allow, self.classes, "no class is called {pattern}; the classes are {known}")
        return [*super().remarks(), *found]
