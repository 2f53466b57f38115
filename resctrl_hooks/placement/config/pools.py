"""The pools of the placement policy ``pools``."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from resctrl_hooks.core.config.section import ONE_OR_LIST, NamespacePattern, OneNumber, Section, wrong
from resctrl_hooks.core.node.host.cpulist import MOST_CPUS, parse_list
from resctrl_hooks.placement.node.expressions import references, unknown_key
from resctrl_hooks.placement.node.instances import CONTAINER, NAMESPACE, POD
from resctrl_hooks.placement.node.policy import DEFAULT_POOL

from .expressions import Expression

KINDS = ("exclusive", "isolated", "reserved", "preserve")
"""The names in `allow` that are not pools."""
_POOL_NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,62})$")


def _cpus(value: str) -> str:
    try:
        parse_list(value)
    except ValueError as error:
        raise wrong(f"{value!r} is not a list of CPUs", "write it as the kernel does: 0-3,8") from error
    return value


def _pool_name(value: str) -> str:
    if not _POOL_NAME.fullmatch(value):
        raise wrong(
            f"{value!r} is not a valid pool name",
            "use up to 63 letters, digits and _.-, starting with a letter or digit",
        )
    if value in KINDS:
        raise wrong(f"{value!r} is not a valid pool name", "the name is reserved in `allow`; use another name")
    return value


def _per(value: str) -> str:
    try:
        found = [key for _, key in references(value) if key]
    except ValueError as error:
        raise wrong(str(error), "write ${key}") from error
    if value not in ("", CONTAINER, POD, NAMESPACE) and not found:
        raise wrong(f"unknown group {value!r}", "write container, pod, namespace, or a text with ${key}")
    for key in found:
        if unknown_key(key):
            raise wrong(f"unknown key {unknown_key(key)!r} in {value!r}", "the keys are those of matchExpressions")
    return value


Cpus = Annotated[str, OneNumber, AfterValidator(_cpus), ONE_OR_LIST]
"""A list of CPUs or memory nodes, as the kernel writes it."""


class Pool(Section):
    """One pool, with one or several instances."""

    name: Annotated[str, AfterValidator(_pool_name), WithJsonSchema({"type": "string", "pattern": _POOL_NAME.pattern})]
    """Name in annotations and `allow`."""

    cpus: Annotated[Cpus, Field(min_length=1)] | None = None
    """CPUs of the pool. Default: CPUs that no pool lists."""

    min_cpus: Annotated[int, Field(ge=0, le=MOST_CPUS)] | None = None
    """With this key, the pool uses as many CPUs as containers request, but at least so many."""

    max_cpus: Annotated[int, Field(ge=0, le=MOST_CPUS)] | None = None
    """Largest number of CPUs of an instance; 0: no limit."""

    min_instances: Annotated[int, Field(ge=0, le=MOST_CPUS)] | None = None
    """Instances that exist without containers."""

    max_instances: Annotated[int, Field(ge=0, le=MOST_CPUS)] | None = None
    """Most instances; 0: no limit. Default: 0 with `instancePer`, else 1."""

    instance_per: Annotated[str, AfterValidator(_per)] = ""
    """An instance for each `container`, `pod`, `namespace`, or text such as `${pod/labels/app}`. Default: a new
    instance when all others are full."""

    spread: bool = False
    """Place a new instance where the most CPUs are free."""

    spread_cores: bool = False
    """Take one thread of each of many cores."""

    share_idle_cpus: Literal["system", "package", "die", "numa", "l3", "core"] | None = None
    """Containers also run on idle CPUs of the same part of the machine."""

    hide_hyperthreads: bool = False
    """Containers run on one thread of each core."""

    mems: Cpus = ""
    """Memory nodes. Default: those of the CPUs."""

    prefer_isol_cpus: bool = False
    """As `placement.preferIsolCpus`, also with isolated CPUs outside the pool."""

    cpu_class: str = ""
    """A class of `cpuClasses`, for the CPUs that the pool's containers use."""

    irq_mode: Literal["isolate"] | None = None
    """`isolate` keeps interrupts off the containers' CPUs."""

    namespaces: list[NamespacePattern] = []
    """Namespaces whose containers run in the pool."""

    match_expressions: list[Expression] = []
    """Conditions; a container that meets one runs in the pool."""

    @model_validator(mode="after")
    def _consistent(self) -> "Pool":
        self.check_order(("minCpus", "maxCpus"), ("minInstances", "maxInstances"))
        if self.name == DEFAULT_POOL and not self.cpus:
            raise wrong(
                "the pool default needs cpus", "without it, default has all CPUs that no pool uses", at=("cpus",)
            )
        return self
