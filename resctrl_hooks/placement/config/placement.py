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
    """Failure policy: with `ignore`, the container shares CPUs. Default: the general `failurePolicy`."""

    enabled: bool = _DEFAULTS["enabled"]
    """Whether the feature is enabled."""

    policy: Annotated[str, AfterValidator(_policy)] = _DEFAULTS["policy"]
    """`topology-aware`, `pools`, or the path of a root-owned Python file with a function `choose`."""

    namespaces: list[NamespacePattern] = []
    """Namespaces of the placed containers. Empty means all."""

    allow: Allow = {}
    """Annotation values that each namespace may use: `{namespace pattern: [exclusive, POOL]}`. Values are kinds of CPUs
    (`exclusive`, `isolated`, `reserved`), `preserve` (no placement), pools and CPU classes (`class:NAME`). `exclusive`
    permits the requested CPUs; `exclusive:8` up to 8, also without a request."""

    reserved_cpus: Cpus = ""
    """CPUs for the system."""

    reserved_namespaces: list[NamespacePattern] = []
    """Namespaces whose containers run on the reserved CPUs."""

    prefer_isol_cpus: bool = _DEFAULTS["preferIsolCpus"]
    """Take exclusive CPUs from the kernel's isolated CPUs first. The annotation
    `prefer-isolated-cpus.resource-policy.nri.io: "false"` excludes a container."""

    pin_memory: bool = _DEFAULTS["pinMemory"]
    """Also bind containers to the memory near the CPUs."""

    pools: Annotated[list[Pool], AfterValidator(unique_names)] = []
    """The pools of the policy `pools`. Other CPUs form the pool `default`."""

    cpu_classes: Annotated[list[CpuClass], AfterValidator(unique_names)] = []
    """Classes of CPUs: frequencies, governor, energy preference, C-states."""

    idle_cpu_class: str = ""
    """Class of CPUs without a placed container, except reserved and isolated CPUs."""

    turbo_domain: Literal["package", "system"] = _DEFAULTS["turboDomain"]
    """Where `turboPriority` applies."""

    kubelet_path: AbsolutePath = _DEFAULTS["kubeletPath"]
    """The kubelet's directory. The state of a static CPU or memory manager there turns placement off."""

    cdi_path: AbsolutePath = _DEFAULTS["cdiPath"]
    """Folder of CDI files of dra-driver-cpu, whose CPUs placement does not assign."""

    irqbalance_path: AbsolutePath = _DEFAULTS["irqbalancePath"]
    """Folder of irqbalance's socket, to keep interrupts off CPUs."""

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
