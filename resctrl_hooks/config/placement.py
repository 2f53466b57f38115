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
_KINDS = ("exclusive", "isolated", "reserved")
_DEFAULT_POOL = "default"
_OURS = ("topology-aware", "pools")


def _cpus(value: str) -> str:
    try:
        parse_list(value)
    except ValueError as error:
        raise wrong(f"{value!r} is no list of CPUs", "write it as the kernel does: 0-3,8") from error
    return value


def _policy(value: str) -> str:
    if value not in _OURS and (not value.startswith("/") or "/../" in value):
        raise wrong(f"there is no policy {value!r}", f"write {' or '.join(_OURS)}, or the path of a policy's file")
    return value


def _pool_name(value: str) -> str:
    if not _POOL_NAME.fullmatch(value):
        raise wrong(f"{value!r} can't be a pool", "use up to 63 letters, digits and _.-, and a letter or digit first")
    if value in _KINDS:
        raise wrong(f"{value!r} can't be a pool", "`allow` would mean these CPUs by that; use another name")
    return value


Cpus = Annotated[str, AfterValidator(_cpus)]
"""A list of CPUs or memory nodes, as the kernel writes it."""

_DEFAULTS = FEATURES["placement"].defaults


class Pool(Section):
    """One pool of the policy `pools`."""

    name: Annotated[str, AfterValidator(_pool_name), WithJsonSchema({"type": "string", "pattern": _POOL_NAME.pattern})]
    """What annotations and `allow` call it."""

    cpus: Annotated[Cpus, Field(min_length=1)]
    """Its CPUs."""

    mems: Cpus = ""
    """Its memory nodes; by default those of its CPUs."""

    namespaces: list[NamespacePattern] = []
    """The namespaces whose containers run in it; the first pool that fits counts."""


class Placement(FeatureSection):
    """CPUs and memory nodes of containers. Off unless `enabled` is true."""

    failure_policy: FailurePolicy | None = None
    """What it means that a container can't be placed as it asks: with `ignore` it shares CPUs, with `fail` it is
    refused. Without it the general `failurePolicy` holds."""

    enabled: bool = _DEFAULTS["enabled"]
    """Whether hooks do this at all."""

    policy: Annotated[str, AfterValidator(_policy)] = _DEFAULTS["policy"]
    """What decides: `topology-aware`, `pools`, or the path of a root-owned Python file with a function `choose`."""

    namespaces: list[NamespacePattern] = []
    """Only containers of these namespaces are placed. Empty means all, and those of no namespace too."""

    allow: Allow = {}
    """Which namespaces may have `exclusive`, `isolated` and `reserved` CPUs, and which pools by annotation:
    `{namespace pattern: [exclusive, POOL]}`. By default none."""

    reserved_cpus: Cpus = ""
    """CPUs for the system, which no other container gets."""

    reserved_namespaces: list[NamespacePattern] = []
    """Namespaces whose containers run on the reserved CPUs, such as kube-system."""

    pin_memory: bool = _DEFAULTS["pinMemory"]
    """Whether containers are also bound to the memory near their CPUs."""

    pools: Annotated[list[Pool], AfterValidator(unique_names)] = []
    """The pools of the policy `pools`. CPUs of none of them are the pool `default`."""

    kubelet_path: AbsolutePath = _DEFAULTS["kubeletPath"]
    """Where the kubelet keeps its managers' state: with a static CPU or memory manager there, nothing is placed."""

    @model_validator(mode="after")
    def _apart(self) -> "Placement":
        taken = parse_list(self.reserved_cpus)
        for index, pool in enumerate(self.pools):
            cpus = parse_list(pool.cpus)
            if cpus & taken:
                raise wrong(
                    f"pool {pool.name} has CPUs of another pool's or reserved ones",
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
            found.append(Remark(("pools",), "pools are for the policy `pools` alone; set `policy: pools`"))
        text = "there is nothing called {pattern} to be had; there are {known}"
        return found + allowed_in_vain(self.allow, [*_KINDS, *pools], text)
