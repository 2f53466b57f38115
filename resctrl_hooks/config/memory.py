"""``classes`` as in the memtierd NRI plugin, and the ``memory`` section, which defines permissions for them."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from resctrl_hooks.node.classes.memory import LIMITS
from resctrl_hooks.node.feature_table import FEATURES
from resctrl_hooks.node.names import matches

from .memtierd import check_template
from .nri import ClassDevice, ClassMount, Environment
from .section import Allow, FailurePolicy, FeatureSection, KeyPath, Remark, Section, in_any_case, wrong

_DEFAULTS = FEATURES["memory"].defaults
_POLICY = (
    "ignored: only a process can set its own memory policy (set_mempolicy); `placement.pools` with `mems` binds memory"
)


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
    """As in the memory-qos NRI plugin: memory.high is the memory limit times 1 minus this, memory.swap.max is max."""

    policy: Any = Field(default=None, exclude=True)
    """Ignored: a key of the memory-policy NRI plugin."""

    env: Environment = {}
    """Environment variables of its containers. Only the NRI plugin sets them, for the namespaces in `nri.allow`."""

    mounts: list[ClassMount] = []
    """Directories and files of the host to mount in its containers; conditions as for `env`."""

    devices: list[ClassDevice] = []
    """Devices of the host for its containers; conditions as for `env`."""

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
    """Failure policy if a class or limit cannot be applied. Default: `memtierd.failurePolicy`, else `fail`, as in the
    NRI plugin: a workload must not run unnoticed with the wrong memory policy."""

    allow: Allow = _DEFAULTS["allow"]
    """Classes of `classes` that each namespace may use: `{namespace pattern: [class patterns]}`."""

    allow_limits: Annotated[Allow, AfterValidator(_limits)] = {}
    """Limits that each namespace may set by annotation: `{namespace pattern: [memory.high, memory.swap.max]}`. Default:
    none."""
