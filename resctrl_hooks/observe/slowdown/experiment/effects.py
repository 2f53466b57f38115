"""The result of an experiment with one limit, as it is printed."""

from pydantic import Field

from resctrl_hooks.core.inventory.base import Record
from resctrl_hooks.observe.node.slowdown.causes.remedy import L3, MB

from ..evidence import ON_DISK
from .proof import Proof
from .value_trial import OF_DISKS


class ClassEffect(Record):
    """What a limit changed for the pod; null without enough windows, and ``reason`` then says why."""

    rdt_class: str = Field(serialization_alias="class", description="The class; empty for a limit of pods.")
    sets: str = Field(default="mb", description="What was limited: mb, l3, cpu-weight, cpu-max or io-weight.")
    of: str = Field(default="", description="The class or the pods that were limited.")
    value: str = Field(default="", description="Their values.")
    limited_value: str = Field(default="", description="Their values in the limited windows.")
    declared: dict[int, int] = Field(description="MB values of the class by L3 domain.")
    limited: dict[int, int] = Field(description="Its MB values in the limited windows.")
    windows: int = Field(description="Number of measured windows, limited or not.")
    unit: str = Field(description="Unit of the costs.")
    cost_off: float | None = Field(description="Mean cost of the pod's work without the limit.")
    cost_on: float | None = Field(description="The same with the limit.")
    ratio_off: float | None = Field(description="`costOff` divided by the pod's baseline; null without a baseline.")
    ratio_on: float | None = Field(description="The same with the limit.")
    effect: float | None = Field(description="Relative change of the cost by the limit: -0.35 is a cost lower by 35 %.")
    effect_low: float | None = Field(description="Lower bound of the 95 % confidence interval.")
    effect_high: float | None = Field(description="Upper bound of the 95 % confidence interval.")
    reason: str


def effect_of_class(proof: Proof, unit: str, normal: float | None) -> ClassEffect:
    """Return what the experiment showed of a limit; ``normal`` is the pod's cost in quiet times, None if unknown."""
    effect = proof.effect
    if proof.sets in OF_DISKS:
        unit, normal = ON_DISK, None
    return ClassEffect(
        rdt_class=proof.name if proof.sets in (MB, L3) else "",
        sets=proof.sets,
        of=proof.name,
        value=proof.values,
        limited_value=proof.limited,
        declared=proof.declared,
        limited=proof.floor,
        windows=effect.windows if effect else 0,
        unit=unit,
        cost_off=effect.off if effect else None,
        cost_on=effect.on if effect else None,
        ratio_off=effect.off / normal if effect and normal else None,
        ratio_on=effect.on / normal if effect and normal else None,
        effect=effect.effect if effect else None,
        effect_low=effect.low if effect else None,
        effect_high=effect.high if effect else None,
        reason=proof.reason,
    )
