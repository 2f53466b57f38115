"""Common parts of all configuration sections: the model's rules, value types, and validation errors.

A new section is a module with a class that inherits `Section` (or `FeatureSection`, if a feature of the same name uses
it), and a line in `root.py` or, outside core, a model in `Part.keys`. A field's docstring is its description in the
schema and in the reference.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, WithJsonSchema, model_validator
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from resctrl_hooks.core.node.names import valid_class

from .empty import filled

if TYPE_CHECKING:
    from .machine import Machine

KeyPath = tuple[str | int, ...]
WRONG = "wrong"


@dataclass(frozen=True)
class Remark:
    """A remark on a valid value: its place and text."""

    at: KeyPath
    text: str
    severity: Literal["note", "warning"] = "note"


class Section(BaseModel):
    """A mapping in the configuration: camelCase keys, unknown ones refused, values never converted silently.

    A key without a value (``monitoring:``) means its default, as the NRI plugins' readers have it. A class or an item
    of a list without a value is empty.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        allow_inf_nan=False,
        extra="forbid",
        field_title_generator=lambda name, _: name.replace("_", " ").capitalize(),
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        fields = by_key(cls)
        return {
            name: filled(fields[name].annotation, value) if name in fields else value
            for name, value in data.items()
            if value is not None
        }

    def given(self) -> dict[str, Any]:
        """Return the explicit settings as plain values under their keys."""
        values: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return values

    def check_order(self, *pairs: tuple[str, str]) -> None:
        """Check that the numbers of two keys are in order; a value that is 0, a word or not set is no number."""
        values = self.model_dump(by_alias=True)
        for least, most in pairs:
            low, high = (str(values[key] or "") for key in (least, most))
            if low.isdecimal() and high.isdecimal() and int(low) > int(high):
                raise wrong(f"{least} {low} is above {most} {high}", "swap them", at=(least,))

    def remarks(self) -> list[Remark]:
        """Return remarks on valid values; paths are relative to this section."""
        return []

    def remarks_here(self, machine: "Machine") -> list[Remark]:
        """Return remarks on valid values that this machine cannot have, as `remarks`."""
        return []


def by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model by their keys in a document."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def wrong(what: str, right: str = "", *, at: KeyPath = (), line: int = 0) -> PydanticCustomError:
    """Return the error that a validator raises.

    Args:
        what: the error.
        right: the expected value.
        at: the key path below the validated value, if it is not the value itself.
        line: the line within a multi-line value, from 1; 0 for none.
    """
    return PydanticCustomError(WRONG, "{what}", {"what": what, "right": right, "at": list(at), "line": line})


def matching(pattern: str, kind: str, right: str) -> AfterValidator:
    """Return the validator of a kind of text: all of it must match a pattern."""

    def check(value: str | int) -> str | int:
        if not re.fullmatch(pattern, str(value)):
            raise wrong(f"{value!r} is not {kind}", right)
        return value

    return AfterValidator(check)


def in_any_case(data: Any, keys: Sequence[str]) -> Any:
    """Return a mapping with this section's key spelling; keys may be written in any case, as other readers accept."""
    if not isinstance(data, dict):
        return data
    known = {key.lower(): key for key in keys}
    found: dict[Any, Any] = {}
    for key, value in data.items():
        name = known.get(key.lower(), key) if isinstance(key, str) else key
        if name in found:
            raise wrong(f"duplicate key {name}", "keys of a class are case-insensitive", at=(key,))
        found[name] = value
    return found


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise wrong(f"{path!r} is not an absolute path", "start it with a slash")
    if "\0" in path or "/../" in f"{path}/":
        raise wrong(f"{path!r} goes through '..'", "write a plain absolute path")
    if not path.isprintable():
        raise wrong(f"{path!r} has control characters", "write a plain absolute path")
    return path.rstrip("/") or "/"


def _pattern(pattern: str) -> str:
    if not pattern:
        raise wrong("an empty pattern matches nothing", "write a name, or * for all")
    if "[" in pattern:
        raise wrong(f"{pattern!r} has a bracket", "use * for any text and ? for one character")
    return pattern


def _class_name(name: str) -> str:
    if not valid_class(name):
        raise wrong(
            f"{name!r} is not a valid class name", "a class's name is one part of a path, without control characters"
        )
    return name


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _one_number(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


OneNumber = BeforeValidator(_one_number)
"""A list of CPUs or nodes with one number, which YAML does not read as text: ``cpus: 4``."""

ONE_OR_LIST = WithJsonSchema({"type": ["string", "integer"]})

DURATION_PATTERN = r"^([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)$"
_DURATION = re.compile(DURATION_PATTERN)
_SECONDS_IN = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _seconds(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value)
    if found is None:
        raise wrong(f"{value!r} is not a duration", "write a number and ms, s, m or h: 30s")
    return float(found[1]) * _SECONDS_IN[found[2]]


Duration = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "pattern": DURATION_PATTERN}]}),
]
"""A duration: seconds, or a number with a unit, as in Kubernetes."""

AbsolutePath = Annotated[str, AfterValidator(_absolute), WithJsonSchema({"type": "string", "pattern": "^/"})]
"""An absolute path. `doctor` checks its existence."""

_PATH_SCHEMA = {"type": "string", "pattern": "^/"}
PATHS_SCHEMAS = [_PATH_SCHEMA, {"type": "array", "items": _PATH_SCHEMA}]

Paths = Annotated[list[AbsolutePath], BeforeValidator(_listed), WithJsonSchema({"anyOf": PATHS_SCHEMAS})]
"""One path or several."""

Pattern = Annotated[str, AfterValidator(_pattern)]
"""A name, with ``*`` for any text and ``?`` for one character."""

NamespacePattern = Annotated[str, AfterValidator(lambda pattern: _pattern(pattern) if pattern else pattern)]
"""As `Pattern`; the empty pattern matches only containers without a namespace, such as Podman's."""

ClassName = Annotated[str, AfterValidator(_class_name)]
"""A valid class name."""

Allow = dict[NamespacePattern, list[Pattern]]
"""Permitted classes by namespace: ``{namespace pattern: [class patterns]}``."""

FailurePolicy = Literal["ignore", "fail"]


def unique_names(items: list[Any]) -> list[Any]:
    """Validate that the names in a list of sections are unique."""
    names = [item.name for item in items]
    for index, name in enumerate(names):
        first = names.index(name)
        if first != index:
            what = f"duplicate name {name!r} (first at [{first}])"
            raise wrong(what, "use unique names", at=(index, "name"))
    return items


class FeatureSection(Section):
    """A section of a feature that can fail on its own account."""

    failure_policy: FailurePolicy | None = None
    """Failure policy of this feature. Default: the general `failurePolicy`."""

    def remarks(self) -> list[Remark]:
        """Return a remark for a feature that is configured but not enabled."""
        given = self.model_fields_set
        if getattr(self, "enabled", True) or "enabled" in given or given <= {"failure_policy"}:
            return []
        return [Remark((), "this section has no effect without `enabled: true`")]
