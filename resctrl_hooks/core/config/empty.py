"""Null in a configuration, such as ``nolimit:`` without a value: the empty mapping or list of that place."""

from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

_UNIONS = (Union, UnionType)


def filled(kind: Any, value: Any) -> Any:
    """Return a value of an annotated type with an empty mapping or list in place of each null below it.

    A text or a number has no empty value, so its null stays for validation to refuse.
    """
    for one in _members(kind):
        if isinstance(value, dict) and get_origin(one) is dict:
            inner = get_args(one)[1]
            return {key: _item(inner, item) for key, item in value.items()}
        if isinstance(value, list) and get_origin(one) is list:
            (inner,) = get_args(one)
            return [_item(inner, item) for item in value]
    return value


def _item(kind: Any, value: Any) -> Any:
    if value is not None:
        return filled(kind, value)
    members = _members(kind)
    if type(None) in members:
        return None
    for one in members:
        if get_origin(one) is list:
            return []
        if get_origin(one) is dict or (isinstance(one, type) and issubclass(one, BaseModel)):
            return {}
    return None


def _members(kind: Any) -> list[Any]:
    """Return the alternatives of a type, without annotations."""
    if get_origin(kind) is Annotated:
        return _members(get_args(kind)[0])
    if get_origin(kind) in _UNIONS:
        return [member for one in get_args(kind) for member in _members(one)]
    return [kind]
