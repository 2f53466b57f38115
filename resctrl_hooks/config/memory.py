"""``classes`` as in the memtierd NRI plugin, and the ``memory`` section, which defines permissions for them."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from resctrl_hooks.node.classes.memory import LIMITS
from resctrl_hooks.node.feature_table import FEATURES
from resctrl_hooks.node.host.cpulist import parse_list
from resctrl_hooks.node.names import matches
from resctrl_hooks.nri.memory_policy import FLAGS, MAX_DISTANCE, MODES, WORDS

from .memtierd import check_template
from .nri import ClassDevice, ClassMount, Environment
from .section import (
    ONE_OR_LIST,
    Allow,
    FailurePolicy,
    FeatureSection,
    KeyPath,
    OneNumber,
    Remark,
    Section,
    in_any_case,
    wrong,
)

_DEFAULTS = FEATURES["memory"].defaults
_POLICY = (
    "only the NRI plugin can set a memory policy, with a runtime that has NRI 0.12; hooks cannot. `placement.pools` "
    "with `mems` binds memory with both"
)


def _nodes(words: str) -> str:
    """Return the nodes as written, if they are valid."""
    try:
        if words not in WORDS and not (words.startswith(MAX_DISTANCE) and words[len(MAX_DISTANCE) :].isdecimal()):
            parse_list(words)
    except ValueError as error:
        raise wrong(f"{words[:80]!r} names no nodes", f"use {', '.join(WORDS)}, max-dist:N or a list") from error
    return words


class MemoryPolicy(Section):
    """A memory policy as in the NRI plugin memory-policy: set_mempolicy(2) for the container's processes."""

    mode: Literal[MODES]  # type: ignore[valid-type]  # the names are those of the node half
    """The mode."""

    nodes: Annotated[str, OneNumber, AfterValidator(_nodes), ONE_OR_LIST] = "allowed-mems"
    """NUMA nodes: a list such as `0-1`, `all`, `allowed-mems` (those of the container), `cpu-nodes` or `cpu-packages`
    (those of its CPUs), or `max-dist:N` (at most the distance N from its CPUs). Nodes that the container may not use
    are left out."""

    flags: list[Literal[FLAGS]] = []  # type: ignore[valid-type]  # as above
    """Flags of the mode."""


class MemoryClass(Section):
    """A memory class, selected by the annotation `class.memtierd.nri.io`.

    Keys can be written in any case, as in the NRI plugin.
    """

    name: Annotated[str, Field(min_length=1)]
    """The class name in the annotation."""

    allowswap: bool | None = None
    """true sets memory.swap.max to max, false to 0; without it, the runtime's setting is kept."""

    memtierdconfig: Annotated[str, AfterValidator(check_template)] | None = None
    """Configuration of a memtierd instance for the container. `$CGROUP2_ABS_PATH` and `$MEMTIERD_SWAP_STATS_PATH` are
    replaced. memtierd runs the commands in it as root."""

    swaplimitratio: Annotated[float, Field(ge=0, le=1)] | None = None
    """As in the memory-qos NRI plugin: memory.high is `limit * (1 - swaplimitratio)`, memory.swap.max is
    max."""

    policy: MemoryPolicy | None = None
    """Memory policy of its containers. Only the NRI plugin sets it, with NRI 0.12, if `nri.allow` permits it."""

    env: Environment = {}
    """Environment variables of its containers. Only the NRI plugin sets them, if `nri.allow` permits them."""

    mounts: list[ClassMount] = []
    """Directories and files of the host to mount in its containers; same conditions as `env`."""

    devices: list[ClassDevice] = []
    """Devices of the host for its containers; same conditions as `env`."""

    @model_validator(mode="before")
    @classmethod
    def _any_case(cls, data: Any) -> Any:
        return in_any_case(data, list(cls.model_fields))

    def remarks(self) -> list[Remark]:
        """Return remarks for errors that memtierd itself would not notice."""
        at: KeyPath = ("memtierdconfig",)
        found = []
        if self.policy is not None:
            found.append(Remark(("policy",), _POLICY))
        if self.memtierdconfig and "$CGROUP2_ABS_PATH" not in self.memtierdconfig:
            found.append(
                Remark(at, "the template does not use $CGROUP2_ABS_PATH, so memtierd cannot find the container")
            )
        if self.memtierdconfig and self.allowswap is False and "swapoutms" in self.memtierdconfig:
            found.append(Remark(at, "memtierd swaps out, but allowswap is false: swapping can never succeed"))
        return found


def _limits(allow: Allow) -> Allow:
    for namespace, patterns in allow.items():
        for place, pattern in enumerate(patterns):
            if not any(matches(pattern, limit) for limit in LIMITS):
                what = f"{pattern!r} matches no limit"
                raise wrong(what, f"the limits are {' and '.join(LIMITS)}", at=(namespace, place))
    return allow


class Memory(FeatureSection):
    """Memory classes. On if `classes` contains a class."""

    failure_policy: FailurePolicy | None = None
    """Failure policy if a class or limit cannot be applied. Default: `fail`, because a workload must not run unnoticed
    with the wrong memory policy."""

    allow: Allow = _DEFAULTS["allow"]
    """Classes of `classes` that each namespace may use: `{namespace pattern: [class patterns]}`."""

    allow_limits: Annotated[Allow, AfterValidator(_limits)] = {}
    """Limits that each namespace may set by annotation: `{namespace pattern: [memory.high, memory.swap.max]}`. Default:
    none."""
