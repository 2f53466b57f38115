"""The section ``guard`` of ``rdt``."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from resctrl_hooks.core.config.rdt_values import ClassOrRoot, OneBandwidth
from resctrl_hooks.core.config.section import ClassName, Duration, Remark, Section, wrong
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.resctrl.bandwidth_unit import PER_CENT, convert, rounded
from resctrl_hooks.observe.node.slowdown.constants import SLOWED

if TYPE_CHECKING:
    from resctrl_hooks.core.config.machine import Machine

_GUARD = FEATURES["rdt"].defaults["guard"]
Share = Annotated[float, Field(gt=0, le=1)]


def _mode(value: Any) -> Any:
    return "off" if value is False else value  # YAML reads a bare off as false


class Throttle(Section):
    """Limit of the guard for one class."""

    floor: OneBandwidth
    """Lowest value: "2000MBps", or per cent (20 or "20%"); on AMD, per cent of the memory's bandwidth."""


class Protection(Section):
    """Condition on which the guard acts for one class."""

    slowdown: Annotated[float, Field(ge=SLOWED, le=10)] | None = None
    """Ratio such as 1.2 at which the guard acts, instead of the load `high`. Needs `slowdown.enabled`."""


class Guard(Section):
    """Lowers the MB values of classes in `throttle` while a memory domain is full."""

    mode: Annotated[Literal["off", "observe", "act"], BeforeValidator(_mode)] = _GUARD["mode"]
    """`observe` logs what `act` would write. `act` is experimental."""

    protect: list[ClassOrRoot] | dict[ClassOrRoot, Protection] = []
    """Protected classes: a list, or a mapping with a `slowdown` for some."""

    throttle: dict[ClassName, Throttle] = {}
    """Classes that the guard may lower, in this order."""

    high: Share = _GUARD["high"]
    """Load at which classes are lowered."""

    low: Share = _GUARD["low"]
    """Load below which lowered classes are raised again."""

    interval: Annotated[Duration, Field(ge=0.2, le=60)] = _GUARD["interval"]
    """Interval between two samples of the load."""

    @model_validator(mode="after")
    def _consistent(self) -> "Guard":
        if self.low >= self.high:
            raise wrong(f"low ({self.low:g}) is not below high ({self.high:g})", "leave a gap, such as 0.70 and 0.85")
        both = sorted({*self.protect} & {*self.throttle})
        if both:
            raise wrong(f"{both[0]!r} is protected and throttled", "name each class once")
        return self

    def remarks(self) -> list[Remark]:
        """Return a remark for a guard without effect."""
        if self.mode == "off" or (self.protect and self.throttle):
            return []
        return [Remark((), "the guard does nothing without classes in `protect` and `throttle`")]

    def remarks_here(self, machine: "Machine") -> list[Remark]:
        """Return a remark for each floor that this machine's kernel rounds."""
        mb = machine.abilities.bandwidths.get("MB") if self.throttle and machine.abilities else None
        if mb is None or mb.unit != PER_CENT:
            return []
        found = []
        for name, rule in self.throttle.items():
            number = convert(f"{rule.floor}%" if isinstance(rule.floor, int) else rule.floor, PER_CENT)[0]
            effective = rounded(max(number, mb.least), mb.step)
            if effective != number:
                text = f"the floor is {effective} on this machine, whose MB values are multiples of {mb.step}"
                found.append(Remark(("throttle", name, "floor"), text))
        return found


class RdtKeys(Section):
    """The guard's key in ``rdt``."""

    guard: Guard = Guard()
    """The bandwidth guard (experimental)."""
