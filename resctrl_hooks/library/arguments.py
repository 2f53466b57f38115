"""The rules of the library's arguments: a wrong type is a TypeError, and a value that is not valid a documented error.

Each check returns the value in its exact type: a text may be an enumeration's member, and a number numpy's.
"""

import errno
import operator
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from resctrl_hooks.core.node.errors import BadClassError, BadKeyError, BadPidError, LedgerError
from resctrl_hooks.core.node.host.files import format_json, parse_json
from resctrl_hooks.core.node.names import KEY_RULE, default_key_validator, valid_class
from resctrl_hooks.core.node.records import RECORDS
from resctrl_hooks.core.node.resctrl.filesystem import MON_GROUPS
from resctrl_hooks.core.node.resctrl.group import ADOPTED, CREATED, SHARED

_Kind = TypeVar("_Kind")
_LARGEST_PID = 1 << 22  # kernel, include/linux/threads.h, PID_MAX_LIMIT
_LONGEST_NAME = 255  # bytes; keys and prefixes are ASCII
_LONGEST_WAIT = 1e9  # seconds
_LARGEST_RECORD = 1 << 20  # bytes, of which a ledger reads no more
_PAGE = 1 << 12
_OWN_FIELDS = frozenset(("id", "key", "boot", "format", "pid", "start"))


def text(value: Any, what: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    return str.__str__(value)


def member(value: Any) -> str:
    """Return a member's name, one safe part of a path."""
    name = text(value, "member")
    if not default_key_validator(name):
        raise BadKeyError(f"invalid name of a member {name[:80]!r}", hint=KEY_RULE)
    return name


def rdt_class(value: Any) -> str:
    """Return the name of an RDT class; empty for the root class."""
    name = text(value, "rdt_class")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        valid = False
    else:
        valid = not name or valid_class(name)
    if not valid:
        raise BadClassError(f"invalid RDT class name: {name[:80]!r}")
    return name


def origin(value: Any) -> str:
    """Return the origin of a group."""
    found = text(value, "origin")
    if found not in (CREATED, ADOPTED, SHARED):
        raise ValueError(f"no origin of a group: {found[:80]!r}")
    return found


def group_name(value: Any) -> str:
    """Return the name of a group."""
    name = text(value, "name")
    if not valid_class(name):  # the kernel's rule is the same
        raise BadKeyError(f"invalid name of a group: {name[:80]!r}")
    return name


def check_group_name(name: str) -> None:
    """Raise BadKeyError for a prefix and key that the kernel refuses together: its own words would be EPERM."""
    if name == MON_GROUPS:
        raise BadKeyError(f"invalid name of a group: {name!r}", hint="the kernel reserves this name")
    if len(name) > _LONGEST_NAME:
        hint = f"the kernel accepts {_LONGEST_NAME} bytes: use a shorter prefix or key"
        raise BadKeyError(f"invalid name of a group: {name[:80]!r} and {len(name) - 80} bytes more", hint=hint)


def classes(value: Any) -> set[str]:
    """Return the names of RDT classes."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Collection):
        raise TypeError(f"classes must be a set of names, not {type(value).__name__}")
    return {rdt_class(one) for one in value}


def pid(value: Any) -> int:
    """Return a process id, or 0; not a bool, although Python's is an integer."""
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise TypeError(f"pid must be an int, not {type(value).__name__}")
    number = operator.index(value)
    if number < 0:
        raise BadPidError(f"invalid process id {_shortened(number)}: it is negative", errno=errno.EINVAL)
    if number > _LARGEST_PID:
        raise BadPidError(f"invalid process id {_shortened(number)}: it is too large", errno=errno.EINVAL)
    return number


def _shortened(number: int) -> str:
    return str(number) if number.bit_length() <= 64 else "of many digits"  # noqa: PLR2004


def patience(value: Any) -> float:
    """Return a number of seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"patience must be a number of seconds, not {type(value).__name__}")
    if not 0 <= value <= _LONGEST_WAIT:
        raise ValueError(f"patience must be 0 to {_LONGEST_WAIT:g} seconds")
    return float(value)


def flag(value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise TypeError(f"expected a bool, not {type(value).__name__}")
    return value


def details(value: Any) -> dict[str, Any]:
    """Return a member's data as it will be read again."""
    if not isinstance(value, Mapping):
        raise TypeError(f"details must be a mapping, not {type(value).__name__}")
    for name in value:
        if text(name, "a name in details") in _OWN_FIELDS:
            raise ValueError(f"details cannot have the record's own field {name!r}")
    try:
        data = format_json(dict(value))
        read: dict[str, Any] = parse_json(data.ljust(_PAGE))  # the stricter rules of long records
    except RecursionError:
        raise ValueError("details are nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise type(error)(f"details must be JSON values: {error}") from error
    if len(data) > _LARGEST_RECORD >> 1:
        raise LedgerError("details would be too large to be read again", errno=errno.EFBIG)
    if not RECORDS["member"](read):
        raise ValueError("details have a field of the hooks' records with a value of another type")
    return read


def names(value: Any, what: str) -> Iterable[Any]:
    """Return several names; a text would be the names of its letters."""
    if isinstance(value, (str, bytes, bytearray)) or not isinstance(value, Iterable):
        raise TypeError(f"{what} must be an iterable of keys, not {type(value).__name__}")
    return value


def folder(value: Any, what: str) -> str:
    """Return an absolute path: the process may change its folder later."""
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    path = text(path, what)
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} has characters that no path can have") from error
    if not path or "\0" in path:
        raise ValueError(f"{what} must be a path, not {path[:80]!r}")
    return os.path.join(os.getcwd(), path).rstrip("/") if path[0] != "/" else path.rstrip("/") or "/"


def instance(value: Any, kind: type[_Kind]) -> _Kind:
    """Return an object of a class of this package."""
    if not isinstance(value, kind):
        raise TypeError(f"expected a {kind.__name__}, not {type(value).__name__}")
    return value


def function(value: _Kind, what: str) -> _Kind:
    """Return a callable."""
    if not callable(value):
        raise TypeError(f"{what} must be a callable, not {type(value).__name__}")
    return value


def argv(value: Any) -> Any:
    """Return a program with its arguments, which `subprocess.Popen` checks."""
    if isinstance(value, (str, bytes, os.PathLike)):
        return value
    words = list(value)
    if not words:
        raise ValueError("argv names no program")
    return words
