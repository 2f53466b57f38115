"""The ``rdt`` section."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from resctrl_hooks.node.classes.choice import NO_CLASS
from resctrl_hooks.node.feature_table import FEATURES
from resctrl_hooks.node.features.rdt_class import ROOT_NAMES
from resctrl_hooks.node.names import valid_class
from resctrl_hooks.node.resctrl.bandwidth_unit import parse_amount
from resctrl_hooks.node.resctrl.schemata import MANAGED, MASKS
from resctrl_hooks.node.slowdown.constants import SLOWED

from .classes import SectionOfClasses, allowed_in_vain
from .section import ClassName, Duration, KeyPath, Remark, Section, wrong

_RESOURCE = re.compile("(L2|L3|MB|SMBA|GMB|GSMBA)(_[A-Z0-9_]+)?")  # with those of kernels to come
_MASK = re.compile(r"(0[xX])?([0-9a-fA-F]{1,16})")
_WHOLE = 100
_SIMPLE = re.compile(r"[0-9]{1,3}%")
_SHARE = re.compile(r"(?:([0-9]{1,2}|100)-)?([0-9]{1,2}|100)%")

ROOT_CLASS = "/"
_DOMAIN = re.compile(r"[0-9]{1,6}")


def _domain(value: str) -> str:
    if not _DOMAIN.fullmatch(value):
        raise wrong(f"{value!r} is not a domain", 'write its number from schemata in quotes: "0"')
    return value


Domain = Annotated[str, AfterValidator(_domain), WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,6}$"})]


def _mask(value: str) -> str:
    if share := _SHARE.fullmatch(value):
        first, last = int(share[1] or 1), int(share[2])
        if not last:
            raise wrong(f"{value!r} allocates no cache", "per cents count from 1 to 100")
        if first > last:
            raise wrong(f"{value!r} ends before it begins", f'write the smaller per cent first: "{last}-{first}%"')
        return value
    mask = _MASK.fullmatch(value)
    if not mask:
        raise wrong(
            f"{value!r} is not a mask of cache ways",
            'write it in hexadecimal digits and quotes, such as "ff0", or a share: "60%"',
        )
    if not int(mask[2], 16):
        raise wrong("an empty mask allocates no cache", "set a bit for each way of the cache")
    return mask[2].lower()


Mask = Annotated[str, AfterValidator(_mask)]


def _bandwidth(value: Any, at: KeyPath) -> None:
    if isinstance(value, str):
        amount = parse_amount(value)
        if amount is None or not amount[0]:
            raise wrong(f"{value!r} is not a bandwidth", f"write {_BANDWIDTHS}", at=at)
    elif isinstance(value, bool) or not isinstance(value, int):
        raise wrong(f"{value!r} is not a bandwidth", f"write {_BANDWIDTHS}", at=at)
    elif value < 1:
        raise wrong(f"{value} should be at least 1", at=at)


def _bandwidths(value: Any) -> Any:
    """Check a bandwidth, a list of alternatives, or a mapping of either by domain."""
    by_domain = value if isinstance(value, dict) else {None: value}
    for key, alternatives in by_domain.items():
        at: KeyPath = () if key is None else (_domain(key),)
        if alternatives == []:
            raise wrong("the list is empty", f"write {_BANDWIDTHS}", at=at)
        for number, one in enumerate(alternatives if isinstance(alternatives, list) else [alternatives]):
            _bandwidth(one, (*at, number) if isinstance(alternatives, list) else at)
    return value


_BANDWIDTHS = 'a number, "50%", "2000MBps" or "2GBps"'
_ONE = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "^[0-9]+ *(%|MBps|GBps)$"}]}
_SOME = {"anyOf": [*_ONE["anyOf"], {"type": "array", "items": _ONE, "minItems": 1}]}
_BY_DOMAIN = {"type": "object", "additionalProperties": _SOME}
Bandwidth = Annotated[Any, AfterValidator(_bandwidths), WithJsonSchema({"anyOf": [*_SOME["anyOf"], _BY_DOMAIN]})]

_GUARD = FEATURES["rdt"].defaults["guard"]


class RdtClass(Section):
    """Limits of one class, for all domains or by domain. A missing key leaves the kernel's value unchanged."""

    l3: Mask | dict[Domain, Mask] | None = Field(default=None, alias="L3")
    """Ways of the L3 cache: a hexadecimal mask, a share from the lowest way (`60%`), or a range (`41-100%`)."""

    l3code: Mask | dict[Domain, Mask] | None = Field(default=None, alias="L3CODE")
    """Same as L3, for code; requires the mount option cdp."""

    l3data: Mask | dict[Domain, Mask] | None = Field(default=None, alias="L3DATA")
    """Same as L3, for data; requires the mount option cdp."""

    l2: Mask | dict[Domain, Mask] | None = Field(default=None, alias="L2")
    """Ways of the L2 cache."""

    l2code: Mask | dict[Domain, Mask] | None = Field(default=None, alias="L2CODE")
    """Same as L2, for code; requires the mount option cdpl2."""

    l2data: Mask | dict[Domain, Mask] | None = Field(default=None, alias="L2DATA")
    """Same as L2, for data; requires the mount option cdpl2."""

    mb: Bandwidth | None = Field(default=None, alias="MB")
    """Memory bandwidth. A number is in the unit of the mount: per cent (Intel), MB/s (with `mba_MBps`) or 1/8 GB/s
    (AMD). `50%`, `2000MBps` and `2GBps` are converted. In a list, the first value that the mount supports applies."""

    smba: Bandwidth | None = Field(default=None, alias="SMBA")
    """Bandwidth of slow memory, same values as MB."""

    exclusive: bool = False
    """Whether only this class may use its ways. The root class loses them. Shares of exclusive classes do not
    overlap."""

    optional: bool = False
    """Whether limits of resources and domains that a node does not have are left out there, so that one file is for
    different nodes. Without this key, `rdt apply` refuses such a class."""

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


