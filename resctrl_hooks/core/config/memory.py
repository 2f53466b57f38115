"""``classes`` as in the memtierd NRI plugin, and the ``memory`` section, which defines permissions for them."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from resctrl_hooks.core.node.classes.memory import LIMITS
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.names import matches

from .added_keys import with_added_keys
from .memtierd import check_template
from .section import (
    Allow,
    FailurePolicy,
    FeatureSection,
    KeyPath,
    Remark,
    Section,
    in_any_case,
    wrong,
)

_DEFAULTS = FEATURES["memory"].defaults


@with_added_keys("classes")
class MemoryClass(Section):
    """A memory class, selected by the annotation `class.memtierd.nri.io`. The case of keys does not matter."""

    name: Annotated[str, Field(min_length=1)]
    """The class name in the annotation."""

    allowswap: bool | None = None
    """true sets memory.swap.max to max, false to 0."""

    memtierdconfig: Annotated[str, AfterValidator(check_template)] | None = None
    """Configuration of memtierd for the container. memtierd runs the commands in this text as root."""

    swaplimitratio: Annotated[float, Field(ge=0, le=1)] | None = None
    """memory.high is `limit * (1 - swaplimitratio)`, memory.swap.max is max."""

    @model_validator(mode="before")
    @classmethod
    def _any_case(cls, data: Any) -> Any:
        return in_any_case(data, list(cls.model_fields))

    def is_of_memtierd(self) -> bool:
        """Return whether it may be a class of the memtierd plugin."""
        return self.swaplimitratio is None

    def remarks(self) -> list[Remark]:
        """Return remarks for errors that memtierd itself would not notice."""
        at: KeyPath = ("memtierdconfig",)
        found = []
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
    """Failure policy of classes, limits and memtierd. Default: `fail`."""

    allow: Allow = _DEFAULTS["allow"]
    """Classes that each namespace may use: `{namespace pattern: [class patterns]}`."""

    allow_limits: Annotated[Allow, AfterValidator(_limits)] = {}
    """Limits that each namespace may set by annotation: `{namespace pattern: [memory.high, memory.swap.max]}`."""
