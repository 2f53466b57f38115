"""The ``blockio`` section."""

import math
import re
from fractions import Fraction
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from .classes import SectionOfOwnClasses
from .section import ClassName, Section, by_key, in_any_case, wrong

_AMOUNT = re.compile(r"[1-9][0-9]{0,15}([kKMGT]i?)?")
_QUANTITY = re.compile(r"([0-9]{1,16}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(?:([kKMGTPE]i?)|[eE]([0-9]{1,2}))?")
_POWERS = ("", "K", "M", "G", "T", "P", "E")
_MOST = (1 << 63) - 1
_BRACKETS = re.compile(r"\[((?:[A-Za-z0-9](?:-[A-Za-z0-9])?)+)\]")
_RANGE = re.compile(r"(.)-(.)")
_MOST_BRACKETS = 2  # each matches 62 devices at most, which hooks try one by one


def _devices(patterns: list[str]) -> list[str]:
    for index, pattern in enumerate(patterns):
        folder, _, last = pattern.rpartition("/")
        if not pattern.startswith("/dev/") or not last or "/../" in pattern or any(c in folder for c in "*?["):
            raise wrong(
                f"{pattern!r} is not a device pattern",
                "write a path below /dev; use *, ? and brackets only in its last part",
                at=(index,),
            )
        brackets = _BRACKETS.findall(last)
        if (
            set(_BRACKETS.sub("", last)) & set("[]")
            or len(brackets) > _MOST_BRACKETS
            or any(low > high for inside in brackets for low, high in _RANGE.findall(inside))
        ):
            right = f"write letters, digits and ranges of them in at most {_MOST_BRACKETS} brackets: sd[a-dx]"
            raise wrong(f"{pattern!r} has invalid brackets", right, at=(index,))
    return patterns


def _amount(value: int | str) -> int | str:
    """Return an amount in a form that hooks read; fractions and exponents become the next whole number."""
    text = str(value)
    if _AMOUNT.fullmatch(text):
        return value
    found = _QUANTITY.fullmatch(text)
    amount = 0
    if found:
        number, unit, exponent = found.groups("")
        base = 1024 if unit.endswith("i") else 1000
        amount = math.ceil(Fraction(number) * base ** _POWERS.index(unit[:1].upper()) * 10 ** int(exponent or 0))
    if not 1 <= amount <= _MOST:
        raise wrong(f"{text!r} is not an amount", "write a number of 1 or more, with k, M, G or T, or Ki, Mi, Gi or Ti")
    return amount


Amount = Annotated[int | str, AfterValidator(_amount)]
"""A rate per second: a number such as `1.5M`, with k, M, G, T (powers of 1000) or Ki, Mi, Gi, Ti (powers of 1024)."""


class BlockioPart(Section):
    """Part of a class, as in goresctrl's files. The case of keys does not matter."""

    devices: Annotated[list[str], AfterValidator(_devices)] = []
    """Patterns of devices, such as `/dev/sd[a-d]` or `/dev/disk/by-id/*`. Without `devices`, `weight` applies to all
    devices."""

    throttle_read_bps: Amount | None = None
    """Bytes read per second: `50M` is 50 * 1000², `50Mi` is 50 * 1024²."""

    throttle_write_bps: Amount | None = None
    """Bytes written per second."""

    throttle_read_iops: Amount | None = None
    """Reads per second."""

    throttle_write_iops: Amount | None = None
    """Writes per second."""

    weight: Annotated[int, Field(ge=1, le=10000)] | None = None
    """io.weight, or io.bfq.weight (at most 1000)."""

    @model_validator(mode="before")
    @classmethod
    def _any_case(cls, data: Any) -> Any:
        return in_any_case(data, [*by_key(cls)])

    @model_validator(mode="after")
    def _somewhere(self) -> "BlockioPart":
        if not self.devices and self.model_fields_set - {"weight", "devices"}:
            raise wrong("limits need devices", "add devices", at=("devices",))
        return self


class Blockio(SectionOfOwnClasses):
    """Block I/O classes. Off by default."""

    classes: dict[ClassName, list[BlockioPart]] = {}
    """The classes by name. If several entries of a class match a device, the last applies."""

    @model_validator(mode="before")
    @classmethod
    def _as_goresctrl_has_it(cls, data: Any) -> Any:
        return in_any_case(data, ["classes"])
