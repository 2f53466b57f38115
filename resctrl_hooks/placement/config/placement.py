"""The ``placement`` section."""

import re
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, model_validator

from resctrl_hooks.core.config.classes import allowed_in_vain
from resctrl_hooks.core.config.section import (
    AbsolutePath,
    Allow,
    FailurePolicy,
    FeatureSection,
    KeyPath,
    NamespacePattern,
    Remark,
    Section,
    unique_names,
    wrong,
)
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.host.cpulist import format_list, parse_list
from resctrl_hooks.core.node.host.files import read_kernel_file
from resctrl_hooks.core.node.names import matches
from resctrl_hooks.placement.node.cpu_classes import DEFAULT_CLASS

from .cpu_classes import CpuClass
from .pools import KINDS, Cpus, Pool

if TYPE_CHECKING:
    from resctrl_hooks.core.config.machine import Machine

_NUMBER = re.compile(r"exclusive:([0-9]{1,5}|\*)")
_DEFAULT_POOL = "default"
_OURS = ("topology-aware", "pools")


def _policy(value: str) -> str:
    if value not in _OURS and (not value.startswith("/") or "/../" in value):
        raise wrong(f"unknown policy {value!r}", f"write {' or '.join(_OURS)}, or the path of a policy's file")
    return value


_DEFAULTS = FEATURES["placement"].defaults


class Placement(FeatureSection):
    """CPUs and memory nodes of containers. Off by default."""

    failure_policy: FailurePolicy | None = None
    """Failure policy if a container cannot be placed as requested: with `ignore` it shares CPUs, with `fail` it is
    rejected. Default: the general `failurePolicy`."""

    enabled: bool = _DEFAULTS["enabled"]
    """Whether the feature is enabled."""

    policy: Annotated[str, AfterValidator(_policy)] = _DEFAULTS["policy"]
    """The placement policy: `topology-aware`, `pools`, or the path of a root-owned Python file with a function
    `choose`."""

    namespaces: list[NamespacePattern] = []
    """Only containers of these namespaces are placed. Empty means all, including containers without a namespace."""

    allow: Allow = {}
    """Annotation values that each namespace may use: `{namespace pattern: [exclusive, POOL]}`. Default: none. They are
    kinds of CPUs (`exclusive`, `isolated`, `reserved`), `preserve` (no placement), pools and CPU classes
    (`class:NAME`). `exclusive` permits the number of whole CPUs in the container's request; `exclusive:8` permits up to
    8, also without a request."""

    reserved_cpus: Cpus = ""
    """CPUs reserved for the system; other containers do not get them."""

    reserved_namespaces: list[NamespacePattern] = []
    """Namespaces whose containers run on the reserved CPUs, such as kube-system."""

    prefer_isol_cpus: bool = _DEFAULTS["preferIsolCpus"]
    """Whether exclusive CPUs are taken from the kernel's isolated CPUs while some are free. The annotation
    `prefer-isolated-cpus.resource-policy.nri.io: "false"` excludes a container."""

    pin_memory: bool = _DEFAULTS["pinMemory"]
    """Whether containers are also bound to the memory near their CPUs."""

    pools: Annotated[list[Pool], AfterValidator(unique_names)] = []
    """The pools of the policy `pools`. All other CPUs form the pool `default`."""

    cpu_classes: Annotated[list[CpuClass], AfterValidator(unique_names)] = []
    """Classes of CPUs: frequency limits, governor, energy preference, C-states."""

    idle_cpu_class: str = ""
    """The class of CPUs without a placed container. It does not apply to reserved and isolated CPUs."""

    turbo_domain: Literal["package", "system"] = _DEFAULTS["turboDomain"]
    """Where `turboPriority` of classes applies: in each package, or on the whole node."""

    kubelet_path: AbsolutePath = _DEFAULTS["kubeletPath"]
    """The kubelet's state directory. Placement is inactive if it contains the state of a static CPU or memory
    manager."""

    cdi_path: AbsolutePath = _DEFAULTS["cdiPath"]
    """The folder with the CDI files of dra-driver-cpu. Placement does not assign CPUs that such a file lists."""

    irqbalance_path: AbsolutePath = _DEFAULTS["irqbalancePath"]
    """The folder of irqbalance's socket. Through it, placement keeps irqbalance off the CPUs that get no interrupts."""

    @model_validator(mode="after")
    def _apart(self) -> "Placement":
        taken = parse_list(self.reserved_cpus)
        for index, pool in enumerate(self.pools):
            cpus = parse_list(pool.cpus or "")
            if cpus & taken:
                raise wrong(
                    f"pool {pool.name} contains reserved CPUs or CPUs of another pool",
                    "give each CPU to one pool only",
                    at=("pools", index, "cpus"),
                )
            taken |= cpus
        known = [one.name for one in self.cpu_classes]
        asked: list[tuple[KeyPath, str]] = [(("idleCpuClass",), self.idle_cpu_class)]
        asked += [(("pools", index, "cpuClass"), pool.cpu_class) for index, pool in enumerate(self.pools)]
        for at, name in asked:
            if name and name not in known:
                raise wrong(f"unknown CPU class {name!r}", f"the classes are {', '.join(known) or 'none'}", at=at)
        if self.policy == "pools" and not self.pools:
            raise wrong("the policy pools needs pools", "add placement.pools", at=("policy",))
        return self

    def remarks(self) -> list[Remark]:
        """Return a remark for each allowed name that does not exist.

        The pools of external policies are unknown here.
        """
        found = super().remarks()
        if self.policy not in _OURS:
            return found
        pools = [*(pool.name for pool in self.pools), _DEFAULT_POOL] if self.pools else []
        if self.pools and self.policy != "pools":
            found.append(Remark(("pools",), "pools require the policy `pools`; set `policy: pools`"))
        used = {self.idle_cpu_class, DEFAULT_CLASS, *(pool.cpu_class for pool in self.pools)}
        found += [
            Remark(
                ("cpuClasses", index),
                f"no pool, idleCpuClass or `allow` uses CPU class {one.name}",
            )
            for index, one in enumerate(self.cpu_classes)
            if one.name not in used
            and not any(matches(entry, f"class:{one.name}") for entries in self.allow.values() for entry in entries)
        ]
        classes = [f"class:{one.name}" for one in self.cpu_classes]
        text = "{pattern} matches nothing; available: {known}"
        numbers = {entry for entries in self.allow.values() for entry in entries if _NUMBER.fullmatch(entry)}
        return found + allowed_in_vain(self.allow, [*KINDS, *pools, *classes, *sorted(numbers)], text)

    def remarks_here(self, machine: "Machine") -> list[Remark]:
        """Return a remark for CPUs that this machine cannot have, hot-plug included.

        Source: sysfs-devices-system-cpu, ``possible``.
        """
        try:
            possible = read_kernel_file(f"{machine.sys_path}/devices/system/cpu/possible").decode().strip()
            there = parse_list(possible)
        except (OSError, ValueError):
            return []
        sets: list[tuple[KeyPath, str]] = [(("reservedCpus",), self.reserved_cpus)]
        sets += [(("pools", place, "cpus"), pool.cpus or "") for place, pool in enumerate(self.pools)]
        return [
            Remark(at, f"this machine has no CPU {format_list(missing)}, only {possible}")
            for at, cpus in sets
            if (missing := parse_list(cpus) & ~there)
        ]


class PlacementKeys(Section):
    """The key of the top level."""

    placement: Placement = Placement()
