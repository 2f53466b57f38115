"""The options that houses add to commands."""

import inspect
from collections.abc import Callable
from typing import Any

from resctrl_hooks.core.parts import load, parts

_Command = Callable[..., Any]


def extended(name: str, **words: str) -> Callable[[_Command], _Command]:
    """Return a decorator that adds the houses' options, behind its own, to the function of a command.

    The function receives the values of those that its house does not use itself, for `PodField.read`. Its docstring,
    the help, has a field for each of the ``words``.
    """

    def decorate(command: _Command) -> _Command:
        if words:
            command.__doc__ = (command.__doc__ or "").format(**words)
        for part in parts():
            if name in part.options:
                command = load(part.options[name])(command)
        return command

    return decorate


def with_sentence(command: _Command, text: str) -> str:
    """Return the text of a command's help with another sentence at its end."""
    return f"{inspect.cleandoc(command.__doc__ or '')}\n{text}"
