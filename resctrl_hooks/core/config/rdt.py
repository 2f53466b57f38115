"""The ``rdt`` section."""

import re
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from resctrl_hooks.core.node.classes.choice import NO_CLASS
from resctrl_hooks.core.node.features.rdt_class import ROOT_NAMES
from resctrl_hooks.core.node.resctrl.schemata import MANAGED, MASKS
from resctrl_hooks.core.rdt.layout import lay_out

from .added_keys import with_added_keys
from .classes import SectionOfClasses, allowed_in_vain
from .rdt_values import ROOT_CLASS, Bandwidth, ClassOrRoot, Domain, Mask
from .section import Remark, Section, wrong

if TYPE_CHECKING:
    from .machine import Machine

_RESOURCE = re.compile("(L2|L3|MB|SMBA|GMB|GSMBA)(_[A-Z0-9_]+)?")  # with those of kernels to come
_WHOLE = 100
_SIMPLE = re.compile(r"[0-9]{1,3}%")


class RdtClass(Section):
    """Limits of one class, for all domains or by domain."""

    l3: Mask | dict[Domain, Mask] | None = Field(default=None, alias="L3")
    """Ways of the L3: a mask (`"00f"`), a share from the lowest way (`60%`), or a range (`41-100%`)."""

    l3code: Mask | dict[Domain, Mask] | None = Field(default=None, alias="L3CODE")
    """As L3, for code; needs the mount option cdp."""

    l3data: Mask | dict[Domain, Mask] | None = Field(default=None, alias="L3DATA")
    """As L3, for data; needs the mount option cdp."""

    l2: Mask | dict[Domain, Mask] | None = Field(default=None, alias="L2")
    """Ways of the L2 cache."""

    l2code: Mask | dict[Domain, Mask] | None = Field(default=None, alias="L2CODE")
    """As L2, for code; needs the mount option cdpl2."""

    l2data: Mask | dict[Domain, Mask] | None = Field(default=None, alias="L2DATA")
    """As L2, for data; needs the mount option cdpl2."""

    mb: Bandwidth | None = Field(default=None, alias="MB")
    """Memory bandwidth. A number is per cent (Intel), MB/s (with `mba_MBps`) or 1/8 GB/s (AMD). `50%`, `2000MBps` and
    `2GBps` are converted. In a list, the first possible value applies."""

    smba: Bandwidth | None = Field(default=None, alias="SMBA")
    """Bandwidth of slow memory; values as for `MB`."""

    exclusive: bool = False
    """Reserve the cache ways for this class."""

    optional: bool = False
    """Leave out limits that a node does not have. Otherwise `rdt apply` refuses the class there."""

    @model_validator(mode="before")
    @classmethod
    def _numbers_for_masks(cls, data: Any) -> Any:
        for name in data if isinstance(data, dict) else ():
            if _RESOURCE.fullmatch(str(name)) and name not in MANAGED:
                raise wrong(
                    "resctrl-hooks does not manage this resource and leaves its values unchanged",
                    f"remove it; the managed ones are {', '.join(MANAGED)}",
                    at=(name,),
                )
        # YAML reads 0xff and 11 as numbers, so the intended mask is unknown.
        for name in MASKS:
            value = data.get(name) if isinstance(data, dict) else None
            if isinstance(value, int):
                raise wrong(f"{value} is a number in YAML, not a mask", 'put it into quotes, such as "ff0"', at=(name,))
        return data


@with_added_keys("rdt")
class Rdt(SectionOfClasses):
    """RDT classes of containers without a class from their runtime. Off by default."""

    classes: dict[ClassOrRoot, RdtClass] = {}
    """Classes that `resctrl-hook rdt apply` creates. `/` is the root class."""

    @model_validator(mode="after")
    def _exclusive_shares(self) -> "Rdt":
        for resource in MASKS:
            values = [getattr(spec, resource.lower()) for spec in self.classes.values() if spec.exclusive]
            total = sum(int(value[:-1]) for value in values if isinstance(value, str) and _SIMPLE.fullmatch(value))
            if total >= _WHOLE:
                text = f"exclusive classes have {total}% of {resource} together, which leaves none to the root class"
                raise wrong(text, "reduce a share, or make a class not exclusive", at=("classes",))
        return self

    def remarks(self) -> list[Remark]:
        """Return a remark for undeclared classes. Without any declared class, other programs may create them."""
        found = super().remarks()
        if not self.classes:
            return found
        if found:
            found = [Remark((), f"{found[0].text}; `resctrl-hook rdt apply` creates the classes anyway")]
        known = [*self.classes, ROOT_CLASS]
        text = "`classes` does not declare {pattern}; another program must create it (declared: {known})"
        found += allowed_in_vain(self.allow, known, text, [NO_CLASS, *ROOT_NAMES])
        shown = ", ".join(self.classes)
        return found + [
            Remark(at, text.format(pattern=repr(name), known=shown)) for at, name in self.defaults.unknown(known)
        ]

    def remarks_here(self, machine: "Machine") -> list[Remark]:
        """Return a remark for each class that `rdt apply` would reject on this machine."""
        classes = self.given().get("classes", {})
        if not classes or machine.abilities is None:
            return []
        return [
            Remark(("classes", name), f"not supported on this machine: {what}", "warning")
            for name, problems in lay_out(classes, machine.abilities).problems.items()
            for what in problems
        ]
