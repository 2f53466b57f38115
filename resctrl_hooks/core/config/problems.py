"""Problems of a configuration in the operator's terms: file, line, key, error, remedy."""

import difflib
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from .document import Document
from .section import WRONG, KeyPath, Section, by_key

Severity = Literal["error", "warning", "note"]
_SHOWN = 60

# The expected value, by pydantic's error type.
_KINDS = {
    "string_type": "a text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


# The expected number, by pydantic's error type, whose context has the limit under the second name.
_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_EMPTY = ("string_too_short", "too_short")


@dataclass(frozen=True)
class Problem:
    """One problem. ``key`` is the key path in YAML notation; ``line`` counts from 1, 0 if unknown."""

    what: str
    right: str = ""
    key: str = ""
    line: int = 0
    file: str = ""
    severity: Severity = "error"

    def __str__(self) -> str:
        """Return the problem as one line: ``FILE:LINE: KEY: error; remedy``."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        text = ": ".join(part for part in (place, self.key, self.what) if part)
        return f"{text}; {self.right}" if self.right else text


class InvalidConfigError(Exception):
    """An invalid configuration, with all of its problems."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))  # one line, also in the journal
        self.problems = problems


def dotted(path: KeyPath) -> str:
    """Return a key path in YAML notation: ``classes[0].name``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.isidentifier() or "-" in part:
            text += f".{part}" if text else part
        else:
            text += f"[{part!r}]"
    return text


def at(
    path: KeyPath, document: Document, what: str, right: str = "", severity: Severity = "error", within: int = 0
) -> Problem:
    """Return a problem of the value at a key path; ``within`` is a line within the value."""
    return Problem(what, right, dotted(path), document.line(path, within), document.path, severity)


def of_validation(error: ValidationError, model: type[Section], document: Document) -> list[Problem]:
    """Return all problems that pydantic found, in the order of the file's lines."""
    alternatives: dict[KeyPath, list[ErrorDetails]] = {}
    found = []
    for details in error.errors():
        path, branch = _in_document(details, document.value)
        if branch is None:
            found.append(_of_details(details, path, model, document))
        else:
            alternatives.setdefault(branch, []).append(details)
    for branch, several in alternatives.items():
        found += _of_alternatives(branch, several, model, document)
    return sorted(found, key=lambda problem: problem.line)


def _in_document(details: ErrorDetails, value: Any) -> tuple[KeyPath, KeyPath | None]:
    """Return the path of an error in the document, and of the value for which pydantic tried several types, if any.

    Pydantic's paths also contain the type that it tried, which is not a key of the document.
    """
    path: KeyPath = ()
    branch: KeyPath | None = None
    location = details["loc"]
    for part in location:
        if isinstance(value, dict) and isinstance(part, str):
            spelled = next((key for key in value if key == part or key.lower() == part), None)
            if spelled is None and details["type"] == "missing" and part is location[-1]:
                spelled = part
            if spelled is not None:
                path, value = (*path, part), value.get(spelled)
                continue
        elif isinstance(value, list) and isinstance(part, int):
            path, value = (*path, part), value[part]
            continue
        if part != "[key]":
            branch = path if branch is None else branch
    return path, branch


def _of_alternatives(
    branch: KeyPath, several: list[ErrorDetails], model: type[Section], document: Document
) -> list[Problem]:
    """Return the problem of a value with several possible types: the one within a matching type, else a type error."""
    paths = [_in_document(details, document.value)[0] for details in several]
    found = list(zip(several, paths, strict=True))
    within = [(details, path) for details, path in found if not _kind_of(details) or path != branch]
    if within or len(several) == 1:
        return [_of_details(details, path, model, document) for details, path in within or found]
    kinds = " or ".join(dict.fromkeys(map(_kind_of, several)))
    return [at(branch, document, f"should be {kinds}, not {_shown(several[0]['input'])}")]


def _kind_of(details: ErrorDetails) -> str:
    """Return the kind of value that was expected, or its only allowed values; empty for other errors."""
    kind = details["type"]
    return " or ".join(_choices(details["ctx"]["expected"])) if kind == "literal_error" else _KINDS.get(kind, "")


def _of_details(details: ErrorDetails, path: KeyPath, model: type[Section], document: Document) -> Problem:
    context = details.get("ctx", {})
    path += tuple(context.get("at", ()))
    return at(path, document, *_words(details, path, model), within=context.get("line", 0))


def _words(details: ErrorDetails, path: KeyPath, model: type[Section]) -> tuple[str, str]:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == WRONG:
        return context["what"], context["right"]
    if kind == "extra_forbidden":
        return "unknown key", _instead(path, model)
    if kind == "missing":
        return "is required", "add it"
    if kind in _KINDS:
        quotes = "; put it in quotes" if kind == "string_type" and isinstance(value, (bool, int, float)) else ""
        return f"should be {_KINDS[kind]}, not {_shown(value)}", quotes.removeprefix("; ")
    if kind == "literal_error":
        choices = _choices(context["expected"])
        close = _close(value, choices) if isinstance(value, str) else ""  # `off` is false in YAML, not "fail"
        return f"{_shown(value)} is not an allowed value", close or f"choose {', '.join(choices[:-1])} or {choices[-1]}"
    if kind in _BOUNDS:
        words, name = _BOUNDS[kind]
        return f"{_shown(value)} should be {words} {context[name]:g}", ""
    if kind in _EMPTY:
        return "should not be empty", ""
    return f"{_shown(value)}: {details['msg'][:1].lower()}{details['msg'][1:]}", ""


def _choices(expected: str) -> list[str]:
    """Return the words in pydantic's "'a', 'b' or 'c'"."""
    return expected.split("'")[1::2]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _close(word: str, known: list[str]) -> str:
    """Return the known word that was probably meant, ignoring case and dashes."""
    plain = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower().replace("_", "").replace("-", ""), list(plain), 1, 0.6)
    return f'did you mean "{plain[close[0]]}"?' if close else ""


def _instead(path: KeyPath, model: type[Section]) -> str:
    """Return the replacement for an unknown key."""
    section = _model_at(model, path[:-1])
    name = str(path[-1])
    if section is None:
        return ""
    known = [*by_key(section)]
    close = _close(name, known)
    elsewhere = [] if close else [key for key in _homes(model, name) if key != dotted(path)]
    if elsewhere:
        return f"it belongs to {' or '.join(elsewhere)}"
    return close or f"known here: {', '.join(known)}"


def _homes(model: type[Section], name: str, above: KeyPath = ()) -> list[str]:
    """Return the places of the configuration that have a key of that name."""
    homes = []
    for key, field in by_key(model).items():
        path = (*above, key)
        if key == name:
            homes.append(dotted(path))
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            homes += _homes(inner, name, path)
    return homes


def _model_at(annotation: Any, path: KeyPath) -> type[BaseModel] | None:
    """Return the model at a key path, through lists, mappings and alternatives."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if not path:
            return annotation
        field = by_key(annotation).get(str(path[0]))
        return _model_at(field.annotation, path[1:]) if field is not None else None
    if origin in (list, dict) and path:
        return _model_at(arguments[-1], path[1:])
    if origin is not None and hasattr(annotation, "__metadata__"):
        return _model_at(arguments[0], path)
    if origin is Union or type(annotation).__name__ == "UnionType":
        return next((found for each in arguments if (found := _model_at(each, path)) is not None), None)
    return None
