"""The ``placement`` section."""

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, model_validator

from resctrl_hooks.node.cpusets import parse_list

from .section import AbsolutePath, Allow, FailurePolicy, FeatureSection, Pattern, Section, unique_names, wrong

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


Cpus = Annotated[str, AfterValidator(_cpus)]
"""A list of CPUs or memory nodes, as the kernel writes it."""


class Pool(Section):
    """One pool of the policy `pools`."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,62})$")]
    """What annotations and `allow` call it."""

    cpus: Annotated[Cpus, Field(min_length=1)]
    """Its CPUs."""

    mems: Cpus = ""
    """Its memory nodes; by default those of its CPUs."""

    namespaces: list[Pattern] = []
    """The namespaces whose containers run in it; the first pool that fits counts."""


class Placement(FeatureSection):
    """CPUs and memory nodes of containers. Off unless `enabled` is true."""

    served_by: ClassVar[tuple[str, ...]] = ("placement",)

    failure_policy: FailurePolicy | None = None
    """What it means that a container can't be placed as it asks: with `ignore` it shares CPUs, with `fail` it is
    refused. Without it the general `failurePolicy` holds."""

    enabled: bool = False
    """Whether hooks do this at all."""

    policy: Annotated[str, AfterValidator(_policy)] = "topology-aware"
    """Who decides: `topology-aware`, `pools`, or the path of a root-owned Python file with a function `choose`."""

    namespaces: list[Pattern] = []
    """Only containers of these namespaces are placed. Empty means all, and those of no namespace too."""

    allow: Allow = {}
    """Which namespaces may have `exclusive`, `isolated` and `reserved` CPUs, and which pools by annotation:
    `{namespace pattern: [exclusive, POOL]}`. By default none."""

    reserved_cpus: Cpus = ""
    """CPUs for the system, which no other container gets."""

    reserved_namespaces: list[Pattern] = []
    """Namespaces whose containers run on the reserved CPUs, such as kube-system."""

    pin_memory: bool = True
    """Whether containers are also bound to the memory near their CPUs."""

    pools: Annotated[list[Pool], AfterValidator(unique_names)] = []
    """The pools of the policy `pools`. CPUs of none of them are the pool `default`."""

    kubelet_path: AbsolutePath = "/var/lib/kubelet"
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
