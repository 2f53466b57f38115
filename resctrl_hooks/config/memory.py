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


class MemoryClass(Section):
    """One class of workloads, chosen by the annotation `class.memtierd.nri.io`.

    The plugin reads keys in any case, so these are too.
    """

    name: Annotated[str, Field(min_length=1)]
    """What the annotation says."""

    allowswap: bool | None = None
    """true sets memory.swap.max to max, false to 0; without it swap stays as the runtime set it."""

    memtierdconfig: Annotated[str, AfterValidator(check_template)] | None = None
    """A configuration for a memtierd of the container's own. `$CGROUP2_ABS_PATH` and
    `$MEMTIERD_SWAP_STATS_PATH` in it are filled in. memtierd runs commands that it names, as root."""

    env: Environment = {}
    """Environment variables of its containers, set by the NRI plugin alone; `nri.allow` says for which namespaces."""

    mounts: list[ClassMount] = []
    """Folders and files of the host in its containers, as `env`."""

    devices: list[ClassDevice] = []
    """Devices of the host in its containers, as `env`."""

    @model_validator(mode="before")
    @classmethod
    def _any_case(cls, data: Any) -> Any:
        return in_any_case(data, list(cls.model_fields))

    def remarks(self) -> list[Remark]:
        """Return remarks for errors that memtierd itself would not notice."""
        at: KeyPath = ("memtierdconfig",)
        found = []
        if self.memtierdconfig and "$CGROUP2_ABS_PATH" not in self.memtierdconfig:
            found.append(Remark(at, "the template names no $CGROUP2_ABS_PATH, so memtierd will not find the container"))
        if self.memtierdconfig and self.allowswap is False and "swapoutms" in self.memtierdconfig:
            found.append(Remark(at, "memtierd is to swap out, but allowswap is false: it would try for ever, in vain"))
        return found


def _limits(allow: Allow) -> Allow:
    for namespace, patterns in allow.items():
        for place, pattern in enumerate(patterns):
            if not any(matches(pattern, limit) for limit in LIMITS):
                what = f"no limit is called {pattern!r}"
                raise wrong(what, f"the limits are {' and '.join(LIMITS)}", at=(namespace, place))
    return allow


class Memory(FeatureSection):
    """Memory classes. They are in use as soon as `classes` has one."""

    failure_policy: FailurePolicy | None = None
    """What a class or limit that can't be given means. Without it `memtierd.failurePolicy` holds, and without either
    `fail`: as in the plugin, a workload must not run with the wrong memory policy unnoticed."""

    allow: Allow = _DEFAULTS["allow"]
    """Which namespaces may have which of `classes`: `{namespace pattern: [class patterns]}`."""

    allow_limits: Annotated[Allow, AfterValidator(_limits)] = {}
    """Which namespaces may set memory.swap.max and memory.high themselves by annotation; by default none:
    `{namespace pattern: [memory.high, memory.swap.max]}`."""
