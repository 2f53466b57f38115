"""Checks of files against the types of their records."""

import json
from collections.abc import Iterator
from typing import Any

from resctrl_hooks.core.node.shapes import Annotated, NotRequired, fits


def check(kind: Any, text: str | bytes) -> Any:
    """Check that JSON is of a type and has no other fields; return its value."""
    value = json.loads(text)
    assert fits(kind, value)
    assert list(_unknown(kind, value)) == []
    return value


def _unknown(kind: Any, value: Any) -> Iterator[str]:
    origin = getattr(kind, "__origin__", None)
    if hasattr(kind, "types") and type(value) is dict:
        yield from value.keys() - kind.types.keys()
        for key in value.keys() & kind.types.keys():
            yield from _unknown(kind.types[key], value[key])
    elif origin in (list, dict):
        for item in value.values() if type(value) is dict else value:
            yield from _unknown(kind.__args__[-1], item)
    elif origin in (Annotated, NotRequired):
        yield from _unknown(kind.__args__[0], value)


def check_fields(kind: Any, value: Any, *elsewhere: str) -> None:
    """Check that a type has a value's fields, and that it refuses each part of another type but those given by path."""
    assert fits(kind, value)
    assert list(_unknown(kind, value)) == []
    assert kind.types.keys() == value.keys()
    assert {path for path, other in _damaged(value) if fits(kind, other)} == {*elsewhere}
    for key in value:
        less = {name: item for name, item in value.items() if name != key}
        assert fits(kind, less) == (key not in kind.required)
    assert fits(kind, {**value, "added by a newer version": [{}]})


def _damaged(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the value with each of its parts replaced by one of another type, with that part's path."""
    yield path[1:], {str: 1, int: "1", float: "1", bool: "1", dict: [1], list: {"0": 1}, type(None): "1"}[type(value)]
    items = value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
    for key, item in items:
        for where, other in _damaged(item, f"{path}.{key}"):
            whole = value.copy()
            whole[key] = other
            yield where, whole
