"""The one way into each public method: arguments are checked by their names, and only documented errors come out.

A parameter without a rule here is an error when the class is created, so no method can be forgotten.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from resctrl_hooks.core.node.errors import BadKeyError, HookError
from resctrl_hooks.core.node.names import RESCTRL_ROOT
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey
from resctrl_hooks.core.node.resctrl.monitor import Monitor
from resctrl_hooks.core.node.resctrl.open_files import OpenFiles

from . import arguments

_Kind = TypeVar("_Kind", bound=type)
_Rule = Callable[[Any, Any], Any]


def _canonical_key(monitor: Monitor, value: Any) -> str:
    key = Monitor.canonical_key(monitor, arguments.text(value, "key"))
    if Monitor.canonical_key(monitor, key) != key:
        raise BadKeyError(f"invalid key {key!r}", hint="the key_canonicalizer changes a canonical key")
    return key


def _live(monitor: Monitor, value: Any) -> list[str]:
    return [_canonical_key(monitor, one) for one in arguments.names(value, "live")]


RULES: dict[str, _Rule] = {
    "key": _canonical_key,
    "live": _live,
    "member": lambda _, value: arguments.member(value),
    "rdt_class": lambda _, value: arguments.rdt_class(value),
    "origin": lambda _, value: arguments.origin(value),
    "name": lambda _, value: arguments.group_name(value),
    "classes": lambda _, value: arguments.classes(value),
    "pid": lambda _, value: arguments.pid(value),
    "patience": lambda _, value: arguments.patience(value),
    "by_class": lambda _, value: arguments.flag(value),
    "details": lambda _, value: arguments.details(value),
    "locked": lambda _, value: arguments.instance(value, LockedKey),
    "files": lambda _, value: arguments.instance(value, OpenFiles),
    "argv": lambda _, value: arguments.argv(value),
}

_PASS_OS_ERRORS = ("start",)  # the program's own, as subprocess raises them


def checked(kind: _Kind) -> _Kind:
    """Let every public method of a class, inherited or not, enter through `_enter`."""
    for name in dir(kind):
        method = getattr(kind, name)
        if not name.startswith("_") and isinstance(method, type(checked)):
            setattr(kind, name, _entered(method))
    return kind


def _entered(method: Callable[..., Any]) -> Callable[..., Any]:
    code = method.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    positional = names[: code.co_argcount - 1]
    given = method.__defaults__ or ()
    defaults = dict(zip(positional[len(positional) - len(given) :], given, strict=True))
    defaults.update(method.__kwdefaults__ or {})
    if not RULES.keys() >= set(names):
        raise TypeError(f"{method.__qualname__}: an argument without a rule: {set(names) - RULES.keys()}")
    rules = {name: RULES[name] for name in names}

    def check(owner: Any, name: str, value: Any) -> Any:
        if name not in rules or (name in defaults and value is defaults[name]):
            return value
        return rules[name](owner, value)

    @functools.wraps(method)
    def enter(self: Any, *args: Any, **named: Any) -> Any:
        try:
            # The method itself refuses arguments that are too many, and unknown names.
            found = [check(self, name, value) for name, value in zip(positional, args, strict=False)]
            found += args[len(found) :]
            named = {name: check(self, name, value) for name, value in named.items()}
            return method(self, *found, **named)
        except HookError as error:
            in_programs_words(error)
            raise
        except OSError as error:
            if method.__name__ in _PASS_OS_ERRORS:
                raise
            raise HookError.of_file(error, str(error.filename or "a file of the kernel")) from error

    return enter


def in_programs_words(error: HookError) -> HookError:
    """Replace a hint of the hooks, such as "reconcile will complete the rest", by the remedy of a program."""
    hint = type(error).hint
    if error.remedy and error.hint.replace(RESCTRL_ROOT, "") == hint.replace(RESCTRL_ROOT, ""):
        error.hint = error.remedy
    return error
