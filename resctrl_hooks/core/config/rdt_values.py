"""Values of the ``rdt`` section: domains, masks of cache ways, bandwidths, and names of classes."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from resctrl_hooks.core.node.names import valid_class
from resctrl_hooks.core.node.resctrl.bandwidth_unit import parse_amount

from .section import KeyPath, wrong

_DOMAIN = re.compile(r"[0-9]{1,6}")
_MASK = re.compile(r"(0[xX])?([0-9a-fA-F]{1,16})")
_SHARE = re.compile(r"(?:([0-9]{1,2}|100)-)?([0-9]{1,2}|100)%")

ROOT_CLASS = "/"


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


def _one_bandwidth(value: Any) -> Any:
    _bandwidth(value, ())
    return value


OneBandwidth = Annotated[Any, AfterValidator(_one_bandwidth), WithJsonSchema(_ONE)]


def _class_or_root(name: str) -> str:
    if name != ROOT_CLASS and not valid_class(name):
        raise wrong(f"{name!r} is not a valid class name", "write one part of a path, or / for the root class")
    return name


ClassOrRoot = Annotated[str, AfterValidator(_class_or_root)]
