"""The ``placement`` section."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from resctrl_hooks.node.feature_table import FEATURES
from resctrl_hooks.node.host.cpulist import parse_list

from .classes import allowed_in_vain
from .section import (
    AbsolutePath,
    Allow,
    FailurePolicy,
    FeatureSection,
    NamespacePattern,
    Remark,
    Section,
    unique_names,
    wrong,
)

_POOL_NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,62})$")
_KINDS = ("exclusive", "isolated", "reserved", "preserve")
_DEFAULT_POOL = "default"
_OURS = ("topology-aware", "pools")


def _cpus(value: str) -> str:
    try:
        parse_list(value)
    except ValueError as error:
        raise wrong(f"{value!r} is not a list of CPUs", "write it as the kernel does: 0-3,8") from error
    return value


def _policy(value: str) -> str:
    if value not in _OURS and (not value.startswith("/") or "/../" in value):
        raise wrong(f"unknown policy {value!r}", f"write {' or '.join(_OURS)}, or the path of a policy's file")
    return value


def _pool_name(value: str) -> str:
    if not _POOL_NAME.fullmatch(value):
        raise wrong(
            f"{value!r} is not a valid pool name",
            "use up to 63 letters, digits and _.-, starting with a letter or digit",
        )
    if value in _KINDS:
        raise wrong(f"{value!r} is not a valid pool name", "the name is reserved in `allow`; use another name")
    return value


Cpus = Annotated[str, AfterValidator(_cpus)]
"""A list of CPUs or memory nodes, as the kernel writes it."""

_DEFAULTS = FEATURES["placement"].defaults


class Pool(Section):
    """One pool of the policy `pools`."""

    name: Annotated[str, AfterValidator(_pool_name), WithJsonSchema({"type": "string", "pattern": _POOL_NAME.pattern})]
    """The pool's name in annotations and `allow`."""

    cpus: Annotated[Cpus, Field(min_length=1)]
    """CPUs of the pool."""

    mems: Cpus = ""
    """Memory nodes of the pool; default: those of its CPUs."""

    prefer_isol_cpus: bool = False
    """Whether exclusive CPUs of its containers are taken from the kernel's isolated CPUs, anywhere on the node, while
    some are free."""

    namespaces: list[NamespacePattern] = []
    """Namespaces whose containers run in the pool. The first matching pool applies."""


class Placement(FeatureSection):
    """CPUs and memory nodes of containers. Off unless `enabled` is true."""

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
    """Kinds of CPUs (`exclusive`, `isolated`, `reserved`), `preserve` (not to be placed) and pools that each namespace
    may request by annotation: `{namespace pattern: [exclusive, POOL]}`. Default: none."""

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

    kubelet_path: AbsolutePath = _DEFAULTS["kubeletPath"]
    """The kubelet's state directory. Placement is inactive if it contains the state of a static CPU or memory
    manager."""

    @model_validator(mode="after")
    def _apart(self) -> "Placement":
        taken = parse_list(self.reserved_cpus)
        for index, pool in enumerate(self.pools):
            cpus = parse_list(pool.cpus)
            if cpus & taken:
                raise wrong(
                    f"pool {pool.name} contains reserved CPUs or CPUs of another pool",
                    "give each CPU to one pool only",
                    at=("pools", index, "cpus"),
                )
            taken |= cpus
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
        text = "{pattern} matches nothing; available: {known}"
        return found + allowed_in_vain(self.allow, [*_KINDS, *pools], text)