def _class_or_root(name: str) -> str:
    if name != ROOT_CLASS and not valid_class(name):
        raise wrong(f"{name!r} is not a valid class name", "write one part of a path, or / for the root class")
    return name


def _floor(value: Any) -> Any:
    _bandwidth(value, ())
    return value


Floor = Annotated[Any, AfterValidator(_floor), WithJsonSchema(_ONE)]


class Throttle(Section):
    """Limit down to which the guard may lower one class."""

    floor: Floor
    """Lower limit: "2000MBps", or per cent (20 or "20%"). On AMD it is per cent of `monitoring.capacity`."""


Share = Annotated[float, Field(gt=0, le=1)]


def _mode(value: Any) -> Any:
    return "off" if value is False else value  # YAML reads a bare off as false


ProtectedClass = Annotated[str, AfterValidator(_class_or_root)]


class Protection(Section):
    """When the guard acts for one class."""

    slowdown: Annotated[float, Field(ge=SLOWED, le=10)] | None = None
    """Ratio such as 1.2: the guard acts if memory bandwidth slows a pod of the class by this factor, at any load.
    Needs `slowdown.enabled`. Without this key, the guard acts at the load `high`."""


class Guard(Section):
    """Lowers the MB values of classes in `throttle` while the bandwidth of a memory domain is used up."""

    mode: Annotated[Literal["off", "observe", "act"], BeforeValidator(_mode)] = _GUARD["mode"]
    """`observe` logs what `act` would write. `act` is experimental."""

    protect: list[ProtectedClass] | dict[ProtectedClass, Protection] = []
    """Classes that the guard protects and never lowers: a list, or a mapping that sets a `slowdown` for some of
    them."""

    throttle: dict[ClassName, Throttle] = {}
    """Classes that the guard may lower, in this order."""

    high: Share = _GUARD["high"]
    """Load of a memory domain at which classes are lowered."""

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


class Rdt(SectionOfClasses):
    """RDT classes of containers without a class from their runtime. Off by default."""

    classes: dict[Annotated[str, AfterValidator(_class_or_root)], RdtClass] = {}
    """Classes that `resctrl-hook rdt apply` creates, with their limits. Hooks do not create classes. `/` is the root
    class."""

    guard: Guard = Guard()
    """Limits the bandwidth of some classes while protected classes need it."""

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
