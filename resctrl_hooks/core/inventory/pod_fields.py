"""The fields that houses add to the pods of `list` and `show`: the value, and its place in text, tables and order."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, Field, create_model

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.parts import load, parts

_Model = TypeVar("_Model", bound=BaseModel)


def _no_cell(value: Any) -> str:
    return ""


def _no_lines(value: Any) -> Iterator[str]:
    yield from ()


class PodField(NamedTuple):
    """A field of a pod; its value is None while it is unknown.

    Args:
        name: its name, which is also that of its line in `show`.
        type: of a known value.
        description: for the JSON Schema.
        read: called once for an output, with the values of the options that houses add to the command; returns the
            function that returns the value of a `Pod`. A foreign group is a pod without a key.
        heading: of its column of numbers in ``list -o wide``, which is shown if a pod has a value.
        is_mark: whether that column is of texts, and also in the table without ``-o wide``.
        cell: returns its cell in that column.
        sort: its word in ``list --sort``, which begins with the largest value.
        line: returns the text of its line among the first lines of `show`.
        section: returns the lines of its section of `show`, with Rich's markup.
    """

    name: str
    type: Any
    description: str
    read: Callable[[Context, Mapping[str, Any]], Callable[[Any], Any]]
    heading: str = ""
    is_mark: bool = False
    cell: Callable[[Any], str] = _no_cell
    sort: str = ""
    line: Callable[[Any], str] = _no_cell
    section: Callable[[Any], Iterator[str]] = _no_lines


@cache
def pod_fields() -> tuple[PodField, ...]:
    """Return the fields of the pods of `list` and `show`."""
    return tuple(load(name) for part in parts() for name in part.pod_fields)


@cache
def details_fields() -> tuple[PodField, ...]:
    """Return the fields of the pods of `show` alone."""
    return tuple(load(name) for part in parts() for name in part.details)


def extended(fields: tuple[PodField, ...]) -> Callable[[type[_Model]], type[_Model]]:
    """Return a decorator that adds fields to a pydantic model, behind its own."""
    more: dict[str, Any] = {
        one.name: (one.type | None, Field(default=None, description=one.description)) for one in fields
    }

    def decorate(model: type[_Model]) -> type[_Model]:
        made: type[_Model] = create_model(
            model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__, **more
        )
        return made

    return decorate
